import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Code, ConnectError, createClient, type Transport } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { createConnectTransport, createGrpcWebTransport } from '@connectrpc/connect-web'
import { traceHeaders } from '../../ground/telemetry/trace.ts'
import {
  Health,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from '../../proto/gen/grpc/health/v1/health_pb.ts'
import { RunnerService } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { makeAdmission } from './admission.ts'
import { type ConnectServer, type ConnectServerOptions, serveConnect } from './connect.ts'
import { serveGrpc } from './grpc.ts'
import { TEST_TOKEN } from './testing.ts'

/** `arrived` is resolved by a call that waits. A test resolves `gate` to continue the call. */
let arrived = Promise.withResolvers<void>()
let gate = Promise.withResolvers<void>()
let streamEnded = Promise.withResolvers<void>()
/** Resolved when the signal of the call `stays` is aborted. */
let handlerLeft = Promise.withResolvers<void>()
let traced: Record<string, string> = {}
/** The signal of the last call. */
let lastSignal: AbortSignal | null = null
let isServing = true

const serve = (): ConnectServer => serveConnect(options())

function options(): ConnectServerOptions {
  return {
    host: '127.0.0.1',
    port: 0,
    admit: null,
    services: [RunnerService],
    isServing: () => isServing,
    readMaxBytes: 10_000,
    register: (router) =>
      router.service(RunnerService, {
        cancelRun: async ({ handle }, { signal }) => {
          lastSignal = signal
          if (handle === 'waits') {
            arrived.resolve()
            await gate.promise
          }
          if (handle === 'unknown') throw new ConnectError('no such attempt', Code.NotFound)
          if (handle === 'traces') traced = traceHeaders()
          if (handle === 'stays') {
            signal.addEventListener('abort', () => handlerLeft.resolve())
            arrived.resolve()
            await handlerLeft.promise
          }
          if (handle === 'broken') throw new Error('a secret of the implementation')
          return { interrupted: true }
        },
        async *streamLogs({ handle }, { signal }) {
          try {
            for (let seq = 1n; seq <= 3n; seq += 1n) yield { bootId: 'b', entry: { seq, message: handle } }
            if (handle !== 'endless') return
            await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
          } finally {
            streamEnded.resolve()
          }
        },
      }),
  }
}

let server: ConnectServer
let grpc: ConnectServer
beforeAll(async () => {
  server = serve()
  grpc = await serveGrpc(options())
})
afterAll(() => Promise.all([server.stop(0), grpc.stop(0)]))

const overGrpc = (url: string) => createGrpcTransport({ baseUrl: url.replace('grpc:', 'http:') })

const transports: [name: string, transport: () => Transport][] = [
  ['connect with JSON', () => createConnectTransport({ baseUrl: server.url })],
  ['connect with protobuf', () => createConnectTransport({ baseUrl: server.url, useBinaryFormat: true })],
  ['gRPC-web', () => createGrpcWebTransport({ baseUrl: server.url })],
  ['gRPC', () => overGrpc(grpc.url)],
]

describe.each(transports)('over %s', (_, transport) => {
  const runner = () => createClient(RunnerService, transport())

  test('calls receive an answer or the code of their error', async () => {
    expect(await runner().cancelRun({ handle: 'a' })).toMatchObject({ interrupted: true })
    expect(await failure(runner().cancelRun({ handle: 'unknown' }))).toMatchObject({
      code: Code.NotFound,
      rawMessage: 'no such attempt',
    })
    expect((await failure(runner().getRunStatus({}))).code).toBe(Code.Unimplemented)
    expect((await failure(runner().cancelRun({ handle: 'x'.repeat(12_000) }))).code).toBe(
      Code.ResourceExhausted,
    )
  })

  test('an internal error hides its message from the caller', async () => {
    expect((await failure(runner().cancelRun({ handle: 'broken' }))).message).not.toContain('secret')
  })

  test('a stream delivers its messages in order and ends', async () => {
    const messages: string[] = []
    for await (const { entry } of runner().streamLogs({ handle: 'h' }))
      messages.push(`${entry?.message}${entry?.seq}`)
    expect(messages).toEqual(['h1', 'h2', 'h3'])
  })

  test('a stream ends on the server when its reader leaves', async () => {
    streamEnded = Promise.withResolvers()
    const leave = new AbortController()
    let read = 0
    const reading = (async () => {
      for await (const _ of runner().streamLogs({ handle: 'endless' }, { signal: leave.signal })) {
        read += 1
        if (read === 3) leave.abort()
      }
    })()
    expect((await failure(reading)).code).toBe(Code.Canceled)
    await streamEnded.promise
  })
})

test.each([
  ['Connect', () => createConnectTransport({ baseUrl: server.url })],
  ['gRPC', () => overGrpc(grpc.url)],
] as const)('the health of process and services can be checked over %s', async (_, transport) => {
  const health = createClient(Health, transport())
  for (const service of ['', RunnerService.typeName, Health.typeName])
    expect((await health.check({ service })).status).toBe(ServingStatus.SERVING)
  expect((await failure(health.check({ service: 'another' }))).code).toBe(Code.NotFound)
  isServing = false
  expect((await health.check({})).status).toBe(ServingStatus.NOT_SERVING)
  isServing = true
})

describe('unary calls', () => {
  const path = '/sluice.runner.v1.RunnerService/CancelRun'
  test('a unary call knows its trace and ends when its caller leaves', async () => {
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    const headers = { 'x-request-id': 'asked', traceparent }
    const client = createClient(RunnerService, createConnectTransport({ baseUrl: server.url }))
    await client.cancelRun({ handle: 'traces' }, { headers })
    expect(traced).toMatchObject({ 'x-request-id': 'asked', traceparent })
    arrived = Promise.withResolvers()
    handlerLeft = Promise.withResolvers()
    const leave = new AbortController()
    const waiting = failure(client.cancelRun({ handle: 'stays' }, { signal: leave.signal }))
    await arrived.promise
    leave.abort()
    expect((await waiting).code).toBe(Code.Canceled)
    await handlerLeft.promise
  })

  test('the signal of an answered unary call is aborted', async () => {
    const client = createClient(RunnerService, createConnectTransport({ baseUrl: server.url }))
    for (const handle of ['a', 'unknown']) {
      await client.cancelRun({ handle }).catch(() => {})
      expect([handle, lastSignal?.aborted]).toEqual([handle, true])
    }
  })

  test('unknown encodings and excessive lengths of messages are refused early', async () => {
    const headers = { 'content-type': 'application/json', 'content-encoding': 'br' }
    expect((await fetch(server.url + path, { method: 'POST', headers, body: '{}' })).status).toBe(501)
    const socket = await rawSocket(server.url)
    socket.write(
      `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 12000\r\n\r\n{`,
    )
    expect(await socket.heard).toContain('429')
    socket.end()
  })
})

test('other paths, methods and content types are refused', async () => {
  const call = `${server.url}/${RunnerService.typeName}/CancelRun`
  expect((await fetch(`${server.url}/elsewhere`)).status).toBe(404)
  expect((await fetch(call)).status).toBe(405)
  expect(
    (await fetch(call, { method: 'POST', headers: { 'content-type': 'text/plain' }, body: 'x' })).status,
  ).toBe(415)
})

test('a caller without a token is refused early on every path', async () => {
  const admit = makeAdmission({ token: TEST_TOKEN, host: '127.0.0.1', otherHosts: [] })
  const own = serveConnect({ ...options(), admit })
  for (const path of ['/', '/elsewhere', `/${RunnerService.typeName}/CancelRun`])
    expect((await fetch(own.url + path)).status).toBe(401)
  const socket = await rawSocket(own.url)
  socket.write(
    `POST /${RunnerService.typeName}/CancelRun HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n{`,
  )
  expect(await socket.heard).toContain('401')
  socket.end()
  await own.stop(0)
})

test('a health check from an API with an unknown address is refused', async () => {
  const own = serveConnect({ ...options(), knowsApi: (url) => url === 'http://known' })
  const health = createClient(Health, createConnectTransport({ baseUrl: own.url }))
  const check = (url?: string) =>
    health.check({}, { headers: url === undefined ? {} : { 'sluice-api-address': url } })
  expect((await check('http://known')).status).toBe(ServingStatus.SERVING)
  expect((await check()).status).toBe(ServingStatus.SERVING)
  const refused = await failure(check('http://other'))
  expect([refused.code, refused.rawMessage]).toEqual([
    Code.PermissionDenied,
    expect.stringContaining('API_URLS'),
  ])
  await own.stop(0)
})

const protocols: [string, () => Promise<{ own: ConnectServer; transport: Transport }>][] = [
  [
    'Connect',
    async () => {
      const own = serve()
      return { own, transport: createConnectTransport({ baseUrl: own.url }) }
    },
  ],
  [
    'gRPC',
    async () => {
      const own = await serveGrpc(options())
      return { own, transport: overGrpc(own.url) }
    },
  ],
]

test.each(protocols)(
  'a stopping %s server ends streams, finishes calls and accepts no more',
  async (_, start) => {
    const { own, transport } = await start()
    const client = createClient(RunnerService, transport)
    arrived = Promise.withResolvers()
    gate = Promise.withResolvers()
    streamEnded = Promise.withResolvers()
    const waiting = client.cancelRun({ handle: 'waits' })
    const first = Promise.withResolvers<void>()
    const reading = (async () => {
      for await (const _ of client.streamLogs({ handle: 'endless' })) first.resolve()
    })()
    await Promise.all([first.promise, arrived.promise])
    const stopped = own.stop(10_000)
    expect((await failure(reading)).code).toBe(Code.Unavailable)
    gate.resolve()
    expect(await waiting).toMatchObject({ interrupted: true })
    await stopped
    await failure(client.cancelRun({ handle: 'a' }))
  },
)

test.each(protocols)('a stopping %s server waits no longer than its limit', async (_, start) => {
  const { own, transport } = await start()
  const client = createClient(RunnerService, transport)
  arrived = Promise.withResolvers()
  gate = Promise.withResolvers()
  const waiting = failure(client.cancelRun({ handle: 'waits' }))
  await arrived.promise
  await own.stop(10)
  await waiting
  gate.resolve()
})

async function failure(call: Promise<unknown>): Promise<ConnectError> {
  return call.then(
    () => {
      throw new Error('the call succeeded')
    },
    (error: unknown) => ConnectError.from(error),
  )
}

/** A connection to which a test writes raw bytes. `heard` is the first part of the answer. */
async function rawSocket(url: string) {
  const { hostname, port } = new URL(url)
  const { promise: heard, resolve } = Promise.withResolvers<string>()
  const socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: { data: (_, bytes) => resolve(bytes.toString()) },
  })
  return { heard, write: (text: string) => socket.write(text), end: () => socket.end() }
}
