// The capacity model of one shard: one Postgres with its replicas. A day of arrivals passes two queues with one server each. The
// first starts runs in batches. The second ends them in batches under main's lock. Between both, a run executes. Every figure
// is an input, either measured by scale.ts or an assumption.

/** Milliseconds of one transaction: `fixedMs`, and `perRunMs` for each run of its batch. */
interface Batched {
  fixedMs: number
  perRunMs: number
}

export interface Costs {
  /** `perWaitingMs`: the start looks at each waiting pipeline, whether or not its run starts. */
  start: Batched & { perWaitingMs: number }
  end: Batched
  /** Milliseconds in which the scheduler requests one due run. */
  dueRunMs: number
  /** Processor time in Postgres. `fixedMs` is for one start and one end of a batch. */
  postgres: Batched & { perWaitingMs: number }
  /** Processor time of the API process for one run, with its dispatcher. */
  replicaMs: number
  walBytes: number
  diskBytes: number
}

export interface Load {
  runsPerDay: number
  /** Share of the runs that are due at a full hour. */
  hourlyShare: number
  /** Rate of the busiest hour over the mean rate, for the other runs. They follow a sine over the day. */
  dayPeak: number
  runSeconds: number
}

export interface Shard {
  /** A pipeline has one place in the queue, however many of its runs wait. */
  pipelines: number
  batch: number
  slots: number
  postgresCores: number
  replicaCores: number
}

interface Result {
  arrived: number
  started: number
  ended: number
  /** Seconds from the due time to the start. */
  startDelay: { p50: number; p99: number; max: number }
  /** Seconds from the end of the execution to the end of the run. */
  endDelay: { p50: number; p99: number; max: number }
  waitingMax: number
  /** Share of the day in which a resource is busy. Above 1, the resource is too small. */
  busy: { starts: number; ends: number; postgres: number; replicas: number; slots: number }
  walBytesPerSecond: number
}

export const DAY_SECONDS = 86_400
const SCHEDULER_TICK_SECONDS = 30

/** Due times of a day in order, in seconds, and the times at which the runs are requested. They are the same on every call. */
export function arrivalsOf(load: Load, dueRunMs: number): { due: Float64Array; requested: Float64Array } {
  const hourly = Math.floor((load.runsPerDay * load.hourlyShare) / 24)
  const others = Math.round(load.runsPerDay) - hourly * 24
  const arrivals: [due: number, requested: number][] = []
  for (let hour = 0; hour < 24; hour++)
    for (let n = 0; n < hourly; n++)
      arrivals.push([hour * 3_600, hour * 3_600 + SCHEDULER_TICK_SECONDS / 2 + (n * dueRunMs) / 1_000])
  // Evenly spaced shares of the cumulated curve `1 + (dayPeak - 1) * sin`.
  const swing = (load.dayPeak - 1) * (DAY_SECONDS / (2 * Math.PI))
  let at = 0
  for (let n = 0; n < others; n++) {
    const target = ((n + 0.5) / others) * DAY_SECONDS
    for (let step = 0; step < 4; step++) {
      const angle = (2 * Math.PI * at) / DAY_SECONDS
      at -= (at + swing * (1 - Math.cos(angle)) - target) / (1 + (load.dayPeak - 1) * Math.sin(angle))
    }
    arrivals.push([at, at])
  }
  arrivals.sort((a, b) => a[1] - b[1])
  return {
    due: Float64Array.from(arrivals, ([due]) => due),
    requested: Float64Array.from(arrivals, ([, requested]) => requested),
  }
}

export function simulate(load: Load, costs: Costs, shard: Shard): Result {
  const { due, requested } = arrivalsOf(load, costs.dueRunMs)
  return simulateArrivals({ due, requested, runSeconds: load.runSeconds }, costs, shard)
}

interface Arrivals {
  due: Float64Array
  requested: Float64Array
  runSeconds: number
}

