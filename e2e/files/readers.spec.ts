// Specification: Readers of files. A run stores what its files say, or fails with the name of the file.
import { gzipSync } from 'node:zlib'
import { expect, test } from '@playwright/test'
import {
  newNamespace,
  newZone,
  pipelineWith,
  publish,
  publishedPipeline,
  pythonOf,
  rowsOf,
} from '../kit/resources.ts'
import { logOf, runToEnd, runToSuccess } from '../kit/runs.ts'

const late = (count: number, early: string, last: string) =>
  `id,qty\n${Array.from({ length: count }, (_, id) => `${id},${early}\n`).join('')}${count},${last}\n`

test('a run reads all values before it chooses types @readers.all', async ({ request }) => {
  const namespace = await newNamespace(request)
  const { name: zone, upload } = await newZone(request, namespace)
  await upload('a.csv', late(30_000, '1', '1.5'))
  const read = `read_csv_auto('{{ landing_zone("${zone}") }}')`
  const pipeline = await publishedPipeline(request, `select max(qty) as qty from ${read}`, { namespace })
  const run = await runToSuccess(request, pipeline)
  expect(await rowsOf(request, `select qty from gold."${pipeline.name}"`, namespace)).toEqual([{ qty: 1.5 }])
  expect((await logOf(request, run.id)).map(({ message }) => message)).toContainEqual(
    expect.stringContaining('sample_size=-1, union_by_name=true'),
  )
  const preview = await request.post(`${pipeline.url}/preview`, { data: {} })
  expect((await preview.json()).rows).toEqual([[1.5]])
})

test('sql() of Python reads all values @readers.python', async ({ request }) => {
  // biome-ignore lint/suspicious/noSkippedTests: a machine without Python runs everything else
  test.skip((await pythonOf(request)) === null, 'pipelines in Python cannot run on this machine')
  const namespace = await newNamespace(request)
  const { name: zone, upload } = await newZone(request, namespace)
  await upload('a.csv', late(30_000, '1', '1.5'))
  const source = `result = sql("select max(qty) as qty from read_csv(?)", [landing_zone("${zone}")])`
  const pipeline = await pipelineWith(request, source, { namespace, type: 'python' })
  await publish(request, pipeline)
  await runToSuccess(request, pipeline)
  expect(await rowsOf(request, `select qty from bronze."${pipeline.name}"`, namespace)).toEqual([
    { qty: 1.5 },
  ])
})

test('a cut file and a date with two meanings fail the run @readers.refused', async ({ request }) => {
  const namespace = await newNamespace(request)
  for (const [file, content, reason] of [
    ['cut.csv.gz', gzipSync(late(50_000, '1', '2')).subarray(0, 40_000), /cut or damaged/],
    ['cut.json', '[{"id":1},{"id":2},', /has no end/],
    ['quote.csv', 'id,name\n1,"a"\n2,"b', /ends within a quote/],
    ['deep.json', `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`, /more than 200 levels/],
    ['short.csv', 'id,name\n1,a\n2', /one column "id,name"/],
    ['dates.csv', 'id,day\n1,03/04/2026\n', /column "day": "03\/04\/2026".+dateformat/],
  ] as const) {
    const { name: zone, upload } = await newZone(request, namespace)
    await upload(file, content)
    const sql = `select *\nfrom ${file.endsWith('json') ? 'read_json' : 'read_csv'}('{{ landing_zone("${zone}") }}')`
    const { status, error } = await runToEnd(request, await publishedPipeline(request, sql, { namespace }))
    expect([status, error]).toEqual(['failed', expect.stringMatching(reason)])
    expect(error).toContain(`pipeline.sql line 2: landing/${zone}/`)
    expect(error).toContain(file)
    if (file !== 'deep.json') continue
    const schema = await request.get(`/api/v1/landing-zones/${namespace}/${zone}/schema`)
    expect([schema.status(), await schema.text()]).toEqual([400, expect.stringMatching(reason)])
  }
})
