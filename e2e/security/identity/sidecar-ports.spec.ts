// Attack class: the ports of runner and query service. An attacker reaches them over every protocol they speak. The attacker
// first has no SIDECAR_TOKEN. Then the attacker has the token of the API, but no right to the requested data.
import { readFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type APIRequestContext, expect, type PlaywrightWorkerArgs, test } from '@playwright/test'
import { eventually } from '../../kit/eventually.ts'
import { type OwnService, startOwnService } from '../../kit/own-service.ts'
import { rawRequest } from '../../kit/raw-request.ts'
import { newPipeline, readiness, writeFile } from '../../kit/resources.ts'
import { requestRun } from '../../kit/runs.ts'
import { ended } from '../escape/attempts.ts'

const TOKEN = 'sidecar-token-of-this-attack-0123456789'
const PROTO = join(import.meta.dirname, '..', '..', '..', 'proto')
/** An empty gRPC frame: no flags, no bytes. */
const EMPTY_FRAME = new Uint8Array(5)
const UNAUTHENTICATED = '16'
const PERMISSION_DENIED = '7'

interface Rpc {
  path: string
  isStream: boolean
}
interface Sidecar {
  name: 'runner' | 'query'
  /** Connect and gRPC-web. */
  http: string
  /** Native gRPC. */
  grpc: string
}
interface Answer {
  status: number
  /** `grpc-status`; null without this header. */
  grpc: string | null
  text: string
}

let service: OwnService
let request: APIRequestContext
let sidecars: [runner: Sidecar, query: Sidecar]
/** Every RPC that the protocol files describe. */
let rpcs: Rpc[]
/** A server that no sidecar may call. */
let foreignServer: Server
const foreignRequests: string[] = []
/** A table of main and its row, and the lake access as the API would send it, without a token. */
let secretRow: string
let table: string
let lake: { commit: string; catalogUrl: string; objectsUrl: string; token: string }

test.describe.configure({ mode: 'serial' })
test.beforeAll(async ({ playwright }) => {
  const files = ['sluice/runner/v1/runner', 'sluice/query/v1/query', 'grpc/health/v1/health']
  rpcs = (await Promise.all(files.map((file) => readFile(join(PROTO, `${file}.proto`), 'utf8')))).flatMap(
    rpcsIn,
  )
  foreignServer = createServer((asked, response) => {
    foreignRequests.push(`${asked.method} ${asked.url}`)
    response.setHeader('content-type', 'application/json')
    response.end('{"tables":[],"dropped":[]}')
  })
  await new Promise<void>((resolve) => foreignServer.listen(0, '127.0.0.1', resolve))
  service = await startOwnService({ SIDECAR_TOKEN: TOKEN })
  sidecars = [addressesOf('runner'), addressesOf('query')]
  request = await playwright.request.newContext({ baseURL: service.url })
  await makeTable()
})
test.afterAll(async () => {
  foreignServer?.close()
  await request?.dispose()
  await service?.stop()
})
test.afterEach(() => expect(foreignRequests).toEqual([]))

function rpcsIn(text: string): Rpc[] {
  const name = /^package ([\w.]+);/m.exec(text)?.[1]
  return [...text.matchAll(/^service (\w+) \{([^}]+)\}/gm)].flatMap(([, type, body = '']) =>
    [...body.matchAll(/^ {2}rpc (\w+)\(.*?\) returns \((stream )?/gm)].map(([, method, stream]) => ({
      path: `/${name}.${type}/${method}`,
      isStream: stream !== undefined,
    })),
  )
}

function addressesOf(name: Sidecar['name']): Sidecar {
  const [, http = '', grpc = ''] =
    new RegExp(`${name} +listening on (http://\\S+) and grpc(://\\S+)`).exec(service.log()) ?? []
  return { name, http, grpc: `http${grpc}` }
}

/** Makes a table and queries it, so that the query service caches its commit. */
async function makeTable() {
  const pipeline = await newPipeline(request, { layer: 'silver' })
  secretRow = `row of ${pipeline.name}`
  table = `silver."${pipeline.name}"`
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, `select 'row of ${pipeline.name}' as secret`)
  expect((await request.post(`${pipeline.url}/publish`)).status()).toBe(200)
  expect((await ended(request, await requestRun(request, pipeline))).status).toBe('success')
  await expectRowsOverApi()
  // This service has only one commit.
  lake = {
    commit: '1',
    catalogUrl: `${service.url}/catalog`,
    objectsUrl: `${service.url}/lake/objects`,
    token: '',
  }
}

