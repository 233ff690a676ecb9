// Attack class: leaks of secrets. A service with every kind of secret is used, misused and attacked. Then each secret, in every
// possible spelling, is searched for in all answers, logs, metrics and audit entries. The environments and command lines of its
// processes are searched too.
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type APIRequestContext, expect, test } from '@playwright/test'
import { type OwnService, startOwnService } from '../../kit/own-service.ts'
import { fresh, getJson, newPipeline, newZone, publish, writeFile } from '../../kit/resources.ts'
import { requestRun } from '../../kit/runs.ts'
import { addTrigger } from '../../kit/triggers.ts'
import { licensedWith, startProvider } from '../rights/pro-service.ts'
import { ended } from './attempts.ts'

const licensed = licensedWith({ max_users: 7, holder: 'canary-license' })

const PLANTED = {
  PLATFORM_API_KEY: 'canary-platform-key-01',
  PLATFORM_API_KEYS: 'ci:canary-named-key-0002',
  S3_ACCESS_KEY_ID: 'canary-object-id-0003',
  S3_SECRET_ACCESS_KEY: 'canary-object-key-0004',
  OIDC_CLIENT_SECRET: 'canary-client-secret-05',
  AWS_SECRET_ACCESS_KEY: 'canary-cloud-key-00006',
  NPM_TOKEN: 'canary-registry-00007',
  ANYTHING_ELSE: 'canary-environment-08',
}
const key = { 'x-api-key': PLANTED.PLATFORM_API_KEY }

let provider: Awaited<ReturnType<typeof startProvider>>
let service: OwnService
let request: APIRequestContext
let anybody: APIRequestContext
let token: string
/** Secrets that no answer may contain, by description. */
const secrets: Record<string, string> = {}
/** All HTTP answers of the service, with their requests. */
const answers: { asked: string; text: string }[] = []

test.describe.configure({ mode: 'serial' })
test.beforeAll(async ({ playwright }) => {
  provider = await startProvider()
  service = await startOwnService({
    ...PLANTED,
    ...licensed,
    ...provider.env,
    AUTH_FAILURES: 'off',
    RATE_LIMIT: 'off',
  })
  token = provider.token({ sub: 'ada', roles: ['admin'] })
  const { database_url } = JSON.parse(await readFile(join(service.dataDir, 'run', 'processes.json'), 'utf8'))
  for (const [name, value] of Object.entries(PLANTED)) secrets[name] = value.replace(/^\w+:/, '')
  secrets['the password of the database'] = new URL(database_url).password
  secrets['the address of the database'] = database_url
  secrets['an access token'] = token.slice(0, -10)
  secrets['the signature of an access token'] = token.split('.')[2] ?? ''
  secrets['the licence'] = licensed.LICENSE
  // base64url of `{"kind":"attempt"` and `{"kind":"read"`.
  secrets['a token of an attempt'] = 'eyJraW5kIjoiYXR0ZW1wdCI'
  secrets['a token of a reader'] = 'eyJraW5kIjoicmVhZCI'
  for (const value of Object.values(secrets)) expect(value.length).toBeGreaterThan(12)

  const context = (headers: Record<string, string>) =>
    playwright.request.newContext({ baseURL: service.url, extraHTTPHeaders: headers })
  request = recorded(await context(key))
  anybody = recorded(await context({}))
})
test.afterAll(async () => {
  await service?.stop()
  provider?.stop()
})

/** Wraps a context so that every answer is recorded. */
function recorded(context: APIRequestContext): APIRequestContext {
  const methods = ['get', 'post', 'put', 'delete', 'fetch'] as const
  return new Proxy(context, {
    get(target, name) {
      const method = methods.find((one) => one === name)
      if (method === undefined) return Reflect.get(target, name)
      return async (url: string, options?: object) => {
        const response = await target[method](url, options)
        const text = `${JSON.stringify(response.headersArray())}\n${await response.text()}`
        answers.push({ asked: `${method} ${url}`, text })
        return response
      }
    },
  })
}

/** Spellings of a secret: plain, in the usual encodings, its beginning, and its digest. */
function spellings(secret: string): string[] {
  const base64 = Buffer.from(secret).toString('base64').replace(/=+$/, '')
  return [
    secret,
    encodeURIComponent(secret),
    base64,
    Buffer.from(secret).toString('hex'),
    [...secret].reverse().join(''),
    secret.slice(0, Math.max(12, secret.length >> 1)),
    createHash('sha256').update(secret).digest('hex'),
  ]
}

function expectNone(where: string, text: string, except: string[] = []): void {
  const found = Object.entries(secrets)
    .filter(([what, secret]) => !except.includes(what) && spellings(secret).some((one) => text.includes(one)))
    .map(([what]) => what)
  // One expectation per text: Playwright records each expectation, and one per spelling took minutes.
  expect([where, found]).toEqual([where, []])
}

