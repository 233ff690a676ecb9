import { api, ok } from '../../api/client.ts'
import { now } from '../../design/clock.tsx'

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
/** Runs of the last day that the page reads. */
const RUNS_READ = '200'

/** The begin of the last day, to the hour, so that the address stays the same for a while. */
const dayAgo = () => new Date(Math.floor((now().getTime() - DAY_MS) / HOUR_MS) * HOUR_MS).toISOString()

/** The newest runs of the last day. */
export const recentRuns = () => ok(api.runs.get({ query: { from: dayAgo(), limit: RUNS_READ } }))
export type RecentRun = Awaited<ReturnType<typeof recentRuns>>['runs'][number]