async function expectRowsOverApi() {
  const answer = await request.post('/api/v1/query', { data: { sql: `select secret from ${table}` } })
  expect([answer.status(), (await answer.json()).rows]).toEqual([200, [{ secret: secretRow }]])
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

/** Calls over HTTP/1.1: Connect, Connect in JSON, gRPC-web and their streams, by content type. */
async function overHttp(
  url: string,
  type: string,
  headers: object,
  body: string | Uint8Array<ArrayBuffer>,
): Promise<Answer> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': type, ...headers },
    body,
    signal: AbortSignal.timeout(60_000),
  })
  const text = await response.text()
  return { status: response.status, grpc: response.headers.get('grpc-status'), text }
}

/** Calls over HTTP/2, as native gRPC unless `headers` say otherwise. */
function overHttp2(origin: string, path: string, headers: object, body = EMPTY_FRAME): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const session = connectHttp2(origin)
    session.on('error', reject)
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    })
    const answer: Answer = { status: 0, grpc: null, text: '' }
    const note = (told: Record<string, unknown>) => {
      if (told['grpc-status'] !== undefined) answer.grpc = String(told['grpc-status'])
    }
    stream.on('response', (told) => {
      answer.status = Number(told[':status'])
      note(told)
    })
    stream.on('trailers', note)
    stream.on('data', (chunk: Buffer) => {
      answer.text += chunk.toString('latin1')
    })
    stream.on('error', reject)
    stream.on('close', () => {
      session.destroy()
      resolve(answer)
    })
    stream.end(body)
  })
}

const CREDENTIALS: [who: string, headers: Record<string, string>][] = [
  ['a missing token', {}],
  ['an empty token', bearer('')],
  ['a wrong token', bearer('f'.repeat(TOKEN.length))],
  ['a longer token', bearer(`${TOKEN}0`)],
  ['a shorter token', bearer(TOKEN.slice(0, -1))],
  ['the token under another name', { 'x-api-key': TOKEN, cookie: `SIDECAR_TOKEN=${TOKEN}` }],
  ['the token in another scheme', { authorization: `Basic ${Buffer.from(TOKEN).toString('base64')}` }],
]

for (const [credential, headers] of CREDENTIALS)
  test(`${credential} opens no RPC over any protocol`, async () => {
    expect(rpcs.length).toBeGreaterThan(14)
    const others = ['/grpc.reflection.v1.ServerReflection/ServerReflectionInfo', '/metrics', '/'].map(
      (path) => ({
        path,
        isStream: true,
      }),
    )
    for (const { http, grpc } of sidecars)
      for (const { path, isStream } of [...rpcs, ...others]) {
        const [json, proto] = isStream
          ? ['application/connect+json', 'application/connect+proto']
          : ['application/json', 'application/proto']
        const refused: [string, Answer, Partial<Answer>][] = [
          [json, await overHttp(http + path, json, headers, isStream ? EMPTY_FRAME : '{}'), { status: 401 }],
          [proto, await overHttp(http + path, proto, headers, isStream ? EMPTY_FRAME : ''), { status: 401 }],
          [
            'gRPC-web',
            await overHttp(http + path, 'application/grpc-web+proto', headers, EMPTY_FRAME),
            { grpc: UNAUTHENTICATED },
          ],
          ['gRPC', await overHttp2(grpc, path, headers), { grpc: UNAUTHENTICATED }],
          [
            'Connect over HTTP/2',
            await overHttp2(grpc, path, { 'content-type': json, ...headers }),
            { status: 401 },
          ],
        ]
        for (const [protocol, answer, expected] of refused)
          expect([protocol, path, answer]).toMatchObject([protocol, path, expected])
      }
    // An attacker without the token would most likely ask for a table that was just queried.
    const query = JSON.stringify({ sql: `select * from ${table}`, limit: 10, timeoutMs: 5_000, lake })
    const path = `${sidecars[1].http}/sluice.query.v1.QueryService/ExecuteQuery`
    const { status, text } = await overHttp(path, 'application/json', headers, query)
    expect([status, text.includes('secret')]).toEqual([401, false])
  })

test('control: the token admits every RPC, so only the token was missing', async () => {
  for (const { http, grpc } of sidecars)
    for (const { path, isStream } of rpcs) {
      if (!isStream) {
        const { status } = await overHttp(http + path, 'application/json', bearer(TOKEN), '{}')
        expect([path, [401, 403, 421].includes(status)]).toEqual([path, false])
      }
      const { status, grpc: code } = await overHttp2(grpc, path, bearer(TOKEN))
      // Each port serves some of the services; the others are not found there.
      const isRefused = code === null ? status !== 404 : [UNAUTHENTICATED, PERMISSION_DENIED].includes(code)
      expect([path, isRefused]).toEqual([path, false])
    }
})

