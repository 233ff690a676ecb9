import { beforeEach, expect, test } from 'bun:test'
import { newId, type RunId } from '../../core/ids.ts'
import { mergeBranches, openBranches } from '../../versions/store/branches.ts'
import { tablesIn } from '../../versions/store/tables.ts'
import { closeUserBranch } from '../../versions/store/user-branches.ts'
import { commitToTestBranch, openTestBranch } from '../../versions/test-rows.ts'
import { anySlot } from '../placement.ts'
import { accepted, executed, RUNNER, useRuns } from '../test-runs.ts'
import { openAttemptsOf } from './attempts.ts'
import { startWaiting } from './start.ts'

const { opened, pipelineNamed, start, tell } = useRuns()
beforeEach(async () => {
  const { sql } = opened
  await sql`truncate run, run_attempt, run_log, run_file, trigger_event, transition, outbox, pipeline, pipeline_version,
    landing_file, landing_zone, lake_ref, lake_commit, main_entry, branch_entry, lake_content, trigger cascade`
  await sql`insert into lake_ref (name, kind, state, number) values ('main', 'main', 'open', 0)`
})

const openDev = (name = 'dev', base = 0) => opened.sql.begin((tx) => openTestBranch(tx, name, base))
const pipelineOn = async (name: string, zones: string[] = []) => {
  const { id, runs } = await pipelineNamed(name, zones)
  const at = { namespace: 'default', layer: 'gold', pipeline: name, trigger: 'manual' } as const
  const request = async (branch: string, draft = false) =>
    (await runs.request({ ...at, branch, draft })).run_id as RunId
  return { id, runs, request }
}
/** Reports that the first attempt committed `table` to its branch. Returns the new content. */
async function commits(id: RunId, table: string, attempt = 1) {
  const { id: testedCommit, contentId } = await commitToTestBranch(opened.sql, `run-${id}-${attempt}`, table)
  await tell(accepted(id, attempt), executed(id, { attempt, testedCommit, rowsWritten: 3 }))
  return contentId
}
const contents = async (branch: string | null, commit = 0) =>
  Object.fromEntries(
    (await tablesIn(opened.sql, { commit, branch })).map(({ name, contentId }) => [name, contentId]),
  )
const stateOf = async (id: RunId) => {
  const [row] =
    await opened.sql`select status, branch, merged_commit, base_commit, error from run where id = ${id}`
  return row
}
async function commitToMain(table: string) {
  const { sql } = opened
  const runId = newId()
  const branch = `run-${runId}-1`
  const [main] = await sql`select number from lake_ref where name = 'main'`
  const opening = { branch, base: Number(main?.number), runId, attempt: 1 }
  await sql.begin((tx) => openBranches(tx, [opening]))
  const { id, contentId } = await commitToTestBranch(sql, branch, table)
  await sql.begin((tx) => mergeBranches(tx, [{ ...opening, testedCommit: id, message: 'main' }]))
  return contentId
}

test('a run on a branch merges into the branch only', async () => {
  const onMain = await commitToMain('a')
  await openDev('dev', 1)
  const a = await pipelineOn('a')
  const id = await a.request('dev')
  await start()
  const content = await commits(id, 'a')
  expect(await stateOf(id)).toMatchObject({
    status: 'success',
    branch: 'dev',
    merged_commit: null,
    base_commit: '1',
  })
  expect(await contents('dev', 1)).toEqual({ a: content })
  expect(await contents(null, 1)).toEqual({ a: onMain })
  const [entry] = await opened.sql`select base_content from branch_entry where ref = 'dev'`
  expect(entry?.base_content).toBe(onMain)
  const [last] = await opened.sql`select message from run_log where run_id = ${id} order by seq desc limit 1`
  expect(last?.message).toMatch(/^success after \d+ ms: 3 rows merged into branch dev$/)
})

test('the next run on a branch reads the tables of the branch', async () => {
  await openDev()
  const [a, b] = [await pipelineOn('a'), await pipelineOn('b')]
  const first = await a.request('dev')
  await start()
  const content = await commits(first, 'a')
  const second = await b.request('dev')
  const again = await a.request('dev')
  const { attempts } = await start()
  const nested = attempts.find(({ runId }) => runId === second)?.branch ?? ''
  expect(await contents(nested)).toEqual({ a: content })
  const metadata = attempts.find(({ runId }) => runId === again)?.tableMetadata
  expect(metadata).toBe(`s3://sluice/${content}`)

  // An attempt that another replica adopts after its commit still names the state before the commit.
  await commitToTestBranch(opened.sql, `run-${again}-1`, 'a')
  expect(await openAttemptsOf(opened.sql, [again])).toMatchObject([{ tableMetadata: metadata }])
  const made = await commits(second, 'b')
  expect(await contents('dev')).toEqual({ a: content, b: made })
})

