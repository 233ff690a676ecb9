import { expect, test } from 'bun:test'
import {
  arrivalsOf,
  type Costs,
  costsPerMillion,
  type Shard,
  simulate,
  simulateArrivals,
} from './scale-model.ts'

const costs: Costs = {
  start: { fixedMs: 1_000, perRunMs: 0, perWaitingMs: 0 },
  end: { fixedMs: 2_000, perRunMs: 0 },
  dueRunMs: 1,
  postgres: { fixedMs: 5, perRunMs: 3, perWaitingMs: 0.001 },
  replicaMs: 1,
  walBytes: 10_000,
  diskBytes: 5_000,
}
const shard: Shard = { pipelines: 1_000_000, batch: 2, slots: 100, postgresCores: 1, replicaCores: 1 }
const four = { due: new Float64Array(4), requested: new Float64Array(4), runSeconds: 10 }

test('the second batch starts and ends when the first leaves its server', () => {
  // Starts at 1 s and 2 s, executed at 11 s and 12 s, ended at 13 s and 15 s.
  const { startDelay, endDelay, busy } = simulateArrivals(four, costs, shard)
  expect(startDelay).toEqual({ p50: 2, p99: 2, max: 2 })
  expect(endDelay).toEqual({ p50: 3, p99: 3, max: 3 })
  expect(busy.starts * 86_400).toBeCloseTo(2)
  expect(busy.ends * 86_400).toBeCloseTo(4)
})

test('a start takes longer for each waiting run that it looks at', () => {
  // The first batch sees 4 waiting runs and the second 2: 1 s + 2 s, then 1 s + 1 s.
  const slower = { ...costs, start: { ...costs.start, perWaitingMs: 500 } }
  const { startDelay, waitingMax, busy } = simulateArrivals(four, slower, shard)
  expect(startDelay.max).toBe(5)
  expect(waitingMax).toBe(4)
  // Two batches, four runs, and six looks at a waiting run.
  expect(busy.postgres * 86_400).toBeCloseTo(2 * 0.005 + 4 * 0.003 + 6 * 0.000001, 7)
})

test('a start looks once at a pipeline with several waiting runs', () => {
  // Each batch sees 1 pipeline: 1 s + 0.5 s, twice.
  const slower = { ...costs, start: { ...costs.start, perWaitingMs: 500 } }
  expect(simulateArrivals(four, slower, { ...shard, pipelines: 1 }).startDelay.max).toBe(3)
})

test('a run waits for a slot until an earlier run has ended', () => {
  // Two slots: the second batch starts at 13 s, when the first has ended, and takes 1 s.
  const { startDelay } = simulateArrivals(four, costs, { ...shard, slots: 2 })
  expect(startDelay).toEqual({ p50: 14, p99: 14, max: 14 })
})

test('slots of a batch that is ending are free only at its end', () => {
  // Three slots: 2 runs start at 1 s and 1 at 2 s. The first 2 end from 11 s to 13 s, so the last starts then.
  const { startDelay } = simulateArrivals(four, costs, { ...shard, slots: 3 })
  expect(startDelay.max).toBe(14)
})

test('a run that arrives at an idle shard waits only for its own batch', () => {
  const times = Float64Array.from([0, 100])
  const { startDelay } = simulateArrivals({ due: times, requested: times, runSeconds: 1 }, costs, shard)
  expect(startDelay).toEqual({ p50: 1, p99: 1, max: 1 })
})

test('every arrival starts and ends, also when the day is overloaded', () => {
  for (const slots of [1, 7, 1_000])
    for (const runsPerDay of [1_000, 99_999]) {
      const load = { runsPerDay, hourlyShare: 0.4, dayPeak: 1.8, runSeconds: 5 }
      const { arrived, started, ended } = simulate(load, costs, { ...shard, slots })
      expect([arrived, started, ended]).toEqual([runsPerDay, runsPerDay, runsPerDay])
    }
})

test('arrivals follow the share of full hours and the curve of the day', () => {
  const load = { runsPerDay: 48_000, hourlyShare: 0.5, dayPeak: 1.5, runSeconds: 1 }
  const { due, requested } = arrivalsOf(load, 1)
  const between = (from: number, to: number) => due.filter((at) => at > from && at < to).length
  expect(due.filter((at) => at === 3_600).length).toBe(1_000)
  // The integral of 1 + 0.5 sin over the first half day is 1/2 + 0.5/pi of the day.
  expect(due.filter((at) => at % 3_600 !== 0 && at < 43_200).length).toBeCloseTo(
    24_000 * (0.5 + 0.5 / Math.PI),
    -1,
  )
  expect(between(0, 43_200)).toBeGreaterThan(between(43_200, 86_400))
  expect(requested).toEqual(requested.toSorted())
})

test('the prices of a day are divided by its millions of runs', () => {
  const use = {
    runsPerDay: 2e6,
    postgresCores: 2,
    replicaCores: 1,
    runnerCores: 10,
    diskGb: 300,
    putsPerRun: 4,
  }
  const prices = {
    postgresCoreHour: 1,
    replicaCoreHour: 2,
    runnerCoreHour: 3,
    diskGbMonth: 0.1,
    millionPuts: 5,
  }
  expect(costsPerMillion(use, prices)).toEqual({
    postgres: 24,
    replicas: 24,
    runners: 360,
    disk: 0.5,
    puts: 20,
  })
})