/** Calls in JSON with the token of sidecars. */
async function call({ http }: Sidecar, path: string, message: object): Promise<Answer> {
  return overHttp(http + path, 'application/json', bearer(TOKEN), JSON.stringify(message))
}
const EXECUTE = '/sluice.query.v1.QueryService/ExecuteQuery'
const SCHEMA = '/sluice.query.v1.QueryService/GetSchema'
const PREVIEW = '/sluice.query.v1.QueryService/PreviewPipeline'
const SUBMIT = '/sluice.runner.v1.RunnerService/SubmitPipeline'
const SUBMIT_MANY = '/sluice.runner.v1.RunnerService/SubmitPipelines'
const TESTS = '/sluice.runner.v1.RunnerService/RunQualityTests'

test('the query service checks the lake token even for a cached commit', async () => {
  const [, query] = sidecars
  for (const change of [
    {},
    { token: 'forged' },
    { token: 'a.b' },
    { token: TOKEN },
    { catalogId: 'guessed' },
  ]) {
    const view = { ...lake, ...change }
    const execution = { sql: `select * from ${table}`, limit: 10, timeoutMs: 5_000, lake: view }
    for (const [path, message] of [
      [EXECUTE, execution],
      [SCHEMA, { lake: view }],
    ] as const) {
      const { status, text } = await call(query, path, message)
      expect([path, change, status]).toEqual([path, change, 500])
      expect(text).not.toContain(secretRow)
      expect(text).not.toContain('VARCHAR')
    }
  }
  await expectRowsOverApi()
})

test('a request cannot redirect sidecar calls or spoil data of others', async () => {
  const [runner, query] = sidecars
  const elsewhere = `http://127.0.0.1:${(foreignServer.address() as AddressInfo).port}`
  const foreign = { ...lake, catalogUrl: `${elsewhere}/catalog`, objectsUrl: `${elsewhere}/lake/objects` }
  const views = [
    foreign,
    { ...foreign, objectsUrl: lake.objectsUrl },
    { ...foreign, catalogUrl: lake.catalogUrl },
    { ...foreign, catalogUrl: `${service.url}@${elsewhere.slice('http://'.length)}/catalog` },
    { ...lake, catalogUrl: `${service.url}/catalog/../../elsewhere` },
    { ...lake, catalogUrl: '', objectsUrl: '' },
    { ...foreign, commit: '2' },
  ]
  const pipeline = { namespace: 'default', layer: 'silver', pipelineName: 'attack', type: 'sql' }
  const files = [{ path: 'pipeline.sql', content: `select * from {{ ref('silver.a') }}` }]
  for (const { commit, ...access } of views) {
    const attempt = {
      ...pipeline,
      runId: '0191d3a0-0000-7000-8000-000000000000',
      attempt: 1,
      lake: access,
      files: [{ path: 'default/pipelines/silver/attack/pipeline.sql', versionId: '1' }],
    }
    const calls: [Sidecar, string, object][] = [
      [query, EXECUTE, { sql: 'select 1', limit: 1, timeoutMs: 5_000, lake: { commit, ...access } }],
      [query, SCHEMA, { lake: { commit, ...access } }],
      [runner, SUBMIT, attempt],
      [runner, PREVIEW, { ...pipeline, files, limit: 1, lake: access }],
      [runner, TESTS, { ...pipeline, files, lake: access }],
    ]
    for (const [sidecar, path, message] of calls) {
      const { status, text } = await call(sidecar, path, message)
      expect([path, access, status, JSON.parse(text).code]).toEqual([path, access, 403, 'permission_denied'])
      expect(text).not.toContain('127.0.0.1')
    }
    const { text } = await call(runner, SUBMIT_MANY, { requests: [attempt] })
    expect(JSON.parse(text).results).toMatchObject([{ code: Number(PERMISSION_DENIED) }])
  }
  await expectRowsOverApi()
})