test('control: the search finds every spelling of a secret', () => {
  for (const secret of Object.values(secrets))
    for (const spelling of spellings(secret))
      expect(() => expectNone('a text', `some ${spelling} text`)).toThrow()
})

test('no answer reveals a secret, in use, errors or attacks', async () => {
  const pipeline = await newPipeline(request, { layer: 'silver' })
  const zone = await newZone(request)
  await zone.upload('a.csv')
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select 1 as a')
  await publish(request, pipeline)
  const hook = await addTrigger(request, pipeline, 'webhook', {})
  const webhookToken = String(hook.webhook_token)
  // The answer that creates the trigger contains the token, so it is not searched.
  answers.pop()
  secrets['a webhook token'] = webhookToken
  expect((await ended(request, await requestRun(request, pipeline))).status).toBe('success')

  const rightly: Record<string, string>[] = [
    { 'x-webhook-token': webhookToken },
    { authorization: `Bearer ${webhookToken}` },
  ]
  for (const headers of rightly)
    expect((await anybody.post('/api/v1/webhooks', { headers })).status()).toBe(201)
  await anybody.post(`/api/v1/webhooks/${webhookToken}`)
  await anybody.post(`/api/v1/webhooks?token=${webhookToken}`)
  await anybody.get('/api/v1/features', { headers: { authorization: `Bearer ${token}` } })
  await anybody.post('/api/v1/namespaces', {
    headers: { authorization: `Bearer ${token}` },
    data: { name: fresh('by-token') },
  })

  // Misplaced and damaged credentials: answers do not repeat them.
  const misplaced: Record<string, string>[] = [
    { 'x-api-key': `${PLANTED.PLATFORM_API_KEY}x` },
    { 'x-api-key': token },
    { authorization: `Bearer ${PLANTED.PLATFORM_API_KEY}` },
    { authorization: `Basic ${PLANTED.PLATFORM_API_KEY}` },
    { authorization: `Bearer ${token}x` },
    { authorization: `Bearer ${token}`, 'x-api-key': PLANTED.PLATFORM_API_KEY },
    { 'x-webhook-token': PLANTED.PLATFORM_API_KEY },
    { cookie: `key=${PLANTED.PLATFORM_API_KEY}` },
    { 'x-request-id': PLANTED.PLATFORM_API_KEY.slice(0, 5) },
  ]
  for (const headers of misplaced)
    for (const path of [
      '/api/v1/namespaces',
      '/catalog/v1/config?warehouse=sluice',
      '/lake/objects/a',
      '/health',
    ])
      await anybody.get(path, { headers })
  for (const headers of misplaced) await anybody.post('/api/v1/webhooks', { headers })

  // Every documented operation, once as it is and once with a fault.
  const document = await getJson(anybody, '/swagger/json')
  let operations = 0
  for (const [path, methods] of Object.entries<object>(document.paths))
    for (const method of Object.keys(methods)) {
      if (/retention\/run|\/events|\/follow|stream/.test(path)) continue
      const url = path
        .replace('{ns}', 'default')
        .replace('{layer}', 'silver')
        .replace('{name}', path.includes('landing') ? zone.name : pipeline.name)
        .replace(/\{\w+\}/g, method === 'get' ? 'nothing' : '%00')
      if (method === 'delete' && !url.includes('%00')) continue
      operations += 1
      await request.fetch(url, { method: method.toUpperCase(), timeout: 120_000 })
      await request.fetch(`${url}?limit=x&sort=x&prefix=x&sql=x`, {
        method: method.toUpperCase(),
        data: '{"broken',
        headers: { 'content-type': 'application/json' },
        timeout: 120_000,
      })
    }

  // Attempts from inside: SQL, templates and Python, and the texts of their errors.
  const reaching = [
    "select getenv('PLATFORM_API_KEY')",
    "select * from read_text('/proc/self/environ')",
    "select * from read_text('/proc/1/environ')",
    `select * from read_text('${service.dataDir}/run/processes.json')`,
    `select * from read_text('${service.dataDir}/postgres/password')`,
    'select * from duckdb_secrets()',
    "select current_setting('s3_secret_access_key')",
    "select error('failed')",
    'select * from duckdb_settings()',
    'select {{ env("PLATFORM_API_KEY") }}',
    "select '{{ config }}{{ this }}'",
    'select {{ 1 / 0 }}',
  ]
  for (const sql of reaching) {
    await request.post('/api/v1/query', { data: { sql } })
    await request.post(`${pipeline.url}/preview`, { data: { code: sql } })
    await writeFile(request, `${pipeline.prefix}pipeline.sql`, sql)
    await writeFile(request, `${pipeline.prefix}tests/quality/reaches.sql`, sql)
    await request.post(`${pipeline.url}/tests/run`, { data: {} })
  }
  await ended(request, await requestRun(request, pipeline))
  const python = await newPipeline(request, { type: 'python', name: fresh('leaks') })
  await writeFile(
    request,
    `${python.prefix}pipeline.py`,
    `
import glob, os, sys
def show(call):
    try: print(call())
    except BaseException as error: print(repr(error))
show(lambda: dict(os.environ))
show(lambda: sys.argv)
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline") + ["/proc/self/environ", "/proc/self/mounts"]:
    show(lambda: open(path, "rb").read())
show(lambda: os.listdir("."))
show(lambda: [open(os.path.join(d, f), "rb").read(4096) for d, _, fs in os.walk("..") for f in fs])
for n in range(0, 20):
    show(lambda: os.readlink("/proc/self/fd/%d" % n))
show(lambda: {k: repr(v)[:500] for k, v in globals().items()})
show(lambda: sql("select * from duckdb_settings()").fetchall())
import gc
show(lambda: [o for o in gc.get_objects() if isinstance(o, dict) and any("token" in str(k).lower() for k in o)][:20])
raise RuntimeError("shown")
`,
  )
  const run = await ended(request, await requestRun(request, python))
  expect(run.status).toBe('failed')
  expect(run.log.length).toBeGreaterThan(1)

  await request.get('/metrics')
  await request.get('/api/v1/audit?limit=200')
  for (const machine of ['run', 'pipeline', 'trigger', 'schedule'])
    await request.get(`/api/v1/inspector/${machine}/instances`)
  await request.get('/inspector')
  await anybody.get('/health/ready')
  // The number of polls for the end of a run depends on its duration.
  expect(operations).toBeGreaterThan(60)
  expect(answers.filter(({ asked }) => asked.startsWith('fetch ')).length).toBeGreaterThanOrEqual(
    2 * operations,
  )
  for (const { asked, text } of answers) {
    // Users may see the facts of their licence and their own rights, but no answer may contain these secrets.
    expectNone(asked, text, asked.includes('/triggers') ? ['a webhook token'] : [])
  }
})

