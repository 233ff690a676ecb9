// The choice of waiting runs: demands on runners, turns of namespaces, priorities.
import { beforeEach, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { Placement } from '../../../drizzle/schema/pipeline.ts'
import type { RunId } from '../../core/ids.ts'
import { anySlot, type RunnerSlot } from '../placement.ts'
import { executed, failed, RUNNER, useRuns } from '../test-runs.ts'
import { notePlacements } from './placements.ts'
import { findRun, tailOf } from './runs.ts'
import { startWaiting } from './start.ts'

const { opened, requested, tell } = useRuns()
beforeEach(async () => {
  await opened.sql`truncate run, run_attempt, run_log, lake_commit, transition, outbox`
  await opened.sql`delete from lake_ref where name <> 'main'`
})

const GPU: RunnerSlot = { url: 'http://127.0.0.1:2', labels: ['gpu'], memoryBytes: 8 }
const PLAIN = anySlot(RUNNER)
let named = 0

interface Wanted extends Partial<Placement> {
  namespace?: string
}

/** A waiting run of a pipeline of its own. */
async function waiting({ namespace = 'default', ...placement }: Wanted = {}): Promise<RunId> {
  const id = await requested(`placed${++named}`)
  const pinned =
    Object.keys(placement).length === 0 ? null : { runsOn: [], memoryBytes: null, priority: 0, ...placement }
  await opened.sql`
    update run set namespace = ${namespace}, placement = ${pinned === null ? null : opened.sql.json(pinned)}
    where id = ${id}`
  return id
}

const start = async (slots: RunnerSlot[], namespaceLimit: number | null = null) =>
  (await startWaiting(opened.sql, slots, 'tester', { namespaceLimit })).attempts.map(
    ({ runId, runnerUrl, isAlone }) => ({ runId, runnerUrl, isAlone }),
  )
const started = async (slots: RunnerSlot[], namespaceLimit: number | null = null) =>
  (await start(slots, namespaceLimit)).map(({ runId }) => runId)

test('a run starts only on a runner with its labels', async () => {
  const [special, plain] = [await waiting({ runsOn: ['gpu'] }), await waiting()]
  expect(await start([PLAIN])).toEqual([{ runId: plain, runnerUrl: RUNNER, isAlone: false }])
  expect(await start([PLAIN])).toEqual([])
  expect(await start([PLAIN, GPU])).toEqual([{ runId: special, runnerUrl: GPU.url, isAlone: false }])
})

test('runs with demands do not keep other slots from runs behind them', async () => {
  for (let n = 0; n < 3; n++) await waiting({ runsOn: ['gpu'] })
  const plain = await waiting()
  expect(await start([GPU, PLAIN, PLAIN])).toMatchObject([{ runnerUrl: GPU.url }])
  expect(await started([PLAIN, PLAIN])).toEqual([plain])
})

test('a run that demands memory executes alone on a runner that has it', async () => {
  const id = await waiting({ memoryBytes: 8 })
  expect(await start([PLAIN, { ...GPU, memoryBytes: 7 }])).toEqual([])
  expect(await start([PLAIN, GPU])).toEqual([{ runId: id, runnerUrl: GPU.url, isAlone: true }])
})

test('a greater priority starts first within a namespace', async () => {
  const [low, usual, high] = [
    await waiting({ priority: -1 }),
    await waiting(),
    await waiting({ priority: 5 }),
  ]
  expect(await started([PLAIN])).toEqual([high])
  expect(await started([PLAIN])).toEqual([usual])
  expect(await started([PLAIN])).toEqual([low])
})

test('a namespace with many waiting runs does not delay the run of another namespace', async () => {
  for (let n = 0; n < 5; n++) await waiting({ namespace: 'busy', priority: 100 })
  const other = await waiting({ namespace: 'calm' })
  expect(await started([PLAIN, PLAIN])).toContain(other)
})

test('a namespace executes no more runs than its limit', async () => {
  const runs = [await waiting({ namespace: 'busy' }), await waiting({ namespace: 'busy' })]
  const [third] = [await waiting({ namespace: 'busy' })]
  expect(await started(Array(4).fill(PLAIN), 2)).toEqual(runs)
  expect(await started(Array(4).fill(PLAIN), 2)).toEqual([])
  await tell(failed(runs[0] as RunId, 'no'))
  expect(await started(Array(4).fill(PLAIN), 2)).toEqual([third as RunId])
})

test('concurrent replicas do not exceed the limit of a namespace together', async () => {
  for (let n = 0; n < 8; n++) await waiting({ namespace: 'busy' })
  const passes = await Promise.all(Array.from({ length: 4 }, () => started([PLAIN, PLAIN], 3)))
  expect(passes.flat()).toHaveLength(3)
})

test('slots go to the namespaces with the fewest executing runs', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 4 }),
      fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 3 }),
      async (waitingRuns, passes) => {
        await opened.sql`truncate run, run_attempt, run_log, lake_commit, transition, outbox`
        await opened.sql`delete from lake_ref where name <> 'main'`
        for (const [n, count] of waitingRuns.entries())
          for (let each = 0; each < count; each++) await waiting({ namespace: `team-${n}` })
        for (const slots of passes) await start(Array(slots).fill(PLAIN))
        const total = passes.reduce((sum, slots) => sum + slots, 0)
        const executing = await Promise.all(
          waitingRuns.map(async (_, n) => {
            const [row] = await opened.sql`
              select count(*)::int as n from run join run_attempt a on a.run_id = run.id and a.state = 'open'
              where run.namespace = ${`team-${n}`}`
            return row?.n as number
          }),
        )
        expect(executing.reduce((sum, n) => sum + n, 0)).toBe(
          Math.min(
            total,
            waitingRuns.reduce((sum, n) => sum + n, 0),
          ),
        )
        // A namespace that still has waiting runs is at most one run behind each other namespace.
        for (const [n, count] of waitingRuns.entries())
          if ((executing[n] ?? 0) < count)
            for (const other of executing) expect(other).toBeLessThanOrEqual((executing[n] ?? 0) + 1)
      },
    ),
    { numRuns: 20 },
  )
})

test('a run that no runner can take says so once', async () => {
  const id = await waiting({ runsOn: ['gpu'] })
  const reason = async () => (await findRun(opened.sql, id))?.waiting_reason
  expect(await notePlacements(opened.sql, [PLAIN])).toEqual([id])
  expect(await reason()).toBe('no runner has the labels gpu (runs_on)')
  expect(await notePlacements(opened.sql, [PLAIN])).toEqual([])
  expect(await notePlacements(opened.sql, [PLAIN, GPU])).toEqual([id])
  expect(await reason()).toBeNull()
  expect(await notePlacements(opened.sql, [PLAIN])).toEqual([id])
  const { lines = [] } = (await tailOf(opened.sql, id, 0, 10)) ?? {}
  expect(lines.map(({ message }) => message)).toEqual([
    'the run waits: no runner has the labels gpu (runs_on)',
  ])

  expect(await started([GPU])).toEqual([id])
  expect(await reason()).toBeNull()
  expect(await notePlacements(opened.sql, [PLAIN])).toEqual([])
  await tell(executed(id))
})
