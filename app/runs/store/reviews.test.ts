import { expect, test } from 'bun:test'
import type { RunId } from '../../core/ids.ts'
import { reapingNow } from '../../retention/test-rows.ts'
import { expireLakeHistory } from '../../versions/store/history.ts'
import { commitToTestBranch } from '../../versions/test-rows.ts'
import { accepted, executed, useRuns } from '../test-runs.ts'
import { failExpiredReviews, failStuckRuns } from './endings.ts'
import { approveRun } from './reviews.ts'
import { findRun } from './runs.ts'

const { opened, pipelineNamed, start, tell } = useRuns()

/** A run in review, requested by `ann`. */
async function inReview(
  name: string,
  { inputTables = [] as string[], change = 'same', isFourEyes = false } = {},
) {
  const { runs } = await pipelineNamed(name)
  const at = { namespace: 'default', layer: 'gold', pipeline: name, trigger: 'manual' } as const
  const id = (await runs.request(at, null, 'ann')).run_id as RunId
  await propose(id, name, { change, isFourEyes }, 1, inputTables)
  return id
}

async function propose(
  id: RunId,
  name: string,
  review: { change: string; isFourEyes?: boolean },
  attempt = 1,
  inputTables: string[] = [],
) {
  await start()
  const { id: testedCommit } = await commitToTestBranch(opened.sql, `run-${id}-${attempt}`, name)
  const facts = { attempt, testedCommit, rowsWritten: 1, inputTables }
  await tell(
    accepted(id, attempt),
    executed(id, { ...facts, review: { isFourEyes: false, ...review, timeoutHours: 2 } }),
  )
}

const approve = (id: RunId, by: string | null = 'ben', person = by) =>
  opened.sql.begin((tx) => approveRun(tx, id, { by, message: null, person }))
const stateOf = async (id: RunId) =>
  (await opened.sql`select status, phase, attempt, error from run where id = ${id}`)[0]
const stuck = () => opened.sql.begin((tx) => failStuckRuns(tx, { timeoutMinutes: 60, limit: 10 }))

test('the time in review does not count as time of a stuck run', async () => {
  const id = await inReview('patient')
  const early = `interval '5 hours'`
  await opened.sql.unsafe(`update run set started_at = started_at - ${early} where id = '${id}'`)
  await opened.sql.unsafe(`update run_review set entered_at = entered_at - ${early} where run_id = '${id}'`)
  expect((await stuck()).ids).toEqual([])
  // The base of the branch is old now, so the approved run executes again.
  await opened.sql`update branch_entry set base_content = content_id where ref = ${`run-${id}-1`}`
  expect(await approve(id)).toMatchObject({ run: { status: 'running' } })
  expect((await stuck()).ids).toEqual([])
  await opened.sql`update run set started_at = started_at - interval '2 hours' where id = ${id}`
  expect((await stuck()).ids).toEqual([id])
})

test('a review that nobody decides fails the run after its own time', async () => {
  const id = await inReview('forgotten')
  const expire = () => opened.sql.begin((tx) => failExpiredReviews(tx, 10))
  expect((await expire()).ids).toEqual([])
  await opened.sql`update run_review set expires_at = clock_timestamp() - interval '1 ms' where run_id = ${id}`
  expect((await expire()).ids).toEqual([id])
  expect(await stateOf(id)).toMatchObject({
    status: 'failed',
    error: 'review timed out: nobody approved or rejected the run within 2 hours (review_timeout_hours)',
  })
  expect(await approve(id)).toBeNull()
})

test('with four eyes only another user approves the run', async () => {
  const id = await inReview('eyes', { isFourEyes: true })
  expect(await approve(id, 'ann')).toBe('refused')
  expect(await stateOf(id)).toMatchObject({ phase: 'review' })
  expect(await approve(id, 'ben')).toMatchObject({ run: { status: 'success' } })
})

test('a requester who cannot be told apart approves the run', async () => {
  const id = await inReview('alone', { isFourEyes: true })
  expect(await approve(id, 'ann', null)).toMatchObject({ run: { status: 'success' } })
})

test('the reaper keeps the branch of a run in review', async () => {
  const id = await inReview('kept')
  await opened.sql`update lake_ref set created_at = created_at - interval '90 days' where name = ${`run-${id}-1`}`
  await expireLakeHistory(await reapingNow(opened.sql, {} as never))
  expect(await approve(id)).toMatchObject({ run: { status: 'success' } })
})

test('an approved run merges the same change and asks again for another one', async () => {
  for (const [name, change, phase] of [
    ['again_same', 'same', null],
    ['again_other', 'other', 'review'],
  ] as const) {
    const id = await inReview(name)
    await opened.sql`update branch_entry set base_content = content_id where ref = ${`run-${id}-1`}`
    expect(await approve(id)).toMatchObject({ run: { status: 'running' } })
    await opened.sql`update run set not_before = null where id = ${id}`
    await propose(id, name, { change }, 2)
    expect(await stateOf(id)).toMatchObject({ phase, attempt: 2 })
  }
})