test('a run starts again when its table changed on the branch meanwhile', async () => {
  await openDev()
  const a = await pipelineOn('a')
  const id = await a.request('dev')
  await start()
  const { contentId } = await commitToTestBranch(opened.sql, 'dev', 'a')
  await commits(id, 'a')
  expect(await stateOf(id)).toMatchObject({ status: 'running' })
  const [line] = await opened.sql`select message from run_log where run_id = ${id} and level = 'warn'`
  expect(line?.message).toBe('merge conflict in attempt 1: default.gold.a changed on dev')
  await opened.sql`update run set not_before = null where id = ${id}`
  const { attempts } = await start()
  expect(attempts).toMatchObject([{ attempt: 2, tableMetadata: `s3://sluice/${contentId}` }])
  const content = await commits(id, 'a', 2)
  expect(await contents('dev')).toEqual({ a: content })
  expect(await stateOf(id)).toMatchObject({ status: 'success' })
})

test('runs of a pipeline are serial on each branch and independent between branches', async () => {
  await openDev('dev')
  await openDev('other')
  const a = await pipelineOn('a')
  const ids: RunId[] = []
  for (const branch of ['dev', 'dev', 'other', 'main', 'main']) ids.push(await a.request(branch))
  const started = async () => (await start()).attempts.map(({ runId }) => ids.indexOf(runId)).sort()
  expect(await started()).toEqual([0, 2, 3])
  await tell(...[0, 2, 3].flatMap((n) => (ids[n] ? [accepted(ids[n]), executed(ids[n])] : [])))
  expect(await started()).toEqual([1, 4])
})

test('concurrent starts of runs on a branch start each run once', async () => {
  await openDev()
  const ids: RunId[] = []
  for (const name of ['a', 'b', 'c', 'd']) ids.push(await (await pipelineOn(name)).request('dev'))
  const results = await Promise.allSettled(
    Array.from({ length: 4 }, (_, n) =>
      startWaiting(opened.sql, [anySlot(RUNNER), anySlot(RUNNER)], `replica-${n}`),
    ),
  )
  const started = results.flatMap((result) =>
    result.status === 'fulfilled' ? result.value.attempts.map(({ runId }) => runId) : [],
  )
  expect(new Set(started).size).toBe(started.length)
})

test('runs of different tables merge into one branch at the same time', async () => {
  await openDev()
  const ids: RunId[] = []
  const names = Array.from({ length: 12 }, (_, n) => `t${n}`)
  for (const name of names) ids.push(await (await pipelineOn(name)).request('dev'))
  await start(12)
  const made = await Promise.all(ids.map((id, n) => commits(id, names[n] ?? '')))
  expect(await contents('dev')).toEqual(Object.fromEntries(names.map((name, n) => [name, made[n] ?? ''])))
  const [dev] = await opened.sql`
    select count(*)::int as commits from lake_commit where ref = 'dev' and number is null`
  expect(dev?.commits).toBe(12)
})

test('a success on a branch fires no trigger and archives no landing file', async () => {
  await openDev()
  const [zone, file] = [newId(), newId()]
  const { sql } = opened
  await sql`insert into landing_zone (id, namespace, name) values (${zone}, 'default', 'drop')`
  await sql`
    insert into landing_file (id, zone_id, filename, original_name, path, version_id, size_bytes, content_type)
    values (${file}, ${zone}, 'a.csv', 'a.csv', 'default/landing/a.csv', '1', 3, 'text/csv')`
  const a = await pipelineOn('a', ['default.drop'])
  await sql`
    insert into trigger (id, pipeline_id, type, config, snapshot, machine_version, state, source)
    values (${newId()}, ${a.id}, 'pipeline_success', '{}', '{}', 1, 'armed', 'pipeline:default.gold.a')`
  const id = await a.request('dev')
  const { attempts } = await start()
  expect(attempts[0]?.landing[0]?.files).toHaveLength(1)
  await tell(accepted(id), executed(id, { landingFileIds: [file], archivesLandingZones: true }))
  expect(await stateOf(id)).toMatchObject({ status: 'success' })
  expect(await sql`select from trigger_event`).toHaveLength(0)
  expect(await sql`select from landing_file where archived_by_run is not null`).toHaveLength(0)
})

test('a run on a closed branch is 404, a draft on main 400', async () => {
  await openDev()
  const a = await pipelineOn('a')
  await expect(a.request('absent')).rejects.toMatchObject({ status: 404 })
  await opened.sql.begin((tx) => closeUserBranch(tx, 'dev'))
  await expect(a.request('dev')).rejects.toMatchObject({ status: 404 })
  await expect(a.request('main', true)).rejects.toMatchObject({ status: 400 })
  expect(await opened.sql`select from run`).toHaveLength(0)
})

test('a waiting run is cancelled when its branch is not open', async () => {
  await openDev()
  const id = await (await pipelineOn('a')).request('dev')
  await opened.sql`update lake_ref set state = 'deleted', closed_at = now() where name = 'dev'`
  expect((await start()).attempts).toEqual([])
  expect(await stateOf(id)).toMatchObject({ status: 'cancelled' })
})
