/** End-to-end tests against the whole tree, and the fault tests, which start trees of their own. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { findChromium } from './chromium.ts'
import { type ProjectOptions, runPlaywright } from './playwright.ts'
import { type Service, startService } from './service.ts'
import type { Tally } from './tally.ts'

/** Five times what they take on two quiet cores, and more: whoever comes to these has found something that hangs. */
const API_LIMIT_MS = 900_000
const BROWSER_LIMIT_MS = 600_000
const FAULTS_LIMIT_MS = 1_200_000
const SECURITY_LIMIT_MS = 1_200_000
const PAUSES_LIMIT_MS = 900_000
const CLOCK_LIMIT_MS = 900_000
const FUZZ_LIMIT_MS = 900_000

/** Names and sites that the tests use: an open service accepts no others. */
const KNOWN_TO_TESTS = { ALLOWED_HOSTS: 'sluice.test,a', CORS_ORIGINS: 'http://localhost:3000' }

export type EndToEnd = {
  title: string
  /** Of the service, and of those that tests start beside it. */
  env?: Record<string, string>
  /** For the tests without a browser. */
  limitMs?: number
  /** Tests that need Python fail without it, rather than not run. */
  python?: 'required'
  /** `only`: without it, there is nothing to run. */
  browser: 'only' | 'if found' | 'no'
}

export async function runEndToEnd(
  tally: Tally,
  { title, env, limitMs = API_LIMIT_MS, python, browser }: EndToEnd,
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
  const chromium = findChromium()
  const apiEnv = { ...env, SLUICE_URL: url, ...(python ? { REQUIRE_PYTHON: '1' } : {}) }
  if (browser !== 'only') await runPlaywright(tally, { project: 'api', limitMs, env: apiEnv })
  if (browser !== 'no' && chromium) {
    const browserEnv = { SLUICE_URL: url, CHROMIUM_PATH: chromium }
    await runPlaywright(tally, { project: 'browser', limitMs: BROWSER_LIMIT_MS, env: browserEnv })
  } else if (browser === 'only') {
    tally.fail('browser tests', 'no Chromium was found: install one, or set CHROMIUM_PATH')
  } else if (browser === 'if found') {
    console.log('  The browser tests did not run: no Chromium was found (set CHROMIUM_PATH).')
  }
  if (tally.failures.length > failuresBefore) tally.note(`What the service logged last:\n${log()}`)
  await tally.check('the service stops and leaves nothing behind', stop)
}

/** What is due by the clock, which takes minutes to come. */
export async function runClock(tally: Tally) {
  tally.heading('What the clock starts')
  await runPlaywright(tally, { project: 'clock', limitMs: CLOCK_LIMIT_MS })
}

/** Requests generated from the API's document for two minutes; `npm test` sends some for a few seconds. */
export async function runFuzz(tally: Tally) {
  tally.heading('Generated requests')
  const env = { FUZZ_SECONDS: process.env.FUZZ_SECONDS ?? '120', FUZZ_SEED: process.env.FUZZ_SEED ?? '' }
  await runPlaywright(tally, { project: 'api', files: ['fuzz.spec.ts'], limitMs: FUZZ_LIMIT_MS, env })
}

export async function runFaults(tally: Tally) {
  tally.heading('Fault tests')
  await runPlaywright(tally, { project: 'faults', limitMs: FAULTS_LIMIT_MS })
}

/** Secrets that no answer may hold, whatever is tried: e2e/security looks for their common beginning. */
const PLANTED = {
  PLATFORM_API_KEY: 'canary-platform-key',
  S3_ACCESS_KEY_ID: 'canary-object-id',
  S3_SECRET_ACCESS_KEY: 'canary-object-key',
  OIDC_CLIENT_SECRET: 'canary-client-secret',
  PLUGIN_TOKEN: 'canary-plugin-token',
  SIDECAR_TOKEN: 'canary-sidecar-token-0123456789abcdef',
  ANYTHING_ELSE: 'canary-environment',
}

/** Those that a service makes by chance: the password of its database, and the token of a webhook, which it tells once. */
async function secretsMadeBy({ url, dataDir }: Service): Promise<string[]> {
  const { database_url } = JSON.parse(await readFile(join(dataDir, 'run', 'processes.json'), 'utf8'))
  const made = async (path: string, body: object) => {
    const headers = { 'x-api-key': PLANTED.PLATFORM_API_KEY, 'content-type': 'application/json' }
    const answer = await fetch(`${url}/api/v1/pipelines${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    })
    if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
    return answer.json()
  }
  await made('', { namespace: 'default', layer: 'bronze', name: 'planted' })
  const { webhook_token } = await made('/default/bronze/planted/triggers', { type: 'webhook', config: {} })
  const secrets: string[] = [new URL(database_url).password, String(webhook_token)]
  if (secrets.some((secret) => secret.length < 20)) throw new Error('a secret is too short to be looked for')
  return secrets
}

/** Attempts to get out of every sandbox, over HTTP, on a service that has secrets to lose. */
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
    secrets = await secretsMadeBy(service)
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
  await tally.check('its log holds no secret', async () =>
    logged.find((line) => /canary-[a-z]/.test(line) || secrets.some((secret) => line.includes(secret))),
  )
  if (tally.failures.length > failuresBefore) tally.note(`What the service logged last:\n${log()}`)
  await tally.check('the service stops and leaves nothing behind', stop)
}

/** Leaders that are paused for a whole minute, again: `npm test` pauses them until another has taken over. */
export async function runLongPauses(tally: Tally) {
  tally.heading('Leaders paused for a minute')
  await runPlaywright(tally, {
    project: 'faults',
    files: ['leadership.spec.ts'],
    limitMs: PAUSES_LIMIT_MS,
    env: { LEADER_PAUSE_MS: '60000' },
  })
}
