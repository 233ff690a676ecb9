import { randomInt } from 'node:crypto'
import postgres from 'postgres'
import type { Tally } from '../../kit/tally.ts'
import { until } from '../../kit/until.ts'
import { contradictions } from './facts.ts'
import type { Fleet } from './fleet.ts'
import { ALL, withFleet } from './fleet-check.ts'
import { clientOf, nothingAcknowledged, prepare, SCHEDULED, startLoad } from './load.ts'

/** Operations of clients between two kills. */
const OPERATIONS = 5
/** Each kill of this number meets the leader of the scheduler; the others meet any process. */
const LEADER_EVERY = 5
/** A lease of 9 s, and the interval of 3 s between challenges (docs/adr/0012-leadership.md). */
const TAKEOVER_LIMIT_MS = 12_000

/** Kills random processes with SIGKILL under load. Clients repeat idempotent requests. */
export async function judgeKills(tally: Tally, kills: number): Promise<void> {
  await withFleet(tally, `${kills} processes killed under load`, { started: ALL }, async (fleet) => {
    await prepare(fleet.url)
    const sql = postgres(fleet.databaseUrl, { max: 2, onnotice: () => {} })
    const acknowledged = nothingAcknowledged()
    const load = startLoad(fleet.url, true, acknowledged)
    const takeovers: number[] = []
    const killed = new Map<string, number>()
    await tally.check(`clients get right answers during ${kills} kills`, async () => {
      for (let n = 1; n <= kills; n++) {
        const done = load.done()
        const isLeader = n % LEADER_EVERY === 0
        const names = fleet.names()
        const name = isLeader ? await leaderOf(fleet) : (names[randomInt(names.length)] ?? '')
        killed.set(name, (killed.get(name) ?? 0) + 1)
        if (isLeader) takeovers.push(await killLeader(fleet, sql, name))
        else await fleet.restart(name, 'SIGKILL')
        await until(() => load.done() >= done + OPERATIONS)
      }
      return load.problems.join('\n') || undefined
    })
    await load.stop()
    const counts = [...killed].sort().map(([name, count]) => `${name} ${count}`)
    console.log(`  killed: ${counts.join(', ')}`)
    console.log(`  ${load.done()} operations, ${acknowledged.runs.size} runs, ${load.queries()} queries`)
    console.log(`  takeovers of the scheduler: ${takeovers.map((ms) => `${Math.round(ms)} ms`).join(', ')}`)
    await tally.check('another replica leads 12 s after the death of the leader', async () => {
      const late = takeovers.filter((ms) => ms > TAKEOVER_LIMIT_MS)
      return takeovers.length === 0 || late.length > 0 ? `late takeovers: ${late.join(', ')} ms` : undefined
    })
    await tally.check('nothing is lost and nothing has happened twice', async () => {
      const found = await contradictions(sql, clientOf(fleet.url, true), acknowledged, takeovers.length)
      return found.join('\n') || undefined
    })
    await sql.end()
  })
}

/** The replica that says that it leads. */
const leaderOf = (fleet: Fleet) =>
  until(async () => {
    for (const name of fleet.names().filter((each) => each.startsWith('api'))) {
      const metrics = await fetch(`${fleet.urlOf(name)}/metrics`).then(
        (answer) => answer.text(),
        () => '',
      )
      if (/^sluice_leads\{role="scheduler"\} 1$/m.test(metrics)) return name
    }
    return ''
  })

/** Kills the leader while a schedule is due. Returns the time until another holder leads, in milliseconds. */
async function killLeader(fleet: Fleet, sql: postgres.Sql, name: string): Promise<number> {
  const runs = () => sql`select id from run where pipeline = ${SCHEDULED}`
  const holder = async () => (await sql`select holder from leader where role = 'scheduler'`)[0]?.holder
  const [before, old] = [(await runs()).length, await holder()]
  const restarted = fleet.restart(name, 'SIGKILL')
  const since = performance.now()
  await until(holder, (now) => now !== old)
  const tookMs = performance.now() - since
  // The new leader requests the run of the due time, once.
  await sql`update schedule set next_run_at = clock_timestamp() - interval '1 day'`
  await until(runs, (now) => now.length > before)
  await restarted
  return tookMs
}
