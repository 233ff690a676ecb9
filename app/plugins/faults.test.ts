// Plugins that hang, lie, send garbage, answer slowly, die in the middle or answer too much. None of them allows anything.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createServer as createHttp2Server, type Http2Server, type ServerHttp2Stream } from 'node:http2'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { gzipSync } from 'node:zlib'
import { until } from '../../tools/kit/until.ts'
import { TokenRefusal } from '../auth/access-tokens.ts'
import { recordingLog } from '../composition/test-app.ts'
import type { Enforcement, Sharing } from '../core/access.ts'
import { systemClock } from '../core/clock.ts'
import { AppError } from '../core/errors.ts'
import type { Identity } from '../core/identity.ts'
import { type AuthPlugin, makeAuthPlugin } from './auth.ts'
import { CALLS_UNDER_WAY, CALLS_WAITING, type Channel } from './channel.ts'
import { makeEnforcementPlugin } from './enforcement.ts'
import { makeSharingPlugin } from './sharing.ts'
import type { PluginResources } from './store.ts'
import { type AnswerOf, channelTo, PLUGIN_TOKEN, says, startTestPlugin, type TestPlugin } from './testing.ts'

const SECRET = 'a-secret-credential-of-ann'
/** For plugins that never give a valid answer. */
const TIMEOUT_MS = 300
/** For plugins that do, on any machine. */
const PATIENCE_MS = 30_000
const ID = '0198f0c2-7a4e-7c1b-9d0a-5b1f6c2e8d43'
const ann: Identity = { kind: 'user', userId: 'ann', name: 'Ann', roles: ['author'] }
const resource = { type: 'pipeline', id: ID, namespace: 'default', owner: 'bob' } as const
const grant = {
  grantorId: 'bob',
  granteeId: 'ann',
  resourceType: 'pipeline',
  resourceId: ID,
  permission: 'read',
} as const
const grantMessage = {
  ...grant,
  id: ID,
  resourceType: 'RESOURCE_TYPE_PIPELINE',
  permission: 'PERMISSION_READ',
  createdAt: '2026-01-01T00:00:00Z',
}
const ALLOWED = { decision: 'DECISION_ALLOWED' }

interface Ports {
  auth: AuthPlugin
  enforcement: Enforcement
  sharing: Sharing
}

