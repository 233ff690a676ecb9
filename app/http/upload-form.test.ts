import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Elysia } from 'elysia'
import { until } from '../../tools/test/until.ts'
import { systemClock } from '../core/clock.ts'
import { invalid } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { openDiskStore } from '../objects/disk.ts'
import type { ObjectStore } from '../objects/port.ts'
import { testApp } from '../test-app.ts'
import {
  UPLOAD_FIELD_BYTES,
  UPLOAD_PART_HEADER_BYTES,
  UPLOAD_PART_HEADERS,
  UPLOAD_PARTS,
  uploadFormOf,
} from './upload-form.ts'

let root: string
let objects: ObjectStore
let server: ReturnType<typeof Bun.serve>
/** Answers with what it has received, and forgets it. */
const route = new Elysia().post('/upload', async ({ request }) => {
  const { fields, filename, contentType, sha256, stored } = await uploadFormOf(request, {
    fields: ['path'],
    isHashed: true,
    idleMs: request.headers.has('x-impatient') ? 300 : undefined,
  }).receive(async (file, before) => {
    if (file.filename === 'refused') throw invalid('file', 'is refused')
    return { ...(await objects.stage(file.body, { maxBytes: limits.uploadBytes })), before }
  })
  await stored.discard()
  return { fields, before: stored.before, filename, type: contentType, size: stored.size, sha256 }
})
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'sluice-forms-'))
  objects = await openDiskStore(root, systemClock)
  const app = testApp({ api: [route] })
  server = Bun.serve({ port: 0, maxRequestBodySize: 2 ** 33, fetch: (request) => app.fetch(request) })
})
afterAll(async () => {
  await server.stop(true)
  await objects.close()
  await rm(root, { recursive: true })
})

const staged = () => readdir(join(root, '~tmp'))
const LINE = 'line'
const type = (boundary = LINE) => `multipart/form-data; boundary=${boundary}`
async function post(body: BodyInit, contentType?: string) {
  const headers: Record<string, string> = contentType === undefined ? {} : { 'content-type': contentType }
  const response = await fetch(`${server.url}api/v1/upload`, { method: 'POST', body, headers })
  expect(await staged()).toEqual([])
  return { status: response.status, body: await response.json() }
}
const refusal = async (body: BodyInit, contentType?: string, status = 400) => {
  const answer = await post(body, contentType)
  expect([answer.status, answer.body.error?.code]).toEqual([status, 'INVALID_ARGUMENT'])
  return answer.body.error.message as string
}
const part = (headers: string, content = 'a,b\n') => `--${LINE}\r\n${headers}\r\n\r\n${content}\r\n`
const disposition = (parameters: string) => `Content-Disposition: form-data; ${parameters}`
const field = (name: string, value: string) => part(disposition(`name="${name}"`), value)
const file = (parameters = 'filename="a.csv"', content?: string) =>
  part(`${disposition(`name="file"; ${parameters}`)}\r\nContent-Type: text/csv`, content)
const form = (...parts: string[]) => `${parts.join('')}--${LINE}--\r\n`
/** One byte at a time: every place is the edge of a chunk. */
const crumbs = (text: string) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      for (const byte of new TextEncoder().encode(text)) controller.enqueue(new Uint8Array([byte]))
      controller.close()
    },
  })

