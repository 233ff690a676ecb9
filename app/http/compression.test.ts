import { describe, expect, test } from 'bun:test'
import * as zlib from 'node:zlib'
import type { Route } from '../wire/route-table.ts'
import { compressed } from './compression.ts'

const DECODERS: Record<string, (bytes: Uint8Array) => Buffer> = {
  gzip: zlib.gunzipSync,
  br: zlib.brotliDecompressSync,
  zstd: zlib.zstdDecompressSync,
}
const TYPE = { 'content-type': 'application/json', vary: 'Origin' }
const rowsOf = (count: number) =>
  JSON.stringify(Array.from({ length: count }, (_, n) => ({ n, text: `row ${n}` })))

interface RecordedRequest {
  accept?: string | null
  method?: string
  path?: string
}

async function sent(
  response: Response,
  { accept = 'gzip', method = 'GET', path = '/api/v1/runs' }: RecordedRequest = {},
) {
  const headers: Record<string, string> = accept === null ? {} : { 'accept-encoding': accept }
  const request = new Request('http://sluice.test/', { method, headers })
  const answer = await compressed(request, { pattern: path } as Route, response)
  const coding = answer.headers.get('content-encoding')
  const bytes = new Uint8Array(await answer.arrayBuffer())
  const plain = coding === null ? bytes : (DECODERS[coding]?.(bytes) ?? bytes)
  return {
    coding,
    vary: answer.headers.get('vary'),
    status: answer.status,
    length: bytes.length,
    text: new TextDecoder().decode(plain),
  }
}

function streamOf(text: string, pieceBytes: number, ended: () => void = () => {}) {
  const bytes = new TextEncoder().encode(text)
  let at = 0
  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (at >= bytes.length) controller.close()
        else controller.enqueue(bytes.slice(at, at + pieceBytes))
        at += pieceBytes
      },
      cancel: ended,
    },
    { highWaterMark: 0 },
  )
}

describe('JSON responses', () => {
  test.each(['gzip', 'br', 'zstd'])('%s preserves a response of any size', async (accept) => {
    for (const count of [50, 2_000, 30_000]) {
      const text = rowsOf(count)
      const inOnePiece = await sent(new Response(text, { headers: TYPE, status: 201 }), { accept })
      expect(inOnePiece).toMatchObject({ coding: accept, vary: 'Origin, Accept-Encoding', status: 201 })
      expect(inOnePiece.text === text).toBe(true)
      expect(inOnePiece.length).toBeLessThan(text.length / 2)
      const streamed = await sent(new Response(streamOf(text, 10_007), { headers: TYPE }), { accept })
      expect([streamed.coding, streamed.text === text]).toEqual([accept, true])
    }
  })

  test('a response below 1 KB is compressed only when identity is refused', async () => {
    const text = JSON.stringify({ text: 'x'.repeat(1_024 - 12) })
    const uncompressed = { coding: null, vary: 'Origin, Accept-Encoding', text }
    expect(await sent(new Response(text, { headers: TYPE }))).toMatchObject(uncompressed)
    const accept = 'gzip, identity;q=0'
    expect(await sent(new Response(text, { headers: TYPE }), { accept })).toMatchObject({
      coding: 'gzip',
      text,
    })
    const longer = text.replace('x', 'xx')
    expect(longer).toHaveLength(1_024)
    expect((await sent(new Response(longer, { headers: TYPE }))).coding).toBe('gzip')
  })

  test('the length is that of the compressed body, or absent', async () => {
    const text = rowsOf(100)
    const headers = { ...TYPE, 'content-length': String(text.length) }
    const request = new Request('http://sluice.test/', { headers: { 'accept-encoding': 'gzip' } })
    const answer = await compressed(request, null, new Response(text, { headers }))
    const length = answer.headers.get('content-length')
    expect([null, String((await answer.arrayBuffer()).byteLength)]).toContain(length)
  })

  test('a response varies by Accept-Encoding even when not compressed', async () => {
    const text = rowsOf(100)
    for (const accept of [null, 'identity', 'gzip;q=0'])
      expect(await sent(new Response(text, { headers: TYPE }), { accept })).toMatchObject({
        coding: null,
        vary: 'Origin, Accept-Encoding',
        text,
      })
    expect(await sent(new Response(null, { headers: TYPE }), { method: 'HEAD' })).toMatchObject({
      coding: null,
      vary: 'Origin, Accept-Encoding',
    })
  })
})

describe('responses without compression', () => {
  const text = rowsOf(1_000)
  test.each<[string, ResponseInit, RecordedRequest]>([
    ['an event stream', { headers: { 'content-type': 'text/event-stream' } }, {}],
    ['a file', { headers: { 'content-type': 'application/octet-stream' } }, {}],
    ['Arrow', { headers: { 'content-type': 'application/vnd.apache.arrow.stream' } }, {}],
    ['a response that is already compressed', { headers: { ...TYPE, 'content-encoding': 'identity' } }, {}],
    ['a range of a file', { headers: TYPE, status: 206 }, {}],
    ['a response with a strong entity tag', { headers: { ...TYPE, etag: '"v1"' } }, {}],
    ['no-transform', { headers: { ...TYPE, 'cache-control': 'no-store, no-transform' } }, {}],
    ['an internal route', { headers: TYPE }, { path: '/catalog/v1/config' }],
    [
      'a route that shows webhook tokens',
      { headers: TYPE },
      { path: '/api/v1/pipelines/:ns/:layer/:name/triggers' },
    ],
  ])('does not compress: %s', async (_, init, asked) => {
    const { vary, ...answer } = await sent(new Response(text, init), asked)
    expect(answer.text === text).toBe(true)
    expect(vary ?? '').not.toContain('Accept-Encoding')
  })

  test.each([204, 304])('a response without a body is not compressed: %p', async (status) => {
    expect(await sent(new Response(null, { status, headers: TYPE }))).toMatchObject({
      status,
      length: 0,
      coding: null,
    })
  })
})

test('a response with a weak entity tag is compressed', async () => {
  const headers = { ...TYPE, etag: 'W/"v1"' }
  expect((await sent(new Response(rowsOf(100), { headers }))).coding).toBe('gzip')
})

test('a client that disconnects ends the source of a stream', async () => {
  const ended = Promise.withResolvers<void>()
  // Random text, so that output starts before the input ends.
  const text = Array.from({ length: 300_000 }, () => Math.random().toString(36)).join()
  const request = new Request('http://sluice.test/', { headers: { 'accept-encoding': 'gzip' } })
  const answer = await compressed(
    request,
    null,
    new Response(streamOf(text, 20_000, ended.resolve), { headers: TYPE }),
  )
  const reader = answer.body?.getReader()
  expect((await reader?.read())?.value?.length).toBeGreaterThan(0)
  await reader?.cancel()
  await ended.promise
})

test('a failure of the source does not look like its end', async () => {
  let pulled = 0
  const source = new ReadableStream<Uint8Array>({
    pull(controller) {
      pulled += 1
      if (pulled > 20) controller.error(new Error('the source failed'))
      else controller.enqueue(crypto.getRandomValues(new Uint8Array(20_000)))
    },
  })
  const request = new Request('http://sluice.test/', { headers: { 'accept-encoding': 'gzip' } })
  const answer = await compressed(request, null, new Response(source, { headers: TYPE }))
  await expect(answer.arrayBuffer()).rejects.toThrow()
})
