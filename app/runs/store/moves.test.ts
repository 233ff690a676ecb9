import { expect, test } from 'bun:test'
import type { SqlTx } from '../../../drizzle/client.ts'
import { RUN_MACHINE_VERSION } from '../../../machines/run.ts'
import type { RunId } from '../../core/ids.ts'
import { lockTriggers } from '../../triggers/store/moves.ts'
import { anySlot } from '../placement.ts'
import { RUNNER, useRuns } from '../test-runs.ts'
import { lockRuns, moveRun, saveRuns } from './moves.ts'
import { startWaiting } from './start.ts'

const { opened, requested } = useRuns(1)

const cancel = (id: RunId) => async (tx: SqlTx) => {
  const { runs, now } = await lockRuns(tx, [id])
  const run = runs.get(id)
  const isMoved = run !== undefined && moveRun(run, { type: 'cancelRequested' }, 'user', now)
  await saveRuns(tx, runs.values(), now)
  return isMoved
}

test('a run of an older machine version continues and is migrated', async () => {
  const id = await requested('old')
  // As version 1 of the machine stored the run.
  const stored = {
    value: { running: 'executing' },
    context: { attempt: 4, lostRunners: 2, conflicts: 1 },
    status: 'active',
  }
  await opened.sql`
    update run set snapshot = ${opened.sql.json(stored)}, machine_version = 1, status = 'running', phase = 'executing',
      attempt = 4, waiting = false where id = ${id}`
  expect(await opened.sql.begin(cancel(id))).toBe(true)
  const [row] =
    await opened.sql`select snapshot, machine_version, status, phase, attempt from run where id = ${id}`
  expect(row).toEqual({
    snapshot: {
      value: 'cancelled',
      context: {
        ...stored.context,
        retries: 0,
        lostAlone: 0,
        lostTogether: 0,
        lostEngines: 0,
        proposed: null,
        approved: null,
      },
      status: 'done',
    },
    machine_version: RUN_MACHINE_VERSION,
    status: 'cancelled',
    phase: null,
    attempt: 4,
  })
})

test('a run of a newer machine version is left alone', async () => {
  const id = await requested('newer')
  await opened.sql`update run set machine_version = ${RUN_MACHINE_VERSION + 1} where id = ${id}`
  expect(await opened.sql.begin(cancel(id))).toBe(false)
  expect(await opened.sql`select status from run where id = ${id}`).toEqual([{ status: 'pending' }] as never)
})

test('columns that a newer program adds do not affect running sessions', async () => {
  const [one, two] = [await requested('one'), await requested('two')]
  await opened.sql`update run set not_before = 'infinity' where waiting`
  const session = opened.session('test')
  const ask = async (id: RunId) => [
    await session.begin(cancel(id)),
    await session.begin(async (tx) => (await lockTriggers(tx, [])) === null),
    (await startWaiting(session, [anySlot(RUNNER)], 'tester')).attempts.length === 0,
  ]
  expect(await ask(one)).toEqual([true, true, true])
  await opened.sql`alter table run add column next text`
  await opened.sql`alter table trigger add column next text`
  expect(await ask(two)).toEqual([true, true, true])
})
