// Pipelines in Python, as their authors see them: written, published, run, read, refused.
import { type APIRequestContext, expect, test } from '@playwright/test'
import {
  fresh,
  type MadePipeline,
  newNamespace,
  newPipeline,
  pythonOf,
  readiness,
  writeFile,
} from './resources.ts'

test.beforeEach(async ({ request }) => {
  const python = await pythonOf(request)
  // biome-ignore lint/suspicious/noSkippedTests: a machine without Python runs everything else
  test.skip(python === null, 'pipelines in Python cannot run on this machine')
})

type Run = { id: string; status: string; error: string | null; rows_written: number | null }

async function runOf(request: APIRequestContext, { namespace, layer, name }: MadePipeline): Promise<Run> {
  const asked = await request.post('/api/v1/runs', { data: { namespace, layer, pipeline: name } })
  expect(asked.status(), await asked.text()).toBe(202)
  const { run_id } = await asked.json()
  const run = async () => (await request.get(`/api/v1/runs/${run_id}`)).json()
  await expect.poll(async () => (await run()).finished_at, { intervals: [50, 100, 200] }).not.toBeNull()
  return run()
}

async function logOf(request: APIRequestContext, { id }: Run): Promise<{ level: string; message: string }[]> {
  return (await (await request.get(`/api/v1/runs/${id}/logs`)).json()).logs
}

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
  expect(await runOf(request, pipeline)).toMatchObject({ status: 'success', rows_written: 1 })
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
    expect(await runOf(request, pipeline)).toMatchObject({ status: 'success', error: null })
  }
  const rows = await request.post('/api/v1/query', {
    data: { sql: `select orders, total from silver."${totals.name}"`, namespace },
  })
  expect((await rows.json()).rows).toEqual([{ orders: 2, total: expect.anything() }])
})

test('an exception is the error of the run, with its line, and its traceback is in the log', async ({
  request,
}) => {
  const pipeline = await newPython(request, 'print("so far so good")\nresult = {}["nothing"]')
  const run = await runOf(request, pipeline)
  expect(run).toMatchObject({
    status: 'failed',
    error: "executing: pipeline.py line 2: KeyError: 'nothing'",
  })
  const log = await logOf(request, run)
  expect(log).toContainEqual(expect.objectContaining({ level: 'info', message: 'so far so good' }))
  const traceback = log.find(({ message }) => message.startsWith('Traceback'))
  expect(traceback?.message).toContain('File "pipeline.py", line 2, in <module>')
})

test('a preview shows its rows and what it says, without a run', async ({ request }) => {
  const pipeline = await newPython(request, 'print("looking")\nresult = [{"a": 1}, {"a": None}]')
  const preview = (data?: object) => request.post(`${pipeline.url}/preview`, { data })
  const body = await (await preview()).json()
  expect(body).toMatchObject({
    columns: [{ name: 'a', type: 'BIGINT' }],
    rows: [[1], [null]],
    total_row_count: 2,
    phases: [{ name: 'template_render' }, { name: 'sql_execute' }, { name: 'profiling' }],
    warnings: [],
  })
  expect(body.explain_output).toContain('2 rows')
  expect(body.memory_peak_bytes).toBeGreaterThan(0)
  expect(body.logs).toContainEqual(expect.objectContaining({ level: 'info', message: 'looking' }))
  expect(await (await preview({ code: 'result = {"b": [2]}', limit: 1 })).json()).toMatchObject({
    rows: [[2]],
  })

  const refused = await preview({ code: 'x = 1\nresult = 1 / 0' })
  expect(refused.status()).toBe(400)
  expect((await refused.json()).error.message).toBe('pipeline.py line 2: ZeroDivisionError: division by zero')
  const { namespace, name } = pipeline
  const runs = await request.get('/api/v1/runs', { params: { namespace, pipeline: name } })
  expect(await runs.json()).toEqual({ runs: [], total: 0 })
})

test('a syntax error fails publish with its line and column', async ({ request }) => {
  const pipeline = await newPython(request, 'x = 1\nfor x in\n')
  const refused = await request.post(`${pipeline.url}/publish`)
  expect(refused.status()).toBe(422)
  expect(await refused.text()).toContain('line 2 column 9: SyntaxError: invalid syntax')
})

test('what wants out of the sandbox fails, and the service goes on', async ({ request }) => {
  const pipeline = await newPython(request, '')
  for (const [attempt, reason] of [
    ['open("/proc/self/environ").read()', /No such file|Permission denied/],
    ['import os; os.kill(os.getppid(), 9)', /sends no signals to other processes/],
    ['import socket; socket.create_connection(("127.0.0.1", 8080), 1)', /has no network/],
    ['import subprocess; subprocess.run(["id"])', /has no other processes/],
    ['import os; os.symlink("/etc/passwd", "x")', /has no symbolic links/],
    ['x = bytearray(1 << 40)', /MemoryError/],
    ['import os; os._exit(1)', /the Python process is gone/],
  ] as const) {
    await writeFile(request, `${pipeline.prefix}pipeline.py`, attempt)
    const run = await runOf(request, pipeline)
    expect(run.status).toBe('failed')
    expect(run.error).toMatch(reason)
    expect(run.error).toMatch(/^executing: pipeline\.py/)
  }
  await readiness(request)
})

test('a run that never ends is cancelled', async ({ request }) => {
  const pipeline = await newPython(request, 'print("on")\nwhile True: pass')
  const { namespace, layer, name } = pipeline
  const asked = await request.post('/api/v1/runs', { data: { namespace, layer, pipeline: name } })
  const { run_id: id } = await asked.json()
  const log = async () => (await logOf(request, { id } as Run)).map(({ message }) => message)
  await expect.poll(log, { intervals: [50, 100, 200] }).toContain('on')
  expect((await request.post(`/api/v1/runs/${id}/cancel`)).status()).toBe(200)
  expect(await (await request.get(`/api/v1/runs/${id}`)).json()).toMatchObject({ status: 'cancelled' })
})
