import postgres from 'postgres'
import type { Tally } from '../../kit/tally.ts'
import { until } from '../../kit/until.ts'
import { contradictions } from './facts.ts'
import { ALL, withFleet } from './fleet-check.ts'
import { clientOf, nothingAcknowledged, prepare, startLoad } from './load.ts'

/** Operations of clients between two restarts. */
const OPERATIONS = 20

/** Stops every process once with SIGTERM, one after the other, under load. No request may fail, and none is repeated. */
export async function judgeRollingRestart(tally: Tally): Promise<void> {
  await withFleet(tally, 'Rolling restart of every process under load', { started: ALL }, async (fleet) => {
    await prepare(fleet.url)
    const acknowledged = nothingAcknowledged()
    const load = startLoad(fleet.url, false, acknowledged)
    for (const name of [...fleet.names()].reverse())
      await tally.check(`no request fails while ${name} restarts`, async () => {
        const [problems, done] = [load.problems.length, load.done()]
        await fleet.restart(name, 'SIGTERM')
        await until(() => load.done() >= done + OPERATIONS)
        return load.problems.slice(problems).join('\n') || undefined
      })
    await load.stop()
    console.log(`  ${load.done()} operations, ${acknowledged.runs.size} runs, ${load.queries()} queries`)
    await tally.check('nothing is lost and nothing has happened twice', async () => {
      const sql = postgres(fleet.databaseUrl, { max: 1, onnotice: () => {} })
      const found = await contradictions(sql, clientOf(fleet.url, false), acknowledged, 0)
      await sql.end()
      return found.join('\n') || undefined
    })
  })
}