test('a foreign Host is refused, even with the token', async () => {
  const path = '/grpc.health.v1.Health/Check'
  for (const { http, grpc } of sidecars) {
    const { port } = new URL(http)
    const over1 = async (lines: string[]) => {
      const type = ['Content-Type: application/json', `Authorization: Bearer ${TOKEN}`, 'Content-Length: 2']
      return (await rawRequest(http, [`POST ${path} HTTP/1.1`, ...lines, ...type], '{}')).status
    }
    for (const host of [
      'evil.example',
      `evil.example:${port}`,
      `127.0.0.1.evil.example:${port}`,
      '10.0.0.1',
      '0',
    ])
      expect([host, await over1([`Host: ${host}`])]).toEqual([host, 421])
    for (const host of ['localhost', `localhost:${port}`, `127.0.0.1:${port}`, '[::1]'])
      expect([host, await over1([`Host: ${host}`])]).toEqual([host, 200])
    // A missing Host and two different Hosts are never served, whichever layer refuses them.
    for (const lines of [
      [],
      ['Host: evil.example', 'Host: localhost'],
      ['Host: localhost', 'Host: evil.example'],
    ])
      expect([lines, [400, 421].includes(await over1(lines))]).toEqual([lines, true])

    for (const authority of ['evil.example', 'evil.example:80', '127.0.0.1.evil.example'])
      expect(await overHttp2(grpc, path, { ':authority': authority, ...bearer(TOKEN) })).toMatchObject({
        grpc: PERMISSION_DENIED,
      })
    expect(
      await overHttp2(grpc, path, { ':authority': 'localhost', host: 'evil.example', ...bearer(TOKEN) }),
    ).toMatchObject({ grpc: PERMISSION_DENIED })
    expect(await overHttp2(grpc, path, { ':authority': 'localhost', ...bearer(TOKEN) })).toMatchObject({
      grpc: '0',
    })
  }
  expect(await readiness(request)).toMatchObject({ services: { runner: 'healthy', query: 'healthy' } })
})

test('no command line and no engine environment contains the token', async () => {
  // biome-ignore lint/suspicious/noSkippedTests: other systems have no /proc to look into
  test.skip(process.platform !== 'linux', 'processes are looked at in /proc')
  const { processes } = JSON.parse(await readFile(join(service.dataDir, 'run', 'processes.json'), 'utf8'))
  const pidOf = (name: string): number => processes.find((one: { name: string }) => one.name === name).pid
  let engines = 0
  for (const name of ['api', 'runner', 'query']) {
    const own = pidOf(name)
    expect(await environmentOf(own)).toContain(`SIDECAR_TOKEN=${TOKEN}`)
    for (const pid of await descendantsOf(own)) {
      engines += 1
      expect([pid, (await environmentOf(pid)).includes(TOKEN)]).toEqual([pid, false])
    }
    for (const pid of [own, ...(await descendantsOf(own))])
      expect([pid, (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).includes(TOKEN)]).toEqual(
        [pid, false],
      )
  }
  expect(engines).toBeGreaterThan(1)
})

/** The environment of a process; empty if the process has ended meanwhile. */
const environmentOf = (pid: number) => readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')

async function descendantsOf(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '')
  const children = text.split(' ').filter(Boolean).map(Number)
  return [...children, ...(await Promise.all(children.map(descendantsOf))).flat()]
}

/** The report of another API's /health/ready about the runner of the service above. */
async function runnerAsSeenBy(env: Record<string, string>, playwright: PlaywrightWorkerArgs['playwright']) {
  const [runner] = sidecars
  const other = await startOwnService(
    { RUNNER_URLS: runner.http, QUERY_URLS: 'none', ...env },
    'runner is not ready',
  )
  const anybody = await playwright.request.newContext({ baseURL: other.url })
  try {
    const response = await anybody.get('/health/ready')
    const { services, details } = await response.json()
    return [response.status(), services.runner, details.runner]
  } finally {
    await anybody.dispose()
    await other.stop()
  }
}

test('readiness names a wrong token or an unknown API address', async ({ playwright }) => {
  const others: Record<string, string>[] = [{}, { SIDECAR_TOKEN: 'another-token-0123456789-0123456789' }]
  for (const env of others)
    expect(await runnerAsSeenBy(env, playwright)).toEqual([
      503,
      'unhealthy',
      'rejects the token: set the same SIDECAR_TOKEN for the API and the sidecar',
    ])
  expect(await runnerAsSeenBy({ SIDECAR_TOKEN: TOKEN }, playwright)).toEqual([
    503,
    'unhealthy',
    "rejects this API: add PUBLIC_URL to the sidecar's API_URLS, and the sidecar's host name to its SIDECAR_HOSTS",
  ])
})

test('a generated token is not sent to foreign sidecars', async ({ playwright }) => {
  const credentials: (string | undefined)[] = []
  const foreign = createServer((asked, response) => {
    credentials.push(asked.headers.authorization)
    response.writeHead(404).end()
  })
  await new Promise<void>((resolve) => foreign.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(foreign.address() as AddressInfo).port}`
  const other = await startOwnService({ RUNNER_URLS: url }, 'runner is not ready')
  const anybody = await playwright.request.newContext({ baseURL: other.url })
  try {
    // The query service that this API started accepts the token.
    const query = async () => (await (await anybody.get('/health/ready')).json()).services.query
    await eventually(query).toBe('healthy')
    expect(credentials.length).toBeGreaterThan(0)
    expect(new Set(credentials)).toEqual(new Set([undefined]))
  } finally {
    await anybody.dispose()
    await other.stop()
    foreign.close()
  }
})
