/**
 * `npm run test:interop`: the tests that need more than Node and npm. A browser, an S3 server and the system's Postgres are
 * installed when they are missing. A test that could not run counts as failed. `-- s3 browser` runs only these parts.
 */

import { installed } from '../install/apt.ts'
import { findChromium } from '../install/chromium.ts'
import { pythonWithLibraries } from '../install/python.ts'
import { inScratch } from '../kit/scratch.ts'
import { Tally } from '../kit/tally.ts'
import { startS3Server } from '../service/s3-server.ts'
import { startSystemPostgres } from '../service/system-postgres.ts'
import { judgeAlertRules } from './alert-rules.ts'
import { runEndToEnd, runLongPauses } from './e2e.ts'
import { judgeByEngines } from './engines.ts'
import { judgeByRestKit } from './rest-kit.ts'
import { runBunTest } from './unit.ts'

/** End-to-end tests that reach the object store, or statements that differ between versions of Postgres. */
const ON_S3 = [
  'branches-at-once.spec.ts',
  'e2e/branches/branches.spec.ts',
  'e2e/files/files.spec.ts',
  'e2e/branches/history.spec.ts',
  'e2e/lake/iceberg.spec.ts',
  'e2e/api/lists.spec.ts',
  'e2e/runs/review.spec.ts',
  'e2e/runs/runs.spec.ts',
  'e2e/lake/s3.spec.ts',
  'e2e/lake/tables.spec.ts',
  'kept-branches.spec.ts',
  'landing-zones.spec.ts',
  'object-store.spec.ts',
  'pipelines.spec.ts',
  'python.spec.ts',
  'retention.spec.ts',
  'strategies.spec.ts',
  'triggers.spec.ts',
]

const tally = new Tally()

const parts: Record<string, () => Promise<void>> = {
  s3: judgeOnS3,
  python: judgePython,
  readers: async () => {
    await judgeByEngines(tally)
    await judgeByRestKit(tally)
  },
  browser: judgePages,
  pauses: () => runLongPauses(tally),
}

const requested = process.argv.slice(2)
const unknown = requested.filter((name) => !(name in parts))
if (unknown.length > 0) {
  console.error(`unknown part '${unknown.join(', ')}': use ${Object.keys(parts).join(', ')}`)
  process.exit(2)
}

await inScratch(async () => {
  for (const [name, judge] of Object.entries(parts))
    if (requested.length === 0 || requested.includes(name)) await judge()
  return tally.conclude()
})

/** Checks that a requirement is there, after its installation if needed. Undefined: the check has failed. */
async function required<T>(title: string, find: () => Promise<T>): Promise<T | undefined> {
  let found: T | undefined
  await tally.check(title, async () => {
    found = await find()
    return undefined
  })
  return found
}

function command(name: string, debianPackage: string) {
  return required(
    debianPackage,
    async () => Bun.which(name) ?? installed(debianPackage, () => Bun.which(name)),
  )
}

async function judgeOnS3(): Promise<void> {
  tally.heading('Object store on S3 (bun test)')
  const s3 = await required('an S3 server', startS3Server)
  const database = await required('a Postgres of the system', startSystemPostgres)
  try {
    if (s3 === undefined || database === undefined) return
    await runBunTest(tally, ['./app/objects/s3.interop.ts', './app/objects/s3-faults.interop.ts'], s3.env)
    const env = { ...s3.env, DATABASE_URL: database.url }
    const title = `End-to-end tests on S3 and PostgreSQL ${database.version}`
    await runEndToEnd(tally, { title, files: ON_S3, env })
  } finally {
    await s3?.stop()
    await database?.stop()
  }
}

async function judgePython(): Promise<void> {
  tally.heading('Python pipelines in every sandbox, with data libraries (bun test)')
  await command('bwrap', 'bubblewrap')
  await command('strace', 'strace')
  const python = await required('a Python with pyarrow, pandas and polars', pythonWithLibraries)
  if (python !== undefined) {
    const env = { TEST_PYTHON_BIN: python, REQUIRE_SANDBOXES: 'bubblewrap,landlock' }
    await runBunTest(tally, ['./sidecars/runner/python'], env)
    tally.heading('Native gRPC with a client in Python (bun test)')
    await runBunTest(tally, ['./sidecars/rpc/grpc.interop.ts'], { TEST_PYTHON_BIN: python })
    const pages = { title: 'Python pipelines end to end', files: ['python.spec.ts'] }
    await runEndToEnd(tally, { ...pages, python: 'required' })
  }
  tally.heading('Sandboxes of engine processes, with a trace of their system calls (bun test)')
  await runBunTest(tally, ['./sidecars/sandbox'], { REQUIRE_SANDBOXES: '1' })
}

async function judgePages(): Promise<void> {
  await judgeAlertRules(tally)
  tally.heading('Browser')
  await required('a Chromium', async () => findChromium() ?? installed('chromium', findChromium))
  await runEndToEnd(tally, { title: 'Pages in a browser', browser: true })
}