test('a protected namespace demands a review of every run into main', async () => {
  const protect = (review: string) =>
    opened.sql`update namespace set protection = ${opened.sql.json({ review })} where name = 'default'`
  const { runs } = await pipelineNamed('guarded')
  const at = { namespace: 'default', layer: 'gold', pipeline: 'guarded', trigger: 'manual' } as const
  const executedAgain = async () => {
    const id = (await runs.request(at, null, 'ann')).run_id as RunId
    await start()
    const { id: testedCommit } = await commitToTestBranch(opened.sql, `run-${id}-1`, 'guarded')
    await tell(accepted(id, 1), executed(id, { attempt: 1, testedCommit, rowsWritten: 1 }))
    return id
  }
  try {
    await protect('any')
    const anybody = await executedAgain()
    expect(await stateOf(anybody)).toMatchObject({ phase: 'review' })
    expect(await approve(anybody, 'ann')).toMatchObject({ run: { status: 'success' } })
    await protect('four-eyes')
    const guarded = await executedAgain()
    expect(await stateOf(guarded)).toMatchObject({ phase: 'review' })
    expect(await approve(guarded, 'ann')).toBe('refused')
    expect(await approve(guarded, 'ben')).toMatchObject({ run: { status: 'success' } })
  } finally {
    await protect('none')
  }
})

test('an approval before the demand of four eyes approves no later attempt', async () => {
  const id = await inReview('raised')
  await opened.sql`update branch_entry set base_content = content_id where ref = ${`run-${id}-1`}`
  expect(await approve(id, 'ann')).toMatchObject({ run: { status: 'running' } })
  await opened.sql`update pipeline set review = 'four-eyes' where name = 'raised'`
  await opened.sql`update run set not_before = null where id = ${id}`
  await propose(id, 'raised', { change: 'same' }, 2)
  expect(await stateOf(id)).toMatchObject({ phase: 'review', attempt: 2 })
  expect(await approve(id, 'ann')).toBe('refused')
})

const tables = new Map<string, Pick<Awaited<ReturnType<typeof pipelineNamed>>, 'request'>>()

/** Merges a new state of this table into main, and returns the commit. */
async function moved(name: string): Promise<number> {
  const { request } = tables.get(name) ?? (await pipelineNamed(name))
  tables.set(name, { request })
  const id = (await request()) as RunId
  await start()
  const { id: testedCommit } = await commitToTestBranch(opened.sql, `run-${id}-1`, name)
  await tell(accepted(id), executed(id, { testedCommit, rowsWritten: 1 }))
  return present(await findRun(opened.sql, id)).merged_commit ?? 0
}
const present = <T>(value: T | null): T => {
  if (value === null) throw new Error('the run does not exist')
  return value
}

test('an approved run names the inputs that main changed since', async () => {
  const [first, second] = [await moved('input_a'), await moved('input_b')]
  const inputTables = ['default.gold.input_a', 'default.gold.input_b', 'default.gold.reader']
  const id = await inReview('reader', { inputTables })
  expect(await findRun(opened.sql, id)).toMatchObject({ stale_inputs: null })
  await moved('input_b')
  const latest = await moved('input_b')
  const stale = [{ table: 'default.gold.input_b', read_commit: second, latest_commit: latest }]
  expect(await approve(id)).toMatchObject({ run: { status: 'success' }, staleInputs: stale })
  expect(first).toBeLessThan(second)
  // A commit after the merge is no stale input of the run.
  await moved('input_a')
  expect(await findRun(opened.sql, id)).toMatchObject({ stale_inputs: stale })
  const logged = await opened.sql<{ message: string }[]>`select message from run_log where run_id = ${id}`
  expect(logged.map(({ message }) => message)).toContain(
    `input tables newer than the approved change: 1: default.gold.input_b (read commit ${second}, latest ${latest}); run the pipeline again to include them`,
  )
})

test('a run approved on current inputs has no stale input', async () => {
  await moved('calm')
  const id = await inReview('calm_reader', { inputTables: ['default.gold.calm'] })
  expect(await approve(id)).toMatchObject({ run: { status: 'success' }, staleInputs: [] })
  expect(await findRun(opened.sql, id)).toMatchObject({ stale_inputs: [] })
})

test('an approved run that executes again names what changed since its last attempt', async () => {
  await moved('busy')
  const inputTables = ['default.gold.busy']
  const id = await inReview('again', { inputTables })
  await opened.sql`update branch_entry set base_content = content_id where ref = ${`run-${id}-1`}`
  const read = await moved('busy')
  expect(await approve(id)).toMatchObject({ run: { status: 'running' }, staleInputs: [] })
  expect(await findRun(opened.sql, id)).toMatchObject({ stale_inputs: null })
  await opened.sql`update run set not_before = null where id = ${id}`
  await start()
  const latest = await moved('busy')
  const { id: testedCommit } = await commitToTestBranch(opened.sql, `run-${id}-2`, 'again')
  const review = { change: 'same', timeoutHours: 2, isFourEyes: false }
  await tell(accepted(id, 2), executed(id, { attempt: 2, testedCommit, rowsWritten: 1, inputTables, review }))
  expect(await findRun(opened.sql, id)).toMatchObject({
    status: 'success',
    stale_inputs: [{ table: 'default.gold.busy', read_commit: read, latest_commit: latest }],
  })
})

test('an input that main dropped is stale at the commit of its drop', async () => {
  const read = await moved('dropped')
  const id = await inReview('drop_reader', { inputTables: ['default.gold.dropped'] })
  const drop = await moved('other')
  await opened.sql`update main_entry set to_commit = ${drop} where name = 'dropped' and to_commit is null`
  expect(await approve(id)).toMatchObject({
    staleInputs: [{ table: 'default.gold.dropped', read_commit: read, latest_commit: drop }],
  })
})
