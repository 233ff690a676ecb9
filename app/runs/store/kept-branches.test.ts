import { beforeEach, expect, test } from 'bun:test'
import { EVERYTHING } from '../../core/access.ts'
import type { RunId } from '../../core/ids.ts'
import { reapingNow } from '../../retention/test-rows.ts'
import { expireLakeHistory } from '../../versions/store/history.ts'
import { closeUserBranch, shownBranch, shownBranches } from '../../versions/store/user-branches.ts'
import { commitToTestBranch, openTestBranch } from '../../versions/test-rows.ts'
import { readableView, tablesIn, viewOf } from '../../versions/views.ts'
import { accepted, executed, failed, useRuns } from '../test-runs.ts'

const { opened, pipelineNamed, start, tell } = useRuns()
beforeEach(async () => {
  const { sql } = opened
  await sql`truncate run, run_attempt, run_log, run_file, trigger_event, transition, outbox, pipeline, pipeline_version,
    landing_file, landing_zone, lake_ref, lake_commit, main_entry, branch_entry, lake_content, trigger cascade`
  await sql`insert into lake_ref (name, kind, state, number) values ('main', 'main', 'open', 0)`
})

const BLOCKING = {
  name: 'strict',
  severity: 'error' as const,
  isPassed: false,
  value: 3,
  durationMs: 1,
  error: null,
}

/** A run that committed to its branch and failed its gate. */
async function refusedRun(keepFailedHours = 24, branch = 'main', name = 'orders') {
  const { id: pipelineId, runs } = await pipelineNamed(name)
  const at = { namespace: 'default', layer: 'gold', pipeline: name, trigger: 'manual' } as const
  const id = (await runs.request({ ...at, branch })).run_id as RunId
  await start()
  const kept = `run-${id}-1`
  const { id: testedCommit, contentId } = await commitToTestBranch(opened.sql, kept, name)
  await tell(accepted(id), executed(id, { testedCommit, rowsWritten: 3, tests: [BLOCKING], keepFailedHours }))
  return { id, kept, pipelineId, contentId, again: async () => (await runs.request(at)).run_id as RunId }
}
const contentsOf = async (branch: string, visible = EVERYTHING) =>
  (await tablesIn(opened.sql, await readableView(opened.sql, { branch }, visible))).map(
    ({ contentId }) => contentId,
  )
const statusOf = async (id: RunId) => (await opened.sql`select status from run where id = ${id}`)[0]?.status
const refOf = async (name: string) =>
  (await opened.sql`select state, closed_at, kept_until from lake_ref where name = ${name}`)[0]
const tick = async () => expireLakeHistory(await reapingNow(opened.sql, {} as never))

test('the branch of a run with a failed gate stays readable', async () => {
  const { id, kept, contentId } = await refusedRun()
  expect(await statusOf(id)).toBe('failed')
  expect(await contentsOf(kept)).toEqual([contentId])
  expect(await refOf(kept)).toMatchObject({ state: 'deleted', closed_at: null })
  const lines = await opened.sql`select message from run_log where run_id = ${id} order by seq`
  expect(lines.map(({ message }) => message)).toContain(
    `branch ${kept} stays readable for 24 hours: send its name as branch of a query`,
  )
})

test('without keep_failed_hours the branch closes at once', async () => {
  const { kept } = await refusedRun(0)
  expect(await refOf(kept)).toMatchObject({ state: 'deleted', kept_until: null, closed_at: expect.any(Date) })
  await expect(contentsOf(kept)).rejects.toThrow(`open branch ${kept} not found`)
})

test('a run that fails without a failed gate keeps no branch', async () => {
  const { runs } = await pipelineNamed('orders')
  const at = { namespace: 'default', layer: 'gold', pipeline: 'orders', trigger: 'manual' } as const
  const id = (await runs.request(at)).run_id as RunId
  await start()
  await tell(accepted(id), failed(id, 'executing: no such column'))
  expect(await refOf(`run-${id}-1`)).toMatchObject({ kept_until: null, closed_at: expect.any(Date) })
})

test('a kept branch accepts no commit, and no list names it', async () => {
  const { kept, contentId } = await refusedRun()
  const commit = await commitToTestBranch(opened.sql, kept, 'orders')
  expect(commit.committed).toBe(false)
  expect(await contentsOf(kept)).toEqual([contentId])
  await expect(viewOf(opened.sql, { branch: kept })).rejects.toThrow('not found')
  for (const state of ['open', 'deleted'] as const) {
    const page = { limit: 50, offset: 0 }
    const shown = await shownBranches(opened.sql, { state, search: '' }, page)
    expect(shown.map(({ name }) => name)).toEqual(state === 'open' ? ['main'] : [])
  }
  expect(await shownBranch(opened.sql, kept)).toBeNull()
  expect(await opened.sql.begin((tx) => closeUserBranch(tx, 'dev'))).toBe(false)
})

test('only readers of the run read its kept branch', async () => {
  const { kept, pipelineId } = await refusedRun()
  const seen = { ...EVERYTHING, pipelines: [pipelineId] }
  expect(await contentsOf(kept, seen)).toHaveLength(1)
  const stranger = { ...EVERYTHING, pipelines: [], namespaces: [] }
  await expect(contentsOf(kept, stranger)).rejects.toThrow(`open branch ${kept} not found`)
})

test('a kept branch does not hinder the next run of its pipeline', async () => {
  const { kept, contentId, again } = await refusedRun()
  const next = await again()
  await start()
  const { id: testedCommit } = await commitToTestBranch(opened.sql, `run-${next}-1`, 'orders')
  await tell(accepted(next), executed(next, { testedCommit, rowsWritten: 3 }))
  expect(await statusOf(next)).toBe('success')
  expect(await contentsOf(kept)).toEqual([contentId])
})

test('the reaper closes a kept branch after its own time, not as an orphan', async () => {
  const { id, kept } = await refusedRun()
  await opened.sql`update run set finished_at = finished_at - interval '20 hours' where id = ${id}`
  await opened.sql`update lake_ref set created_at = created_at - interval '20 hours' where name = ${kept}`
  await tick()
  expect(await contentsOf(kept)).toHaveLength(1)
  await opened.sql`update lake_ref set kept_until = clock_timestamp() - interval '1 ms' where name = ${kept}`
  // The branch is not readable after its time, even if no tick has closed it.
  await expect(contentsOf(kept)).rejects.toThrow('not found')
  await tick()
  expect(await refOf(kept)).toMatchObject({ state: 'deleted', kept_until: null, closed_at: expect.any(Date) })
})

test('the reaper closes the kept branch of a deleted run', async () => {
  const { id, kept } = await refusedRun()
  await opened.sql`delete from run where id = ${id}`
  await expect(contentsOf(kept)).rejects.toThrow('not found')
  await tick()
  expect(await refOf(kept)).toMatchObject({ kept_until: null, closed_at: expect.any(Date) })
})

test('a kept branch outlives the branch of a user that it would merge into', async () => {
  await opened.sql.begin((tx) => openTestBranch(tx, 'dev', 0))
  const { kept, contentId } = await refusedRun(24, 'dev')
  expect(await contentsOf(kept)).toEqual([contentId])
  await opened.sql.begin((tx) => closeUserBranch(tx, 'dev'))
  expect(await opened.sql.begin((tx) => openTestBranch(tx, 'dev', 0))).toBe(true)
  expect(await contentsOf(kept)).toEqual([contentId])
})