describe('a form', () => {
  test('is its file and its fields, in any order', async () => {
    const first = await post(form(field('path', 'x/y'), file()), type())
    const expected = { fields: { path: 'x/y' }, filename: 'a.csv', type: 'text/csv', size: 4 }
    expect(first).toMatchObject({ status: 200, body: { ...expected, before: { path: 'x/y' } } })
    const last = await post(form(file(), field('path', 'x/y')), type())
    expect(last.body).toEqual({ ...first.body, before: {} })
    expect(last.body.sha256).toBe(new Bun.CryptoHasher('sha256').update('a,b\n').digest('hex'))
  })

  test('is the same wherever its chunks end, with all that may surround its parts', async () => {
    const content = `\r\n--${LINE.slice(0, 3)}\r\n--\r\n-\r\r\n--lin\r\n${'x'.repeat(300)}\r`
    const text = `preamble\r\nof lines\r\n${form(file('filename="a.csv"', content), field('path', 'é\r\nb'))}epilogue\r\n--${LINE}\r\n`
    for (const body of [text, crumbs(text)])
      expect(await post(body, type())).toMatchObject({
        status: 200,
        body: { size: content.length, fields: { path: 'é\r\nb' } },
      })
  })

  test('that a client library writes is read whole', async () => {
    const bytes = crypto.getRandomValues(new Uint8Array(60_000))
    const data = new FormData()
    data.set('file', new File([bytes], 'día "1".bin'))
    data.set('path', '{"a":1}')
    expect((await post(data)).body).toMatchObject({
      size: bytes.length,
      sha256: new Bun.CryptoHasher('sha256').update(bytes).digest('hex'),
      fields: { path: '{"a":1}' },
    })
  })

  test.each([
    ['filename="a.csv"', 'a.csv'],
    ['filename=a.csv', 'a.csv'],
    ['filename="a\\"b.csv"', 'a"b.csv'],
    ['filename="フライト.parquet"', 'フライト.parquet'],
    ["filename*=UTF-8''%e2%82%ac%20a.csv", '€ a.csv'],
    ["filename*=UTF-8'en'%e2%82%ac.csv", '€.csv'],
    ['filename="a;b=c.csv"', 'a;b=c.csv'],
    ['filename="C:\\data\\a.csv"', 'C:\\data\\a.csv'],
    ['filename="../../etc/passwd"', '../../etc/passwd'],
    ['filename="a%0d%0ab.csv"', 'a%0d%0ab.csv'],
    ['filename=""', ''],
  ])('with %s has a file named %p', async (parameters, name) =>
    expect((await post(form(file(parameters)), type())).body).toMatchObject({ filename: name, size: 4 }),
  )

  test('of a strange media type has a file of none', async () => {
    for (const strange of ['text', 'text/\u0001', `text/${'x'.repeat(200)}`, '"; x=y']) {
      const body = form(part(`${disposition('name="file"; filename="a"')}\r\nContent-Type: ${strange}`))
      expect((await post(body, type())).body).toMatchObject({ type: 'application/octet-stream' })
    }
  })

  test('may have an empty file', async () =>
    expect((await post(form(file('filename="a"', '')), type())).body).toMatchObject({ size: 0 }))

  test('may bring files and fields that nobody asked for', async () => {
    const other = part(disposition('name="other"; filename="b.csv"'), 'x'.repeat(100_000))
    const body = form(
      other,
      file(),
      field('more', 'x'),
      field('more', 'x'.repeat(UPLOAD_FIELD_BYTES + 1)),
      part('X-Nameless: yes'),
      part(disposition('filename="n"')),
    )
    expect((await post(body, type())).body).toMatchObject({ size: 4, filename: 'a.csv' })
  })
})

describe('refused is', () => {
  test('a form without its file, or with two', async () => {
    expect(await refusal(form(field('path', 'x')), type())).toBe('file: is required')
    expect(await refusal(form(field('file', 'text')), type())).toBe('file: must be a file')
    expect(await refusal(form(file(), file()), type())).toBe('file: must be given once')
    expect(await refusal(form(file(), field('path', 'a'), field('path', 'b')), type())).toBe(
      'path: must be given once',
    )
    expect(await refusal(`--${LINE}--\r\n`, type())).toBe('file: is required')
  })

  test('what the receiver refuses, before the rest has come', async () => {
    const endless = new ReadableStream<Uint8Array>({
      start: (controller) =>
        controller.enqueue(
          new TextEncoder().encode(`--${LINE}\r\n${disposition('name="file"; filename="refused"')}\r\n\r\n`),
        ),
      pull: (controller) => controller.enqueue(new Uint8Array(65_536)),
    })
    expect(await refusal(endless, type())).toBe('file: is refused')
  })

  test('a field that is too long, or cannot be stored', async () => {
    const long = 'x'.repeat(UPLOAD_FIELD_BYTES + 1)
    expect(await refusal(form(field('path', long), file()), type())).toBe('path: is longer than 8192 bytes')
    expect(await refusal(form(file(), field('path', 'a\0b')), type())).toStartWith(
      'path: must not contain a NUL',
    )
  })

  test('a name or a field in another encoding than UTF-8', async () => {
    const latin = (text: string) => new Uint8Array(Buffer.from(text, 'latin1'))
    const named = latin(form(field('path', 'x'), file('filename="café.csv"')))
    expect(await refusal(named, type())).toBe('file: its name must be valid UTF-8 without U+FFFD')
    expect(await refusal(latin(form(field('path', 'café/'), file())), type())).toBe(
      'path: must be valid UTF-8 without U+FFFD',
    )
    expect(await refusal(form(field('path', '\ufffd/'), file()), type())).toBe(
      'path: must be valid UTF-8 without U+FFFD',
    )
  })
  test('a form of too many parts, or with too much before one', async () => {
    const many = Array.from({ length: UPLOAD_PARTS + 1 }, (_, n) => field(`f${n}`, 'x'))
    expect(await refusal(form(...many, file()), type())).toBe('body: has more than 16 parts')
    const huge = `X-Huge: ${'x'.repeat(UPLOAD_PART_HEADER_BYTES)}`
    expect(await refusal(form(part(`${huge}\r\n${disposition('name="file"; filename="a"')}`)), type())).toBe(
      'file: is required',
    )
    const lines = Array.from({ length: UPLOAD_PART_HEADERS }, (_, n) => `X-${n}: y`).join('\r\n')
    expect(await refusal(form(part(`${lines}\r\n${disposition('name="file"; filename="a"')}`)), type())).toBe(
      'file: is required',
    )
  })

  test('a header that a name has smuggled in', async () => {
    for (const name of ['a\nX-Evil: 1.csv', 'a\rb.csv'])
      expect(await refusal(form(file(`filename="${name}"`)), type())).toBe('file: is required')
  })

  test('what is no form, or none that ends', async () => {
    expect(await refusal('{}', 'application/json')).toBe('Content-Type: must be multipart/form-data')
    expect(await refusal('x', 'multipart/mixed; boundary=line')).toBe(
      'Content-Type: must be multipart/form-data',
    )
    for (const contentType of [
      'multipart/form-data',
      type(''),
      type('x'.repeat(300)),
      'multipart/form-data; boundary',
    ])
      expect(await refusal(form(file()), contentType)).toStartWith('body: is not valid multipart/form-data')
    for (const body of [
      'garbage',
      `--${LINE}\r\n`,
      form(file()).slice(0, -5),
      form(file()).slice(0, 60),
      form(file()).replaceAll(LINE, 'other'),
    ])
      for (const sent of [body, crumbs(body)])
        expect(await refusal(sent, type())).toStartWith('body: is not valid multipart/form-data')
  })
})

