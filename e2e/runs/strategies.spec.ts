// Write strategies as their users see them: files arrive in batches, runs merge them, and queries read the table.
import { type APIRequestContext, expect, test } from '@playwright/test'
import {
  newNamespace,
  newPipeline,
  newZone,
  pipelineWith,
  publish,
  rowsOf,
  writeFile,
} from '../kit/resources.ts'
import { type EndedRun, runToEnd } from '../kit/runs.ts'

interface Feed {
  namespace: string
  /** Uploads the lines as a CSV file, runs the pipeline and returns the run. */
  deliver(...lines: string[]): Promise<EndedRun>
  /** Rows of the pipeline's table in this order, each as a list of values. */
  rows(order: string, columns?: string): Promise<unknown[][]>
}

/** A published pipeline that consumes each uploaded file once. */
async function newFeed(request: APIRequestContext, config: string, header: string): Promise<Feed> {
  const namespace = await newNamespace(request)
  const zone = await newZone(request, namespace)
  const sql = `select * from read_csv('{{ landing_zone("${zone.name}") }}', header = true, nullstr = 'NULL')`
  const pipeline = await pipelineWith(request, sql, { namespace, layer: 'silver' })
  await writeFile(request, `${pipeline.prefix}config.yaml`, `archive_landing_zones: true\n${config}`)
  await publish(request, pipeline)
  let columns = header
  return {
    namespace,
    async deliver(...lines) {
      const [first = ''] = lines
      if (first.startsWith('#')) columns = (lines.shift() ?? '').slice(1)
      await zone.upload('batch.csv', `${[columns, ...lines].join('\n')}\n`)
      return runToEnd(request, pipeline)
    },
    async rows(order, columns = '*') {
      const query = `select ${columns} from silver."${pipeline.name}" order by ${order}`
      return (await rowsOf(request, query, namespace)).map((row: object) => Object.values(row))
    },
  }
}

const wrote = (rows: number) => ({ status: 'success', error: null, rows_written: rows })

test('incremental replaces rows of known keys; the last row per key wins', async ({ request }) => {
  const feed = await newFeed(request, 'merge_strategy: incremental\nunique_key: id', 'id,word')
  expect(await feed.deliver('1,one', '2,two', 'NULL,nobody', '2,zwei')).toMatchObject(wrote(3))
  expect(await feed.deliver('2,deux', '3,trois', 'NULL,personne')).toMatchObject(wrote(3))
  expect(await feed.rows('id nulls last')).toEqual([
    [1, 'one'],
    [2, 'deux'],
    [3, 'trois'],
    [null, 'personne'],
  ])
})

test('a strategy without its required key fails publish and run, naming it', async ({ request }) => {
  for (const [strategy, key] of [
    ['incremental', 'unique_key'],
    ['delete_insert', 'unique_key'],
    ['scd2', 'unique_key'],
    ['snapshot', 'partition_column'],
  ] as const) {
    const pipeline = await newPipeline(request)
    await writeFile(request, `${pipeline.prefix}config.yaml`, `merge_strategy: ${strategy}\n`)
    const published = await request.post(`${pipeline.url}/publish`)
    expect(published.status()).toBe(422)
    expect(await published.text()).toContain(`merge_strategy ${strategy} needs ${key}`)
    const run = await runToEnd(request, pipeline)
    expect(run.status).toBe('failed')
    expect(run.error).toContain(`merge_strategy ${strategy} needs ${key}`)
  }
})

test('an incremental pipeline reads rows after its watermark', async ({ request }) => {
  const namespace = await newNamespace(request)
  const pipeline = await pipelineWith(
    request,
    `select i as id, '{{ watermark_value }}' as seen from range(100) t(i)
     where i < {% if is_incremental() and watermark_value %}{{ watermark_value }} + 3 and i > {{ watermark_value }}{% else %}2{% endif %}`,
    { namespace, layer: 'gold' },
  )
  const config = 'merge_strategy: incremental\nunique_key: id\nwatermark_column: id\n'
  await writeFile(request, `${pipeline.prefix}config.yaml`, config)
  const run = () => runToEnd(request, pipeline)
  expect(await run()).toMatchObject(wrote(2))
  expect(await run()).toMatchObject(wrote(2))
  const sql = `select id, seen from gold."${pipeline.name}" order by id`
  expect(await rowsOf(request, sql, namespace)).toEqual([
    { id: 0, seen: 'none' },
    { id: 1, seen: 'none' },
    { id: 2, seen: '1' },
    { id: 3, seen: '1' },
  ])
})
