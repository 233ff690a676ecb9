import { api, ok } from '../../api/client.ts'
import { now } from '../../design/clock.tsx'

const HOURS = 24
const HOUR_MS = 3_600_000
/** Runs of the last day that the page reads. */
const RUNS_READ = '200'

/** The begin of the first of 24 hours, the present one included. So the address stays the same for a while. */
const dayAgo = () => new Date((Math.floor(now().getTime() / HOUR_MS) - HOURS + 1) * HOUR_MS).toISOString()

/** The newest runs on main of the last day, and the numbers of all of them and of the failed ones. */
export async function recentRuns() {
  const query = { from: dayAgo(), branch: 'main' }
  const [all, failed] = await Promise.all([
    ok(api.runs.get({ query: { ...query, limit: RUNS_READ } })),
    ok(api.runs.get({ query: { ...query, status: 'failed', limit: '1' } })),
  ])
  return { runs: all.runs, total: all.total, failed: failed.total }
}
export type RecentRun = Awaited<ReturnType<typeof recentRuns>>['runs'][number]