describe('a file of 32 MB', () => {
  const full = new Uint8Array(limits.uploadBytes)
  const upload = (bytes: Uint8Array<ArrayBuffer>, size?: number) => {
    const [before = '', after = ''] = form(file('filename="a.bin"', '|')).split('|')
    const chunks = [
      new TextEncoder().encode(before),
      bytes.subarray(0, size),
      new TextEncoder().encode(after),
    ]
    return new Blob(chunks)
  }
  test('passes, one byte more does not, with a length or without', async () => {
    const over = new Uint8Array(limits.uploadBytes + 1)
    for (const sent of [(blob: Blob) => blob, (blob: Blob) => blob.stream()]) {
      expect((await post(sent(upload(full)), type())).body).toMatchObject({ size: limits.uploadBytes })
      expect(await refusal(sent(upload(over)), type(), 413)).toBe('file too large (max 32MB)')
      const far = new Blob([upload(over), over, over])
      expect(await refusal(sent(far), type(), 413)).toBe('file too large (max 32MB)')
    }
  })
})

/** Sends the beginning of a request and says what came back by the time the connection was over, or `after` was over. */
function begin(lines: string[], body: string) {
  const socket = connect(Number(server.port), '127.0.0.1')
  const head = ['POST /api/v1/upload HTTP/1.1', 'Host: x', `Content-Type: ${type()}`, ...lines]
  socket.on('error', () => {})
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
  return socket
}

describe('a client that', () => {
  test('breaks off in the middle leaves nothing', async () => {
    for (const length of ['Content-Length: 100000', 'Transfer-Encoding: chunked']) {
      const text = `--${LINE}\r\n${disposition('name="file"; filename="a"')}\r\n\r\n${'x'.repeat(5_000)}`
      const body = length.startsWith('T') ? `${text.length.toString(16)}\r\n${text}\r\n` : text
      const socket = begin([length], body)
      await until(staged, (files) => files.length === 1)
      socket.destroy()
      await until(staged, (files) => files.length === 0)
    }
  })

  test('sends nothing more is given up', async () => {
    const socket = begin(
      ['Content-Length: 1000', 'X-Impatient: yes'],
      `--${LINE}\r\n${disposition('name="file"; filename="a"')}\r\n\r\nx`,
    )
    const answer = (await new Promise<Buffer>((resolve) => socket.once('data', resolve))).toString()
    expect(answer).toContain('body: nothing of it arrived for 0.3 seconds')
    expect(await staged()).toEqual([])
    socket.destroy()
  })

  test('announces more than a form may have is told so before it sends it', async () => {
    const socket = begin(['Content-Length: 99999999', 'Connection: close'], '')
    const [answer] = (await new Promise<Buffer>((resolve) => socket.once('data', resolve)))
      .toString()
      .split('\r\n')
    expect(answer).toContain('413')
    socket.destroy()
  })
})