/** Every call, each with an answer that allows as much as possible. */
const QUESTIONS: Record<string, { ask(ports: Ports): unknown; yes: object; hasDecision: boolean }> = {
  authenticate: {
    ask: ({ auth }) => auth.tokens.verify(SECRET, () => false),
    yes: { ...ALLOWED, user: { id: 'ann', roles: ['admin'] }, cacheSeconds: 60 },
    hasDecision: true,
  },
  authorize: {
    ask: ({ auth }) => auth.authorize(ann, { method: 'GET', pattern: '/api/v1/runs/:id' }),
    yes: { ...ALLOWED, cacheSeconds: 60 },
    hasDecision: true,
  },
  check: {
    ask: ({ enforcement }) => enforcement.check(ann, resource, 'admin'),
    yes: ALLOWED,
    hasDecision: true,
  },
  listVisible: {
    ask: ({ enforcement }) => enforcement.listVisible(ann),
    yes: { pipelines: { all: true }, landingZones: { all: true }, namespaces: { all: true } },
    hasDecision: false,
  },
  createGrant: {
    ask: ({ sharing }) => sharing.createGrant(grant),
    yes: { ...ALLOWED, grant: grantMessage },
    hasDecision: true,
  },
  listGrants: {
    ask: ({ sharing }) => sharing.listGrants(resource),
    yes: { grants: [grantMessage] },
    hasDecision: false,
  },
  grant: { ask: ({ sharing }) => sharing.grant(ID), yes: { grants: [grantMessage] }, hasDecision: false },
  revokeGrant: {
    ask: ({ sharing }) => sharing.revokeGrant(ID),
    yes: { outcome: 'REVOKE_OUTCOME_REVOKED' },
    hasDecision: false,
  },
  transferOwnership: {
    ask: ({ sharing }) => sharing.transferOwnership(ID, 'bob', 'ann'),
    yes: ALLOWED,
    hasDecision: true,
  },
}
const yesTo = (method: string) => {
  const name = method.replace(/^.*\//, '')
  const [, question] =
    Object.entries(QUESTIONS).find(([key]) => key.toLowerCase() === name.toLowerCase()) ?? []
  return JSON.stringify(question?.yes ?? { status: 'PLUGIN_STATUS_SERVING' })
}

let plugin: TestPlugin
let accomplice: TestPlugin
const handedOver: unknown[][] = []
const { log, entries: logged, messages } = recordingLog()
beforeAll(async () => {
  plugin = await startTestPlugin()
  accomplice = await startTestPlugin(agrees)
})
afterAll(() => Promise.all([plugin.stop(), accomplice.stop()]))

/** The answers of a plugin that allows everything. */
const agrees: AnswerOf = (response, question) => says(yesTo(question.method))(response, question)

/** Knows no namespace and finds nothing, because these tests do not cover lookups. */
const things: PluginResources = {
  namespace: async () => null,
  pipelines: async () => [],
  zones: async () => [],
  namespaces: async () => [],
}

function portsOver(channel: Channel): Ports {
  const owners = {
    transferOwnership: async (...handed: unknown[]) => {
      handedOver.push(handed)
      return true
    },
  }
  return {
    auth: makeAuthPlugin({ channel, clock: systemClock, admins: [] }),
    enforcement: makeEnforcementPlugin({ channel, things }),
    sharing: makeSharingPlugin({ channel, owners }),
  }
}

/** The outcome of each call: 503, or the answer. */
async function outcomes(
  url: string,
  { isMeant = () => true, timeoutMs = PATIENCE_MS }: { isMeant?: IsMeant; timeoutMs?: number } = {},
) {
  const ports = portsOver(channelTo(url, 'auth', { log, timeoutMs }))
  const selected = Object.entries(QUESTIONS).filter(([, question]) => isMeant(question))
  const found = selected.map(async ([name, { ask }]) => {
    const outcome = await Promise.resolve(ask(ports)).catch((error: unknown) =>
      error instanceof AppError && error.code === 'UNAVAILABLE' ? error.status : error,
    )
    return [name, outcome] as const
  })
  return Object.fromEntries(await Promise.all(found))
}
type IsMeant = (question: (typeof QUESTIONS)[string]) => boolean
const eachIs = (value: unknown, isMeant: IsMeant = () => true) =>
  Object.fromEntries(
    Object.entries(QUESTIONS).flatMap(([name, question]) => (isMeant(question) ? [[name, value]] : [])),
  )

const JSON_HEADERS = { 'content-type': 'application/json' }
const padded = (method: string) => yesTo(method).replace(/}$/, `,"padding":"${'x'.repeat(10_000_000)}"}`)

const WIRE_FAULTS: Record<string, AnswerOf> = {
  'never answers': () => {},
  'sends headers and no body': (response) => {
    response.writeHead(200, JSON_HEADERS).flushHeaders()
  },
  'sends an endless body of spaces': (response) => {
    response.writeHead(200, JSON_HEADERS)
    const spaces = setInterval(() => response.write(' '), TIMEOUT_MS / 10)
    response.on('close', () => clearInterval(spaces))
  },
  'closes the connection': (response) => response.socket?.destroy(),
  'closes the connection within a body of known length': (response, { method }) => {
    const answer = yesTo(method)
    response.writeHead(200, { ...JSON_HEADERS, 'content-length': answer.length + 1 })
    response.write(answer, () => response.socket?.destroy())
  },
  'closes the connection within a body of unknown length': (response, { method }) => {
    response.writeHead(200, JSON_HEADERS)
    response.write(yesTo(method), () => response.socket?.destroy())
  },
  'sends 10 MB': (response, { method }) => {
    response.writeHead(200, JSON_HEADERS).end(padded(method))
  },
  'sends 10 MB compressed with gzip': (response, { method }) => {
    response.writeHead(200, { ...JSON_HEADERS, 'content-encoding': 'gzip' }).end(gzipSync(padded(method)))
  },
  'sends text that is not JSON': says('allowed'),
  'sends binary data as JSON': (response) => {
    response.writeHead(200, JSON_HEADERS).end(Buffer.from([0x0a, 0xff, 0x00, 0x1f, 0x8b]))
  },
  'sends an empty body': says(''),
  'sends a list': says([ALLOWED]),
  'sends null': says('null'),
  'sends an HTML content type': (response, { method }) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end(yesTo(method))
  },
  'sends a Protobuf content type': (response, { method }) => {
    response.writeHead(200, { 'content-type': 'application/proto' }).end(yesTo(method))
  },
  'redirects the call': (response, { method }) => {
    response.writeHead(307, { location: `${accomplice.url}/${method}` }).end(yesTo(method))
  },
  'returns 401': (response) => {
    response.writeHead(401, JSON_HEADERS).end(JSON.stringify({ code: 'unauthenticated', message: SECRET }))
  },
  'returns 403': (response) => {
    response.writeHead(403, JSON_HEADERS).end(JSON.stringify({ code: 'permission_denied', message: SECRET }))
  },
  'returns 500 with a body that allows the call': (response, { method }) => {
    response.writeHead(500, JSON_HEADERS).end(yesTo(method))
  },
  'returns 500 with the request body as its message': (response, { body }) => {
    response.writeHead(500, JSON_HEADERS).end(JSON.stringify({ code: 'internal', message: body }))
  },
  'returns 204 without a body': (response) => {
    response.writeHead(204, JSON_HEADERS).end()
  },
}