/** Runs until every run has ended. Runs start in order of their requests, so they also end in this order. */
export function simulateArrivals(
  { due, requested, runSeconds }: Arrivals,
  { start, end, ...costs }: Costs,
  { pipelines, batch, slots, postgresCores, replicaCores }: Shard,
): Result {
  const total = requested.length
  const at = (times: Float64Array, n: number) => times[n] ?? Number.POSITIVE_INFINITY
  const executed = new Float64Array(total).fill(Number.POSITIVE_INFINITY)
  const startDelays = new Float64Array(total)
  const endDelays = new Float64Array(total)
  let [arrived, started, ended] = [0, 0, 0]
  let [starterFree, enderFree] = [0, 0]
  /** Time of the last event. Events are handled in the order of their times. */
  let clock = 0
  /** Runs that had ended before the batch that ends now. */
  let released = 0
  const busy = { starts: 0, ends: 0 }
  let [batches, scanned, waitingMax] = [0, 0, 0]

  while (ended < total) {
    const ready = Math.max(clock, starterFree, at(requested, started))
    const freeAt = (time: number) => slots - started + (time >= enderFree ? ended : released)
    // Slots of the batch that is ending become free at its end.
    const next = freeAt(ready) > 0 ? ready : Math.max(ready, enderFree)
    const startAt = freeAt(next) > 0 ? next : Number.POSITIVE_INFINITY
    const endAt = ended < started ? Math.max(enderFree, at(executed, ended)) : Number.POSITIVE_INFINITY
    clock = Math.min(startAt, endAt)
    batches += 1
    if (endAt <= startAt) {
      let size = 0
      while (size < batch && at(executed, ended + size) <= endAt) size++
      const seconds = (end.fixedMs + size * end.perRunMs) / 1_000
      enderFree = endAt + seconds
      busy.ends += seconds
      released = ended
      for (const until = ended + size; ended < until; ended++)
        endDelays[ended] = enderFree - at(executed, ended)
    } else {
      while (at(requested, arrived) <= startAt) arrived++
      const waiting = arrived - started
      const size = Math.min(batch, waiting, freeAt(startAt))
      const heads = Math.min(waiting, pipelines)
      const seconds = (start.fixedMs + size * start.perRunMs + heads * start.perWaitingMs) / 1_000
      starterFree = startAt + seconds
      busy.starts += seconds
      scanned += heads
      waitingMax = Math.max(waitingMax, waiting)
      for (const until = started + size; started < until; started++) {
        startDelays[started] = starterFree - at(due, started)
        executed[started] = starterFree + runSeconds
      }
    }
  }
  const seconds = Math.max(DAY_SECONDS, enderFree)
  const { postgres } = costs
  const postgresSeconds =
    (total * postgres.perRunMs + (batches / 2) * postgres.fixedMs + scanned * postgres.perWaitingMs) / 1_000
  return {
    arrived,
    started,
    ended,
    startDelay: quantiles(startDelays),
    endDelay: quantiles(endDelays),
    waitingMax,
    busy: {
      starts: busy.starts / seconds,
      ends: busy.ends / seconds,
      postgres: postgresSeconds / seconds / postgresCores,
      replicas: (total * costs.replicaMs) / 1_000 / seconds / replicaCores,
      slots: (total * runSeconds) / seconds / slots,
    },
    walBytesPerSecond: (total * costs.walBytes) / seconds,
  }
}

function quantiles(delays: Float64Array) {
  const sorted = delays.toSorted()
  const share = (part: number) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0
  return { p50: share(0.5), p99: share(0.99), max: share(1) }
}

/** List prices, which differ between providers and years. Replace them by your own. */
export interface Prices {
  postgresCoreHour: number
  replicaCoreHour: number
  runnerCoreHour: number
  diskGbMonth: number
  millionPuts: number
}

/** Costs per million runs of a whole installation, in the currency of the prices. */
export function costsPerMillion(
  use: {
    runsPerDay: number
    postgresCores: number
    replicaCores: number
    runnerCores: number
    diskGb: number
    putsPerRun: number
  },
  prices: Prices,
) {
  const millions = use.runsPerDay / 1e6
  return {
    postgres: (use.postgresCores * 24 * prices.postgresCoreHour) / millions,
    replicas: (use.replicaCores * 24 * prices.replicaCoreHour) / millions,
    runners: (use.runnerCores * 24 * prices.runnerCoreHour) / millions,
    disk: (use.diskGb * prices.diskGbMonth) / 30 / millions,
    puts: use.putsPerRun * prices.millionPuts,
  }
}
