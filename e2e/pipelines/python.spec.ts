// Python pipelines as their authors see them: written, published, run and read.
import { expect, test } from '@playwright/test'
import {
  newNamespace,
  newPipeline,
  newZone,
  pipelineWith,
  publish,
  pythonOf,
  rowsOf,
} from '../kit/resources.ts'
import { runToSuccess } from '../kit/runs.ts'

test.beforeEach(async ({ request }) => {
  const python = await pythonOf(request)
  // biome-ignore lint/suspicious/noSkippedTests: a machine without Python runs everything else
  test.skip(python === null, 'pipelines in Python cannot run on this machine')
})

test('a new Python pipeline publishes and runs unchanged', async ({ request }) => {
  const pipeline = await newPipeline(request, { type: 'python' })
  await publish(request, pipeline)
  expect((await runToSuccess(request, pipeline)).rows_written).toBe(1)
})

test('Python pipelines make tables from files and from other tables', async ({ request }) => {
  const namespace = await newNamespace(request)
  const { name: zone, upload } = await newZone(request, namespace)
  await upload('orders.csv', 'id,price\n1,9.50\n2,0.25\n')
  const orders = await pipelineWith(
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
    { namespace, type: 'python' },
  )
  const totals = await pipelineWith(
    request,
    `result = sql("select count(*) as orders, sum(price) as total from " + ref("bronze.${orders.name}"))`,
    { namespace, layer: 'silver', type: 'python' },
  )
  for (const pipeline of [orders, totals]) {
    await publish(request, pipeline)
    await runToSuccess(request, pipeline)
  }
  const rows = await rowsOf(request, `select orders, total from silver."${totals.name}"`, namespace)
  expect(rows).toEqual([{ orders: 2, total: expect.anything() }])
})
