import { afterAll, beforeAll, expect, test } from 'bun:test'
import { create, toBinary } from '@bufbuild/protobuf'
import { ConnectError, createClient, type Transport } from '@connectrpc/connect'
import { createConnectTransport } from '@connectrpc/connect-web'
import { CancelRunResponseSchema, RunnerService } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { failureOf, observed } from './clients.ts'
import { plainTransport } from './plain-transport.ts'

const PROTO = { 'content-type': 'application/proto' }
const message = new Uint8Array(
  toBinary(CancelRunResponseSchema, create(CancelRunResponseSchema, { interrupted: true })),
)

/** By what is asked for. */
const answers: Record<string, () => Response | Promise<Response>> = {
  'an answer': () =>
    new Response(message, { headers: { ...PROTO, told: 'more', 'trailer-after': 'and more' } }),
  'an empty one': () => new Response(new Uint8Array(), { headers: PROTO }),
  'a refusal': () =>
    Response.json(
      { code: 'resource_exhausted', message: 'no room' },
      { status: 429, headers: { 'sluice-busy': '1', 'trailer-after': 'and more' } },
    ),
  'a refusal without a code': () => Response.json({}, { status: 404 }),
  'a refusal that is no object': () => Response.json(5, { status: 500 }),
  'a refusal that is cut off': () =>
    new Response('{"code"', { status: 500, headers: { 'content-type': 'application/json' } }),
  'a page': () => new Response('<p>bad gateway', { status: 502, headers: { 'content-type': 'text/html' } }),
  'nothing with a type': () => new Response(null, { status: 503 }),
  'a page in place of an answer': () => new Response('hello', { headers: { 'content-type': 'text/html' } }),
  'JSON in place of an answer': () => Response.json({ interrupted: true }),
  'bytes that are no message': () => new Response(new Uint8Array([255, 255]), { headers: PROTO }),
  'a way elsewhere': () => Response.redirect('http://127.0.0.1:1/', 307),
  silence: () => {
    asked.resolve()
    return new Promise(() => {})
  },
}

/** Resolved when silence is asked for. */
let asked = Promise.withResolvers<void>()
let server: ReturnType<typeof Bun.serve>
beforeAll(() => {
  server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => {
      const text = Buffer.from(await request.arrayBuffer())
        .subarray(2)
        .toString()
      return answers[text]?.() ?? new Response('no such answer', { status: 500 })
    },
  })
})
afterAll(() => server.stop(true))

/** What a call comes to, for whoever makes it and for who watches calls. */
async function told(
  transport: (url: string, observe: string[]) => Transport,
  handle: string,
  options: { url?: string; signal?: AbortSignal } = {},
) {
  const { url = server.url.origin, signal } = options
  const watched: string[] = []
  const headers: [string, string | null][] = []
  const noted = (one: Headers) => {
    for (const name of ['told', 'after', 'trailer-after']) headers.push([name, one.get(name)])
  }
  try {
    const { interrupted } = await createClient(RunnerService, transport(url, watched)).cancelRun(
      { handle },
      { signal, onHeader: noted, onTrailer: noted },
    )
    return { interrupted, headers, watched }
  } catch (error) {
    if (!(error instanceof ConnectError)) throw error
    const { code, rawMessage, metadata } = error
    const metadataSaid = ['sluice-busy', 'after', 'trailer-after'].map((name) => metadata.get(name))
    return { code, rawMessage, metadata: metadataSaid, failure: failureOf(error), watched }
  }
}

const watching = (calls: string[]) => [observed(({ method, code }) => calls.push(`${method} ${code}`))]
const plain = (url: string, calls: string[]) => plainTransport(url, watching(calls))
const library = (url: string, calls: string[]) =>
  createConnectTransport({ baseUrl: url, useBinaryFormat: true, interceptors: watching(calls) })

test.each(Object.keys(answers).filter((name) => name !== 'silence'))(
  '%s is to a plain call what it is to any',
  async (name) => {
    expect(await told(plain, name)).toEqual(await told(library, name))
  },
)

test('an answer and a refusal are what the service said', async () => {
  expect(await told(plain, 'an answer')).toMatchObject({
    interrupted: true,
    watched: ['RunnerService/CancelRun ok'],
  })
  expect(await told(plain, 'a refusal')).toMatchObject({ rawMessage: 'no room', failure: 'noRoom' })
})

test('where nobody listens is no service', async () => {
  const url = 'http://127.0.0.1:1'
  const said = await told(plain, 'an answer', { url })
  expect(said).toMatchObject({ failure: 'unreachable' })
  expect(said).toEqual(await told(library, 'an answer', { url }))
})

test.each([
  ['goes', undefined],
  ['has waited long enough', new DOMException('too late', 'TimeoutError')],
  ['has a reason', new Error('a reason')],
])('a call whose caller %s ends, before it is made and after', async (_, reason) => {
  for (const isBefore of [true, false]) {
    const ends: unknown[] = []
    for (const transport of [plain, library]) {
      asked = Promise.withResolvers()
      const caller = new AbortController()
      if (isBefore) caller.abort(reason)
      const end = told(transport, 'silence', { signal: caller.signal })
      if (!isBefore) await asked.promise
      caller.abort(reason)
      ends.push(await end)
    }
    expect(ends[0]).toEqual(ends[1])
  }
})
