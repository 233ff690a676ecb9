// The simulated day of `npm run bench -- scale`: assumptions, shards, and costs. Change the constants for your own installation.

import { printTable } from './figures.ts'
import { costsPerMillion, DAY_SECONDS, type Load, type Prices, type Shard, simulate } from './scale-model.ts'

const SHARDS = [10, 20, 40, 80]
const REPLICAS_PER_SHARD = 3
const LOAD: Load = { runsPerDay: 100_000_000, hourlyShare: 0.3, dayPeak: 1.6, runSeconds: 5 }
/** Slots of all runners of all shards. */
const SLOTS = 40_000
const SHARD: Omit<Shard, 'pipelines' | 'slots'> = {
  batch: 128,
  postgresCores: 8,
  replicaCores: REPLICAS_PER_SHARD * 2,
}
const CORES_PER_SLOT = 0.5
const PIPELINES = 1_000_000
/** The default of `runs_max_per_pipeline`. With 100 runs of a pipeline a day, this is one day of runs. */
const RUNS_KEPT = 100
const PUTS_PER_RUN = 4
/** CPU of the API process with its dispatcher, from docs/performance.md: 0.27 + 0.14 + 0.14 ms. */
const REPLICA_MS = 0.55
const PRICES: Prices = {
  postgresCoreHour: 0.1,
  replicaCoreHour: 0.04,
  runnerCoreHour: 0.04,
  diskGbMonth: 0.1,
  millionPuts: 5,
}

/** Costs of one run in batches of one size. */
export type RunCosts = {
  batch: number
  startMs: number
  endMs: number
  postgresMs: number
  statements: number
  transactions: number
  walBytes: number
  fullPageImages: number
  noticeBytes: number
}

interface Measured {
  smallest: RunCosts
  largest: RunCosts
  dueRunMs: number
  perWaitingMs: number
  postgresPerWaitingMs: number
  diskBytes: number
}

export function printDay({ smallest, largest, ...measured }: Measured) {
  // Two batch sizes give the fixed part of a transaction and the part of each run.
  const line = (one: number, many: number) => {
    const perRunMs = (many - one) / (largest.batch - 1)
    return { fixedMs: Math.max(0, one - perRunMs), perRunMs }
  }
  const { perWaitingMs, postgresPerWaitingMs, dueRunMs, diskBytes } = measured
  const costs = {
    start: { ...line(smallest.startMs, largest.startMs), perWaitingMs },
    end: line(smallest.endMs, largest.endMs),
    postgres: {
      ...line(smallest.postgresMs, largest.postgresMs * largest.batch),
      perWaitingMs: postgresPerWaitingMs,
    },
    dueRunMs,
    replicaMs: REPLICA_MS,
    walBytes: largest.walBytes,
    diskBytes,
  }
  console.log('\n  assumptions of the day; measured costs in milliseconds and bytes')
  console.log(
    `  ${JSON.stringify({ LOAD, SHARD, SLOTS, REPLICAS_PER_SHARD, CORES_PER_SLOT, PIPELINES, RUNS_KEPT, PUTS_PER_RUN, PRICES })}`,
  )
  console.log(`  ${JSON.stringify(costs)}`)
  console.log(
    '  equal shards; no failed or repeated run; a pipeline waits at most once; a Postgres core as fast as this one',
  )
  const dayOf = (shards: number, hourlyShare: number) => {
    const load = { ...LOAD, hourlyShare, runsPerDay: LOAD.runsPerDay / shards }
    const shard = { ...SHARD, pipelines: PIPELINES / shards, slots: SLOTS / shards }
    const { startDelay, endDelay, busy, walBytesPerSecond, waitingMax, arrived, started, ended } = simulate(
      load,
      costs,
      shard,
    )
    if (arrived !== started || started !== ended) throw new Error('the model lost a run')
    return {
      shards,
      hourlyShare,
      'start p50 s': startDelay.p50,
      'p99 s': startDelay.p99,
      'max s': startDelay.max,
      'end p99 s': endDelay.p99,
      waitingMax,
      starts: busy.starts,
      ends: busy.ends,
      postgres: busy.postgres,
      replicas: busy.replicas,
      slots: busy.slots,
      'WAL MB/s': walBytesPerSecond / 1e6,
      'max pass s':
        (costs.start.fixedMs + Math.min(waitingMax, PIPELINES / shards) * costs.start.perWaitingMs) / 1_000,
      'GB/day': (LOAD.runsPerDay * costs.diskBytes) / shards / 1e9,
    }
  }
  const rows = [LOAD.hourlyShare, 0].flatMap((share) => SHARDS.map((shards) => dayOf(shards, share)))
  printTable('one shard of a day (shares of time for servers and resources)', rows)
  const kept = (PIPELINES * RUNS_KEPT * costs.diskBytes) / 1e9
  printTable(
    `costs per million runs; ${kept.toFixed(0)} GB of kept runs on all shards`,
    SHARDS.map((shards) => ({
      shards,
      ...costsPerMillion(
        {
          runsPerDay: LOAD.runsPerDay,
          postgresCores: shards * SHARD.postgresCores,
          replicaCores: shards * SHARD.replicaCores,
          runnerCores: (LOAD.runsPerDay * LOAD.runSeconds * CORES_PER_SLOT) / DAY_SECONDS,
          diskGb: kept,
          putsPerRun: PUTS_PER_RUN,
        },
        PRICES,
      ),
    })),
  )
}