describe('every call is 503 when a plugin', () => {
  for (const [fault, answer] of Object.entries(WIRE_FAULTS))
    test(fault, async () => {
      plugin.answer = answer
      const before = accomplice.asked.length
      expect(await outcomes(plugin.url, { timeoutMs: TIMEOUT_MS })).toEqual(eachIs(503))
      expect(accomplice.asked.length).toBe(before)
    })
  test('is unreachable', async () => {
    const gone = await startTestPlugin()
    await gone.stop()
    expect(await outcomes(gone.url)).toEqual(eachIs(503))
  })

  const decides = ({ hasDecision }: { hasDecision: boolean }) => hasDecision
  for (const decision of [
    undefined,
    null,
    'DECISION_UNSPECIFIED',
    'DECISION_MAYBE',
    'ALLOWED',
    'allowed',
    0,
    3,
    99,
    -1,
    1.5,
    true,
    [1],
    { value: 1 },
  ])
    test(`sends the decision ${JSON.stringify(decision)}`, async () => {
      plugin.answer = (response, asked) =>
        says({ ...JSON.parse(yesTo(asked.method)), decision })(response, asked)
      expect(await outcomes(plugin.url, { isMeant: decides })).toEqual(eachIs(503, decides))
    })
})

test('every call succeeds with a plugin that allows everything', async () => {
  plugin.answer = agrees
  const before = handedOver.length
  expect(await outcomes(plugin.url)).toMatchObject({
    authenticate: { kind: 'user', userId: 'ann' },
    authorize: true,
    check: true,
    listVisible: { pipelines: 'all' },
    createGrant: grant,
    listGrants: [grant],
    grant,
    revokeGrant: true,
    transferOwnership: true,
  })
  expect(handedOver).toHaveLength(before + 1)
})

