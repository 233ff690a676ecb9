import { api, ok } from '../../api/client.ts'
import { now } from '../../design/clock.tsx'

const HOURS = 24
const HOUR_MS = 3_600_000
/** Runs of the last day that the page reads, of all and of the failed ones. */
const RUNS_READ = '200'

/** The begin of the first of 24 hours, the present one included. So the address stays the same for a while. */
const dayAgo = () => new Date((Math.floor(now().getTime() / HOUR_MS) - HOURS + 1) * HOUR_MS).toISOString()

/** The newest runs and the newest failed runs of the last day, and the numbers of all of them. */
export async function recentRuns() {
  const query = { from: dayAgo(), limit: RUNS_READ }
  const [all, failed] = await Promise.all([
    ok(api.runs.get({ query })),
    ok(api.runs.get({ query: { ...query, status: 'failed' } })),
  ])
  return { runs: all.runs, total: all.total, failed: failed.runs, failedTotal: failed.total }
}
export type RecentRun = Awaited<ReturnType<typeof recentRuns>>['runs'][number]
