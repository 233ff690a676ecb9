/**
 * `npm run test:replicas`: three API replicas, four runners and two query services on one Postgres and one S3 server behind
 * HAProxy. End-to-end tests pass through the balancer, then processes are stopped, killed and upgraded under load. `--kills N`
 * sets the number of kills, `--all` runs every end-to-end test that accepts a balancer, `--only kills,upgrade` runs these parts.
 */
import { parseArgs } from 'node:util'
import { inScratch } from '../../kit/scratch.ts'
import { Tally } from '../../kit/tally.ts'
import { judgeThroughBalancer } from './end-to-end.ts'
import { judgeKills } from './kills.ts'
import { judgeRollingRestart } from './rolling-restart.ts'
import { judgeUpgrade } from './upgrade.ts'

const KILLS_MAX = 10_000

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '15' },
    all: { type: 'boolean', default: false },
    only: { type: 'string' },
  },
})
const kills = Number(values.kills)
if (!(Number.isInteger(kills) && kills > 0 && kills <= KILLS_MAX)) {
  console.error(`--kills must be a whole number from 1 to ${KILLS_MAX}`)
  process.exit(2)
}

const tally = new Tally()
/** Each part has a fleet of its own, so that no part disturbs the checks of another. */
const parts: Record<string, () => Promise<void>> = {
  e2e: () => judgeThroughBalancer(tally, values.all),
  restart: () => judgeRollingRestart(tally),
  kills: () => judgeKills(tally, kills),
  upgrade: () => judgeUpgrade(tally),
}
const only = values.only?.split(',') ?? Object.keys(parts)
const unknown = only.filter((name) => !(name in parts))
if (unknown.length > 0) {
  console.error(`unknown part '${unknown.join(', ')}': use ${Object.keys(parts).join(', ')}`)
  process.exit(2)
}

await inScratch(async () => {
  for (const [name, judge] of Object.entries(parts)) if (only.includes(name)) await judge()
  return tally.conclude()
})
