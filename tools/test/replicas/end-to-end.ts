import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { runPlaywright } from '../../kit/playwright.ts'
import type { Tally } from '../../kit/tally.ts'
import { ROOT } from './fleet.ts'
import { ALL, withFleet } from './fleet-check.ts'

const LIMIT_MS = 900_000

/** Tests of `npm run test:replicas` without `--all`: one replica writes what another one reads, and clients race. */
const USUAL = [
  'branches-at-once.spec.ts',
  'e2e/files/files.spec.ts',
  'e2e/lake/iceberg.spec.ts',
  'landing-zones.spec.ts',
  'e2e/runs/runs.spec.ts',
  'e2e/lake/s3.spec.ts',
  'triggers.spec.ts',
  'webhooks.spec.ts',
]

/** Files that start a service of their own never meet the balancer. */
const OWN_SERVICE = /own-service|pro-service/

/**
 * Tests of one process. HAProxy parses the bytes of HTTP itself. Each replica counts its own requests. The audit log
 * shows a request of another replica only after that replica has stored the entry.
 */
const OF_ONE_PROCESS = [
  'access/audit.spec.ts',
  'api/connections.spec.ts',
  'lake/query.spec.ts',
  'triggers/schedules.spec.ts',
]

/** Folders of other Playwright projects. */
const OTHER_PROJECTS = /^(browser|clock|console|faults|security)\//

/** Runs end-to-end tests whose requests pass through the balancer, to any replica. */
export async function judgeThroughBalancer(tally: Tally, isAll: boolean): Promise<void> {
  const files = isAll ? await acceptBalancer() : USUAL
  const title = isAll ? 'All end-to-end tests that accept a balancer' : 'End-to-end tests of shared state'
  await withFleet(tally, `${title}, through HAProxy to three replicas`, { started: ALL }, ({ url }) =>
    runPlaywright(tally, { project: 'api', files, limitMs: LIMIT_MS, env: { SLUICE_URL: url } }),
  )
}

async function acceptBalancer(): Promise<string[]> {
  const folder = join(ROOT, 'e2e')
  const names = (await readdir(folder, { recursive: true })).filter(
    (name) => name.endsWith('.spec.ts') && !OTHER_PROJECTS.test(name),
  )
  const found = await Promise.all(
    names.map(async (name) => (OWN_SERVICE.test(await readFile(join(folder, name), 'utf8')) ? [] : name)),
  )
  return found
    .flat()
    .filter((name) => !OF_ONE_PROCESS.includes(name))
    .map((name) => `e2e/${name}`)
}
