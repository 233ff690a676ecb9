// Pipelines in Python, as their authors see them: written, published, run, read, refused.
import { type APIRequestContext, expect, test } from '@playwright/test'
import { fresh, newNamespace, newPipeline, pythonOf, writeFile } from './resources.ts'
import { runToEnd } from './runs.ts'

test.beforeEach(async ({ request }) => {
  const python = await pythonOf(request)
  // biome-ignore lint/suspicious/noSkippedTests: a machine without Python runs everything else
  test.skip(python === null, 'pipelines in Python cannot run on this machine')
})

async function newPython(request: APIRequestContext, source: string, layer = 'bronze', namespace?: string) {
  const pipeline = await newPipeline(request, {
    namespace: namespace ?? (await newNamespace(request)),
    layer,
    name: fresh('py'),
    type: 'python',
  })
  await writeFile(request, `${pipeline.prefix}pipeline.py`, source)
  return pipeline
}

test('the one that is written at creation publishes and runs as it is', async ({ request }) => {
  const namespace = await newNamespace(request)
  const pipeline = await newPipeline(request, {
    namespace,
    layer: 'bronze',
    name: fresh('py'),
    type: 'python',
  })
  expect((await request.post(`${pipeline.url}/publish`)).status()).toBe(200)
  expect(await runToEnd(request, pipeline)).toMatchObject({ status: 'success', rows_written: 1 })
})

test('two of them make a table from files, and a table from that table', async ({ request }) => {
  const namespace = await newNamespace(request)
  const zone = fresh('drops')
  await request.post('/api/v1/landing-zones', { data: { namespace, name: zone } })
  const file = { name: 'orders.csv', mimeType: 'text/csv', buffer: Buffer.from('id,price\n1,9.50\n2,0.25\n') }
  await request.post(`/api/v1/landing-zones/${namespace}/${zone}/files`, { multipart: { file } })
  const orders = await newPython(
    request,
    `
import csv, decimal, glob
result = []
for path in glob.glob(landing_zone("${zone}")):
    with open(path) as lines:
        for row in csv.DictReader(lines):
            result.append({"id": int(row["id"]), "price": decimal.Decimal(row["price"])})
print(f"{len(result)} orders")
`,
    'bronze',
    namespace,
  )
  const totals = await newPython(
    request,
    `result = sql("select count(*) as orders, sum(price) as total from " + ref("bronze.${orders.name}"))`,
    'silver',
    namespace,
  )
  for (const pipeline of [orders, totals]) {
    const published = await request.post(`${pipeline.url}/publish`)
    expect(published.status(), await published.text()).toBe(200)
    expect(await runToEnd(request, pipeline)).toMatchObject({ status: 'success', error: null })
  }
  const rows = await request.post('/api/v1/query', {
    data: { sql: `select orders, total from silver."${totals.name}"`, namespace },
  })
  expect((await rows.json()).rows).toEqual([{ orders: 2, total: expect.anything() }])
})