test('the service log contains no secret', () => {
  expect(service.log()).toContain('401')
  expectNone('the log', service.log())
})

test('processes of user code get no secrets, and command lines contain none', async () => {
  // biome-ignore lint/suspicious/noSkippedTests: nobody else shows what a process was given
  test.skip(process.platform !== 'linux', 'only Linux shows what a process was given')
  const { processes } = JSON.parse(await readFile(join(service.dataDir, 'run', 'processes.json'), 'utf8'))
  const pid = (name: string): number => processes.find((one: { name: string }) => one.name === name)?.pid ?? 0
  const read = (process: number, file: string) =>
    readFile(`/proc/${process}/${file}`, 'latin1').catch(() => '')
  // Control: the API process has the secrets, so a search would find them.
  expect(await read(pid('api'), 'environ')).toContain(PLANTED.PLATFORM_API_KEY)
  const all = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  const parents = new Map(
    await Promise.all(
      all.map(
        async (one) => [one, Number(/^PPid:\s+(\d+)/m.exec(await read(one, 'status'))?.[1] ?? 0)] as const,
      ),
    ),
  )
  const isBelow = (one: number, above: number): boolean =>
    one === above || (one > 1 && isBelow(parents.get(one) ?? 0, above))
  const ours = (name: string) => all.filter((one) => isBelow(one, pid(name)))
  expect(ours('runner').length + ours('query').length).toBeGreaterThan(3)
  for (const one of [...ours('runner'), ...ours('query')])
    expectNone(`environment of ${one}`, await read(one, 'environ'))
  for (const name of ['runner', 'query', 'api', 'postgres'])
    for (const one of ours(name)) expectNone(`command line of ${one}`, await read(one, 'cmdline'))
})

test('stored files contain no secret, and other users cannot read the registry', async () => {
  const { mode } = await import('node:fs').then((fs) =>
    fs.promises.stat(join(service.dataDir, 'run', 'processes.json')),
  )
  expect(mode & 0o077).toBe(0)
  const stored = (
    await readdir(join(service.dataDir, 'objects'), { recursive: true, withFileTypes: true })
  ).filter((entry) => entry.isFile())
  expect(stored.length).toBeGreaterThan(3)
  for (const entry of stored) {
    const path = join(entry.parentPath, entry.name)
    const text = await readFile(path, 'latin1')
    // Files that the attempts have written contain no secret either.
    expectNone(path, text)
  }
})
