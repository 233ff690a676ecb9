import { afterEach, beforeEach, expect, test } from 'bun:test'
import postgres from 'postgres'
import type { Sql } from '../../../drizzle/client.ts'
import { DISPATCHER_SESSION } from '../../../workers/dispatcher/dispatcher.ts'
import { anySlot } from '../placement.ts'
import { accepted, failed, RUNNER, useRuns } from '../test-runs.ts'
import { applyOutcomes } from './outcomes.ts'
import { startWaiting } from './start.ts'

const FEW = 16
const MANY = 128

const { opened, requested } = useRuns(1)
/** A connection like a dispatcher's that reports the plan and the row counts of each statement. */
let observed: Sql
let plans: Plan[] = []
beforeEach(async () => {
  observed = postgres(opened.url, {
    max: 1,
    connection: DISPATCHER_SESSION,
    onnotice({ message }) {
      const [, plan] = /plan:\s*(\{.*)$/s.exec(message ?? '') ?? []
      if (plan !== undefined) plans.push(JSON.parse(plan).Plan)
    },
  })
  await observed.unsafe(`
    load 'auto_explain'; set client_min_messages = log; set auto_explain.log_min_duration = 0;
    set auto_explain.log_analyze = on; set auto_explain.log_timing = off; set auto_explain.log_format = json`)
})
afterEach(() => observed.end())

const REMOVED = ['Rows Removed by Filter', 'Rows Removed by Join Filter', 'Rows Removed by Index Recheck']

type Plan = Record<string, number> & { Plans?: Plan[] }

/** Rows that the nodes of a plan have read, including rows that a filter removed. */
const readBy = (plan: Plan): number =>
  (plan['Actual Rows'] ?? 0) * (plan['Actual Loops'] ?? 1) +
  REMOVED.reduce((sum, key) => sum + (plan[key] ?? 0), 0) +
  (plan.Plans ?? []).reduce((sum, child) => sum + readBy(child), 0)

let named = 0

/** Rows read per run by each operation, with `count` runs in a batch. */
async function readPerRun(count: number) {
  for (let n = 0; n < count; n++) await requested(`p${++named}`)
  const perRun: Record<string, number> = {}
  const measure = async <T>(what: string, act: () => Promise<T>) => {
    plans = []
    const done = await act()
    perRun[what] = plans.reduce((sum, plan) => sum + readBy(plan), 0) / count
    return done
  }
  const start = () => startWaiting(observed, Array(count).fill(anySlot(RUNNER)), 'tester')
  const { attempts } = await measure('start', start)
  expect(attempts).toHaveLength(count)
  const ids = attempts.map(({ runId }) => runId)
  await measure('acceptance', () =>
    applyOutcomes(
      observed,
      ids.slice(0, count / 2).map((id) => accepted(id)),
      [],
    ),
  )
  const rest = ids.slice(count / 2).map((id) => accepted(id))
  const ends = ids.map((id) => failed(id, 'no'))
  const { completed } = await measure('acceptance and end', () =>
    applyOutcomes(observed, [...rest, ...ends], []),
  )
  expect(completed).toHaveLength(count)
  return perRun
}

test('starts, acceptances and ends of larger batches read no more rows per run', async () => {
  const few = await readPerRun(FEW)
  const many = await readPerRun(MANY)
  for (const [what, rows] of Object.entries(few)) {
    expect(rows).toBeGreaterThan(0)
    expect(many[what]).toBeLessThan(rows * 1.5)
  }
})
