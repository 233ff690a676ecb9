// A run is a pull request for data. Readers never see rows that its tests refuse, and the table stays unchanged.
import { type APIRequestContext, expect, test } from '@playwright/test'
import { addTest, getJson, newNamespace, rowsOf, writeFile } from '../kit/resources.ts'
import { newTable, runToEnd } from '../kit/runs.ts'

const ROWS = 200_000

/** Reads repeatedly until it is stopped. Stopping returns every distinct result. */
function readingThroughout(request: APIRequestContext, sql: string) {
  const seen = new Set<string>()
  let isStopped = false
  const ended = (async () => {
    while (!isStopped) seen.add(JSON.stringify(await rowsOf(request, sql)))
  })()
  return async () => {
    isStopped = true
    await ended
    return [...seen]
  }
}

test('a failing gate leaves the table unchanged and its bad rows unseen @run.gate.error', async ({
  request,
}) => {
  const namespace = await newNamespace(request)
  const good = `select range as id, 'good' as word from range(${ROWS})`
  const pipeline = await newTable(request, { namespace, layer: 'gold' }, good)
  const table = `"${namespace}".gold."${pipeline.name}"`
  const url = `/api/v1/tables/${namespace}/gold/${pipeline.name}`
  const onlyGood = `select word from {{ this }} where word <> 'good'`
  await addTest(request, pipeline, { name: 'only-good', severity: 'error', sql: onlyGood })
  const before = await getJson(request, url)

  const stop = readingThroughout(
    request,
    `select word, count(*) as n, sum(hash(id)) as fingerprint from ${table} group by all`,
  )
  await writeFile(
    request,
    `${pipeline.prefix}pipeline.sql`,
    good.replace("'good'", "if(range % 2 = 0, 'good', 'bad')"),
  )
  expect(await runToEnd(request, pipeline)).toMatchObject({
    status: 'failed',
    rows_written: null,
    merged_commit: null,
    error: `testing: 1 quality test failed: only-good (${ROWS / 2} rows: word=bad; word=bad; word=bad)`,
  })
  expect(await stop()).toHaveLength(1)
  expect(await getJson(request, url)).toEqual(before)
})

test('concurrent runs of a pipeline never interleave; readers see whole results', async ({ request }) => {
  const namespace = await newNamespace(request)
  const pipeline = await newTable(
    request,
    { namespace, layer: 'gold' },
    `select range as id, '{{ run_started_at }}' as stamp from range(${ROWS})`,
  )
  const table = `"${namespace}".gold."${pipeline.name}"`
  const stop = readingThroughout(request, `select count(*) as n, count(distinct stamp) as runs from ${table}`)
  const runs = await Promise.all(Array.from({ length: 4 }, () => runToEnd(request, pipeline)))
  for (const { status } of runs) expect(status).toBe('success')
  expect(await stop()).toEqual([JSON.stringify([{ n: ROWS, runs: 1 }])])
  const commits = runs.map((each) => each.merged_commit).toSorted((a, b) => a - b)
  expect(new Set(commits).size).toBe(4)
  const spans = runs
    .map((each) => [Date.parse(each.started_at), Date.parse(each.finished_at)])
    .toSorted((a, b) => (a[0] ?? 0) - (b[0] ?? 0))
  for (const [index, span] of spans.slice(1).entries())
    expect(span[0]).toBeGreaterThanOrEqual(spans[index]?.[1] ?? Number.POSITIVE_INFINITY)
})

test('append_only adds whole batches; a failed run adds nothing', async ({ request }) => {
  const namespace = await newNamespace(request)
  const pipeline = await newTable(
    request,
    { namespace, layer: 'bronze' },
    '-- @merge_strategy: append_only\nselect range as id from range(1000)',
  )
  const table = `"${namespace}".bronze."${pipeline.name}"`
  expect((await runToEnd(request, pipeline)).status).toBe('success')
  expect(await rowsOf(request, `select count(*) as n from ${table}`)).toEqual([{ n: 2_000 }])
  const noRepeats = 'select id from {{ this }} group by id having count(*) > 2'
  await addTest(request, pipeline, { name: 'no-repeats', severity: 'error', sql: noRepeats })
  expect((await runToEnd(request, pipeline)).status).toBe('failed')
  expect(await rowsOf(request, `select count(*) as n from ${table}`)).toEqual([{ n: 2_000 }])
})