describe('invalid answers', () => {
  const outcomeOf = async (name: string, message: object) => {
    plugin.answer = says(message)
    return (await outcomes(plugin.url))[name]
  }
  test('refuses an answer without a valid user', async () => {
    const users = [
      undefined,
      {},
      { id: '' },
      { id: ' ann' },
      { id: 'a\nb' },
      { id: '\ud800' },
      { id: 'x'.repeat(256) },
    ]
    for (const user of users)
      expect([user, await outcomeOf('authenticate', { ...ALLOWED, user })]).toEqual([user, 503])
  })
  test('refuses an answer without every kind, or with invalid ids', async () => {
    const [all, none] = [{ all: true }, {}]
    for (const message of [
      {},
      { pipelines: all, landingZones: all },
      { pipelines: { ids: ['1; drop table run'] }, landingZones: none, namespaces: none },
      { pipelines: none, landingZones: { namespaceIds: ['default'] }, namespaces: none },
      { pipelines: none, landingZones: none, namespaces: { namespaceNames: ['\u0000'] } },
      { pipelines: { ids: 'all' }, landingZones: none, namespaces: none },
    ])
      expect([message, await outcomeOf('listVisible', message)]).toEqual([message, 503])
    const nothing = { pipelines: none, landingZones: none, namespaces: none }
    expect(await outcomeOf('listVisible', nothing)).toEqual({ pipelines: [], zones: [], namespaces: [] })
  })
  test('refuses an answer with another or an incomplete grant', async () => {
    const other = '0198f0c2-7a4e-7c1b-9d0a-5b1f6c2e8d44'
    for (const change of [
      { grantorId: 'eve' },
      { granteeId: 'eve' },
      { resourceId: other },
      { resourceType: 'RESOURCE_TYPE_NAMESPACE' },
      { permission: 'PERMISSION_ADMIN' },
      { permission: 'PERMISSION_UNSPECIFIED' },
      { permission: 7 },
      { resourceType: 'RESOURCE_TYPE_TABLE' },
      { id: '' },
      { id: 'x' },
      { createdAt: undefined },
      { createdAt: 'yesterday' },
    ]) {
      const changed = { ...grantMessage, ...change }
      expect([change, await outcomeOf('createGrant', { ...ALLOWED, grant: changed })]).toEqual([change, 503])
    }
    expect(await outcomeOf('createGrant', ALLOWED)).toBe(503)
    for (const change of [{ resourceId: other }, { granteeId: '' }, { permission: 'PERMISSION_MAYBE' }])
      expect([change, await outcomeOf('listGrants', { grants: [{ ...grantMessage, ...change }] })]).toEqual([
        change,
        503,
      ])
    expect(await outcomeOf('grant', { grants: [{ ...grantMessage, id: other }] })).toBe(503)
    expect(await outcomeOf('grant', { grants: [grantMessage, grantMessage] })).toBe(503)
  })
  test('refuses an unknown outcome of a revocation', async () => {
    for (const outcome of [undefined, 'REVOKE_OUTCOME_UNSPECIFIED', 'REVOKE_OUTCOME_PERHAPS', 9])
      expect([outcome, await outcomeOf('revokeGrant', { outcome })]).toEqual([outcome, 503])
  })
})

test('a denial admits no user, shares nothing and transfers nothing', async () => {
  plugin.answer = says({
    decision: 'DECISION_DENIED',
    user: { id: 'ann' },
    grant: grantMessage,
    cacheSeconds: 60,
  })
  const before = handedOver.length
  const found = await outcomes(plugin.url)
  expect(found.authenticate).toBeInstanceOf(TokenRefusal)
  expect([found.authorize, found.check]).toEqual([false, false])
  expect([found.createGrant, found.transferOwnership]).toMatchObject([{ status: 400 }, { status: 400 }])
  expect(handedOver).toHaveLength(before)
})

test('forwards the vouching of an administrator to a transfer', async () => {
  plugin.answer = agrees
  const { sharing } = portsOver(channelTo(plugin.url, 'auth', { log, timeoutMs: PATIENCE_MS }))
  expect(await sharing.transferOwnership(ID, 'bob', 'ann', true)).toBe(true)
  expect(handedOver.at(-1)).toEqual([ID, 'bob', 'ann', true])
})

test('a plugin without sharing makes its routes 501', async () => {
  plugin.answer = (response) => {
    response.writeHead(501, JSON_HEADERS).end(JSON.stringify({ code: 'unimplemented' }))
  }
  const {
    createGrant,
    listGrants,
    grant: one,
    revokeGrant,
    transferOwnership,
    ...others
  } = await outcomes(plugin.url)
  expect([createGrant, listGrants, one, revokeGrant, transferOwnership]).toEqual([501, 501, 501, 501, 501])
  expect(others).toEqual({ authenticate: 503, authorize: 503, check: 503, listVisible: 503 })
})

test('limits concurrent calls of a plugin; further calls wait', async () => {
  const openCalls: (() => void)[] = []
  let isHolding = true
  let most = 0
  plugin.answer = (response, asked) => {
    openCalls.push(() => agrees(response, asked))
    most = Math.max(most, openCalls.length)
    if (!isHolding) openCalls.shift()?.()
  }
  const { auth } = portsOver(channelTo(plugin.url))
  const all = Array.from({ length: 3 * CALLS_UNDER_WAY }, (_, n) =>
    auth.tokens.verify(`token-${n}`, () => false),
  )
  await until(() => openCalls.length === CALLS_UNDER_WAY)
  isHolding = false
  for (const answer of openCalls.splice(0)) answer()
  for (const user of await Promise.all(all)) expect(user).toMatchObject({ userId: 'ann' })
  expect(most).toBe(CALLS_UNDER_WAY)
})

