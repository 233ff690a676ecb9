/** Runs the end-to-end tests against one whole service. The fault tests start their own services. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { findChromium } from '../install/chromium.ts'
import { type ProjectOptions, runPlaywright } from '../kit/playwright.ts'
import type { Tally } from '../kit/tally.ts'
import { type Service, startService } from '../service/service.ts'

/** At least five times the duration on two idle cores, so only a test that hangs reaches these limits. */
const API_LIMIT_MS = 900_000
const BROWSER_LIMIT_MS = 600_000
const FAULTS_LIMIT_MS = 1_200_000
const SECURITY_LIMIT_MS = 1_200_000
const PAUSES_LIMIT_MS = 900_000
const CLOCK_LIMIT_MS = 900_000
const FUZZ_LIMIT_MS = 900_000

/** Host names and origins that the tests use. A service without authentication accepts no others. */
const KNOWN_TO_TESTS = { ALLOWED_HOSTS: 'sluice.test,a', CORS_ORIGINS: 'http://localhost:3000' }

type EndToEnd = {
  title: string
  /** Environment of the service, and of services that the tests start themselves. */
  env?: Record<string, string>
  /** Time limit of the tests without a browser. */
  limitMs?: number
  /** With `required`, tests that need Python fail without it. Otherwise they are skipped. */
  python?: 'required'
  /** Runs the browser tests instead of the others. They fail without a browser. */
  browser?: true
} & Pick<ProjectOptions, 'files' | 'tag'>

export async function runEndToEnd(
  tally: Tally,
  { title, env, limitMs = API_LIMIT_MS, python, browser, files, tag }: EndToEnd,
) {
  tally.heading(title)
  let service: Service | undefined
  await tally.check('the service starts', async () => {
    service = await startService({ ...KNOWN_TO_TESTS, ...env })
    return undefined
  })
  if (!service) return
  const { url, log, stop } = service
  const failuresBefore = tally.failures.length
  const chromium = browser ? findChromium() : undefined
  if (!browser) {
    const apiEnv = { ...env, SLUICE_URL: url, ...(python ? { REQUIRE_PYTHON: '1' } : {}) }
    await runPlaywright(tally, { project: 'api', files, tag, limitMs, env: apiEnv })
  } else if (chromium) {
    const browserEnv = { SLUICE_URL: url, CHROMIUM_PATH: chromium }
    await runPlaywright(tally, { project: 'browser', limitMs: BROWSER_LIMIT_MS, env: browserEnv })
  } else {
    tally.fail('browser tests', 'no Chromium was found: install Chromium, or set CHROMIUM_PATH')
  }
  if (tally.failures.length > failuresBefore) tally.note(`Last log lines of the service:\n${log()}`)
  await tally.check('the service stops and leaves no process or file', stop)
}

/** Runs the schedule and cron tests, which wait minutes of real time. */
export async function runClock(tally: Tally) {
  tally.heading('Schedules and crons in real time')
  await runPlaywright(tally, { project: 'clock', limitMs: CLOCK_LIMIT_MS })
}

/** Sends requests generated from the OpenAPI document for two minutes. */
export async function runFuzz(tally: Tally) {
  tally.heading('Generated requests')
  await runPlaywright(tally, { project: 'fuzz', limitMs: FUZZ_LIMIT_MS })
}

export async function runFaults(tally: Tally, files: string[] = []) {
  tally.heading('Fault tests')
  await runPlaywright(tally, { project: 'faults', files, limitMs: FAULTS_LIMIT_MS })
}

/** Secrets that no response may contain. The tests of `e2e/security` search for their common prefix. */
const PLANTED = {
  PLATFORM_API_KEY: 'canary-platform-key',
  S3_ACCESS_KEY_ID: 'canary-object-id',
  S3_SECRET_ACCESS_KEY: 'canary-object-key',
  OIDC_CLIENT_SECRET: 'canary-client-secret',
  PLUGIN_TOKEN: 'canary-plugin-token',
  SIDECAR_TOKEN: 'canary-sidecar-token-0123456789abcdef',
  ANYTHING_ELSE: 'canary-environment',
}

/** Random secrets of the service: the password of its database, and a webhook token, which the API returns only once. */
async function generatedSecrets({ url, dataDir }: Service): Promise<string[]> {
  const { database_url } = JSON.parse(await readFile(join(dataDir, 'run', 'processes.json'), 'utf8'))
  const created = async (path: string, body: object) => {
    const headers = { 'x-api-key': PLANTED.PLATFORM_API_KEY, 'content-type': 'application/json' }
    const answer = await fetch(`${url}/api/v1/pipelines${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    })
    if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
    return answer.json()
  }
  await created('', { namespace: 'default', layer: 'bronze', name: 'planted' })
  const { webhook_token } = await created('/default/bronze/planted/triggers', { type: 'webhook', config: {} })
  const secrets: string[] = [new URL(database_url).password, String(webhook_token)]
  if (secrets.some((secret) => secret.length < 20))
    throw new Error('a secret has fewer than 20 characters: the search would find it by chance')
  return secrets
}

/** Runs attempts to escape from every sandbox, over HTTP, against a service that holds planted secrets. */
export async function runSecurity(
  tally: Tally,
  { python, files }: Pick<EndToEnd, 'python'> & Pick<ProjectOptions, 'files'> = {},
) {
  tally.heading('Escape attempts')
  let service: Service | undefined
  let secrets: string[] = []
  const logged: string[] = []
  await tally.check('the service starts', async () => {
    service = await startService(PLANTED, (line) => logged.push(line))
    secrets = await generatedSecrets(service)
    return undefined
  })
  if (!service) return
  const { url, log, stop } = service
  const failuresBefore = tally.failures.length
  await runPlaywright(tally, {
    project: 'security',
    files,
    limitMs: SECURITY_LIMIT_MS,
    env: {
      SLUICE_URL: url,
      SLUICE_KEY: PLANTED.PLATFORM_API_KEY,
      SLUICE_SECRETS: JSON.stringify(secrets),
      ...(python ? { REQUIRE_PYTHON: '1' } : {}),
    },
  })
  await tally.check('the log of the service contains no secret', async () =>
    logged.find((line) => /canary-[a-z]/.test(line) || secrets.some((secret) => line.includes(secret))),
  )
  if (tally.failures.length > failuresBefore) tally.note(`Last log lines of the service:\n${log()}`)
  await tally.check('the service stops and leaves no process or file', stop)
}

/** Repeats the leadership tests with leaders paused for a minute. The usual fault tests pause only until a takeover. */
export async function runLongPauses(tally: Tally) {
  tally.heading('Leaders paused for a minute')
  await runPlaywright(tally, {
    project: 'faults',
    files: ['leadership.spec.ts'],
    limitMs: PAUSES_LIMIT_MS,
    env: { LEADER_PAUSE_MS: '60000' },
  })
}
