/**
 * `npm run test:interop`: the tests that need more than Node and npm. A browser, an S3 server and the system's Postgres are
 * installed when they are missing. A test that could not run counts as failed.
 */
import { judgeAlertRules } from './alert-rules.ts'
import { installed } from './apt.ts'
import { findChromium } from './chromium.ts'
import { runEndToEnd, runLongPauses } from './e2e.ts'
import { judgeByEngines } from './engines.ts'
import { pythonWithLibraries } from './python.ts'
import { judgeByRestKit } from './rest-kit.ts'
import { type S3Server, startS3Server } from './s3-server.ts'
import { inScratch } from './scratch.ts'
import { type SystemPostgres, startSystemPostgres } from './system-postgres.ts'
import { Tally } from './tally.ts'
import { runBunTest } from './unit.ts'

await inScratch(async () => {
  const tally = new Tally()
  let s3: S3Server | undefined
  let database: SystemPostgres | undefined
  let python: string | undefined

  tally.heading('Requirements')
  await tally.check(
    'a Chromium',
    async () => void (findChromium() ?? (await installed('chromium', findChromium))),
  )
  await tally.check('an S3 server', async () => {
    s3 = await startS3Server()
    return undefined
  })
  await tally.check('a Postgres of the system', async () => {
    database = await startSystemPostgres()
    return undefined
  })
  await tally.check(
    'bubblewrap',
    async () => void (Bun.which('bwrap') ?? (await installed('bubblewrap', () => Bun.which('bwrap')))),
  )
  await tally.check(
    'strace',
    async () => void (Bun.which('strace') ?? (await installed('strace', () => Bun.which('strace')))),
  )
  await tally.check('a Python with pyarrow, pandas and polars', async () => {
    python = await pythonWithLibraries()
    return undefined
  })

  try {
    if (s3) {
      tally.heading('Object store on S3 (bun test)')
      await runBunTest(tally, ['./app/objects/s3.interop.ts', './app/objects/s3-faults.interop.ts'], s3.env)
    }
    if (python) {
      tally.heading('Python pipelines in every sandbox, with data libraries (bun test)')
      const env = { TEST_PYTHON_BIN: python, REQUIRE_SANDBOXES: 'bubblewrap,landlock' }
      await runBunTest(tally, ['./sidecars/runner/python'], env)
      tally.heading('Native gRPC with a client in Python (bun test)')
      await runBunTest(tally, ['./sidecars/rpc/grpc.interop.ts'], { TEST_PYTHON_BIN: python })
    }
    tally.heading('Sandboxes of engine processes, with a trace of their system calls (bun test)')
    await runBunTest(tally, ['./sidecars/sandbox'], { REQUIRE_SANDBOXES: '1' })
    await judgeAlertRules(tally)
    await judgeByEngines(tally)
    await judgeByRestKit(tally)
    await runEndToEnd(tally, { title: 'Pages in a browser', browser: 'only' })
    await runLongPauses(tally)
    if (s3 && database) {
      const env = { ...s3.env, DATABASE_URL: database.url }
      const title = `End-to-end tests on S3 and PostgreSQL ${database.version}`
      await runEndToEnd(tally, { title, env, python: 'required', browser: 'no' })
    }
  } finally {
    await s3?.stop()
    await database?.stop()
  }
  return tally.conclude()
})