test('refuses excess calls of a plugin that hangs, then frees its slots', async () => {
  plugin.answer = () => {}
  const { auth } = portsOver(channelTo(plugin.url, 'auth', { log, timeoutMs: TIMEOUT_MS }))
  const many = CALLS_UNDER_WAY + CALLS_WAITING + 5
  const all = Array.from({ length: many }, (_, n) =>
    Promise.resolve(auth.tokens.verify(`token-${n}`, () => false)).catch((error) => error.status),
  )
  expect(new Set(await Promise.all(all))).toEqual(new Set([503]))
  plugin.answer = agrees
  // The first answer may arrive too late, so this waits for an answer in time.
  const user = await until(() => Promise.resolve(auth.tokens.verify('token', () => false)).catch(() => null))
  expect(user).toMatchObject({ userId: 'ann' })
})

test('logs neither credentials nor texts of a plugin, and failures rarely', () => {
  for (const secret of [SECRET, PLUGIN_TOKEN]) expect(JSON.stringify(logged)).not.toContain(secret)
  expect(messages()).toContain('plugin call failed')
  const expected = ['plugin call failed', 'plugin recovered']
  expect(messages().filter((message) => !expected.includes(message))).toEqual([])
})

describe('over native gRPC, every call is 503 when a plugin', () => {
  async function startGrpc(answer: (stream: ServerHttp2Stream) => void) {
    const server: Http2Server = createHttp2Server()
    server.on('stream', answer)
    server.on('session', (session) => session.on('error', () => {}))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return { url: `grpc://127.0.0.1:${(server.address() as AddressInfo).port}`, server }
  }
  const framed = (message: Uint8Array) => {
    const head = Buffer.alloc(5)
    head.writeUInt32BE(message.length, 1)
    return Buffer.concat([head, message])
  }
  const headers = { ':status': 200, 'content-type': 'application/grpc+proto' }
  /** `decision: ALLOWED`, in the binary format. */
  const allowed = Buffer.from([0x08, 0x01])
  const FAULTS: Record<string, (stream: ServerHttp2Stream) => void> = {
    'never answers': () => {},
    'never ends its response': (stream) => {
      stream.respond(headers)
      stream.write(framed(allowed))
    },
    'sends a message and an error status': (stream) => {
      stream.respond(headers, { waitForTrailers: true })
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '13' }))
      stream.end(framed(allowed))
    },
    'sends 10 MB': (stream) => {
      stream.on('error', () => {})
      stream.respond(headers, { waitForTrailers: true })
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
      // An unknown field of that length.
      const length = Buffer.from([0xfa, 0x3f, 0x80, 0xad, 0xe2, 0x04])
      stream.end(framed(Buffer.concat([allowed, length, Buffer.alloc(10_000_000)])))
    },
    'sends an unknown decision': (stream) => {
      stream.respond(headers, { waitForTrailers: true })
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
      stream.end(framed(Buffer.from([0x08, 0x07])))
    },
    'sends invalid frames': (stream) => {
      stream.respond(headers, { waitForTrailers: true })
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
      stream.end(Buffer.from('HTTP/1.1 200 OK allowed'))
    },
    'closes the connection within a frame': (stream) => {
      stream.respond(headers)
      stream.write(framed(allowed).subarray(0, 6), () => stream.session?.destroy())
    },
  }
  for (const [fault, answer] of Object.entries(FAULTS))
    test(fault, async () => {
      const { url, server } = await startGrpc(answer)
      const isCheck = ({ yes }: { yes: object }) => yes === ALLOWED
      expect(await outcomes(url, { isMeant: isCheck, timeoutMs: TIMEOUT_MS })).toEqual(eachIs(503, isCheck))
      server.close()
    })
  test('is not an HTTP/2 server', async () => {
    const server = createTcpServer((socket) => {
      socket.on('error', () => {})
      socket.end('allowed')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const url = `grpc://127.0.0.1:${(server.address() as AddressInfo).port}`
    expect(await outcomes(url, { timeoutMs: TIMEOUT_MS })).toEqual(eachIs(503))
    server.close()
  })
})
