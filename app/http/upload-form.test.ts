import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { until } from '../../tools/kit/until.ts'
import { testApp } from '../composition/test-app.ts'
import { systemClock } from '../core/clock.ts'
import { described } from '../core/documented.ts'
import { invalid } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { openDiskStore } from '../objects/disk.ts'
import type { ObjectStore } from '../objects/port.ts'
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
/** Answers with a description of the form, and discards the file. */
const route = new Elysia().post(
  '/upload',
  async ({ request }) => {
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
  },
  { detail: { operationId: 'upload', ...described({ form: t.Object({}) }) } },
)
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
/** One byte at a time, so that every position is the edge of a chunk. */
const crumbs = (text: string) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      for (const byte of new TextEncoder().encode(text)) controller.enqueue(new Uint8Array([byte]))
      controller.close()
    },
  })

describe('forms', () => {
  test('accepts the file and its fields in any order', async () => {
    const first = await post(form(field('path', 'x/y'), file()), type())
    const expected = { fields: { path: 'x/y' }, filename: 'a.csv', type: 'text/csv', size: 4 }
    expect(first).toMatchObject({ status: 200, body: { ...expected, before: { path: 'x/y' } } })
    const last = await post(form(file(), field('path', 'x/y')), type())
    expect(last.body).toEqual({ ...first.body, before: {} })
    expect(last.body.sha256).toBe(new Bun.CryptoHasher('sha256').update('a,b\n').digest('hex'))
  })

  test('reads the same form at all chunk edges, with preamble and epilogue', async () => {
    const content = `\r\n--${LINE.slice(0, 3)}\r\n--\r\n-\r\r\n--lin\r\n${'x'.repeat(300)}\r`
    const text = `preamble\r\nof lines\r\n${form(file('filename="a.csv"', content), field('path', 'é\r\nb'))}epilogue\r\n--${LINE}\r\n`
    for (const body of [text, crumbs(text)])
      expect(await post(body, type())).toMatchObject({
        status: 200,
        body: { size: content.length, fields: { path: 'é\r\nb' } },
      })
  })

  test('reads the whole form of a client library', async () => {
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
  ])('reads from %s the file name %p', async (parameters, name) =>
    expect((await post(form(file(parameters)), type())).body).toMatchObject({ filename: name, size: 4 }),
  )

  test('replaces an invalid media type with application/octet-stream', async () => {
    for (const strange of ['text', 'text/\u0001', `text/${'x'.repeat(200)}`, '"; x=y']) {
      const body = form(part(`${disposition('name="file"; filename="a"')}\r\nContent-Type: ${strange}`))
      expect((await post(body, type())).body).toMatchObject({ type: 'application/octet-stream' })
    }
  })

  test('accepts an empty file', async () =>
    expect((await post(form(file('filename="a"', '')), type())).body).toMatchObject({ size: 0 }))

  test('ignores parts without a name', async () => {
    const body = form(file(), part('X-Nameless: yes'), part(disposition('filename="n"')))
    expect((await post(body, type())).body).toMatchObject({ size: 4, filename: 'a.csv' })
  })
})

describe('refused forms', () => {
  test('refuses unknown files and fields, before and after the file', async () => {
    const known = 'Known: `path`, `file`'
    const other = part(disposition('name="other"; filename="b.csv"'), 'x'.repeat(100_000))
    for (const parts of [
      [other, file()],
      [file(), other],
    ])
      expect(await refusal(form(...parts), type())).toBe(`unknown form field \`other\`. ${known}`)
    expect(await refusal(form(file(), field('pth', 'x')), type())).toBe(
      `unknown form field \`pth\`, did you mean \`path\`? ${known}`,
    )
    expect(await refusal(form(part(disposition('name="path"; filename="b"')), file()), type())).toBe(
      'path: must be a text, not a file',
    )
  })
  test('refuses a form without its file, or with two files', async () => {
    expect(await refusal(form(field('path', 'x')), type())).toBe('file: is required')
    expect(await refusal(form(field('file', 'text')), type())).toBe('file: must be a file')
    expect(await refusal(form(file(), file()), type())).toBe('file: must not occur more than once')
    expect(await refusal(form(file(), field('path', 'a'), field('path', 'b')), type())).toBe(
      'path: must not occur more than once',
    )
    expect(await refusal(`--${LINE}--\r\n`, type())).toBe('file: is required')
  })

  test('refuses a form as soon as the receiver refuses its file', async () => {
    const endless = new ReadableStream<Uint8Array>({
      start: (controller) =>
        controller.enqueue(
          new TextEncoder().encode(`--${LINE}\r\n${disposition('name="file"; filename="refused"')}\r\n\r\n`),
        ),
      pull: (controller) => controller.enqueue(new Uint8Array(65_536)),
    })
    expect(await refusal(endless, type())).toBe('file: is refused')
  })

  test('refuses a field that is too long or cannot be stored', async () => {
    const long = 'x'.repeat(UPLOAD_FIELD_BYTES + 1)
    expect(await refusal(form(field('path', long), file()), type())).toBe('path: is longer than 8192 bytes')
    expect(await refusal(form(file(), field('path', 'a\0b')), type())).toStartWith(
      'path: must not contain a NUL',
    )
  })

  test('refuses a name or a field that is not valid UTF-8', async () => {
    const latin = (text: string) => new Uint8Array(Buffer.from(text, 'latin1'))
    const named = latin(form(field('path', 'x'), file('filename="café.csv"')))
    expect(await refusal(named, type())).toBe('file: the file name must be valid UTF-8 without U+FFFD')
    expect(await refusal(latin(form(field('path', 'café/'), file())), type())).toBe(
      'path: must be valid UTF-8 without U+FFFD',
    )
    expect(await refusal(form(field('path', '\ufffd/'), file()), type())).toBe(
      'path: must be valid UTF-8 without U+FFFD',
    )
  })
  test('refuses too many parts and too many part headers', async () => {
    const many = Array.from({ length: UPLOAD_PARTS + 1 }, () => part('X-Nameless: yes'))
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

  test('refuses a header that a file name has smuggled in', async () => {
    for (const name of ['a\nX-Evil: 1.csv', 'a\rb.csv'])
      expect(await refusal(form(file(`filename="${name}"`)), type())).toBe('file: is required')
  })

  test('refuses other content types and forms without an end', async () => {
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
  test('accepts 32 MB and refuses one byte more, however sent', async () => {
    const over = new Uint8Array(limits.uploadBytes + 1)
    for (const sent of [(blob: Blob) => blob, (blob: Blob) => blob.stream()]) {
      expect((await post(sent(upload(full)), type())).body).toMatchObject({ size: limits.uploadBytes })
      expect(await refusal(sent(upload(over)), type(), 413)).toBe('file too large (max 32MB)')
      const far = new Blob([upload(over), over, over])
      expect(await refusal(sent(far), type(), 413)).toBe('file too large (max 32MB)')
    }
  })
})

/** Sends the beginning of a request and returns the open socket. */
function begin(lines: string[], body: string) {
  const socket = connect(Number(server.port), '127.0.0.1')
  const head = ['POST /api/v1/upload HTTP/1.1', 'Host: x', `Content-Type: ${type()}`, ...lines]
  socket.on('error', () => {})
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
  return socket
}

describe('broken clients', () => {
  test('a client that disconnects in the middle leaves no file', async () => {
    for (const length of ['Content-Length: 100000', 'Transfer-Encoding: chunked']) {
      const text = `--${LINE}\r\n${disposition('name="file"; filename="a"')}\r\n\r\n${'x'.repeat(5_000)}`
      const body = length.startsWith('T') ? `${text.length.toString(16)}\r\n${text}\r\n` : text
      const socket = begin([length], body)
      await until(staged, (files) => files.length === 1)
      socket.destroy()
      await until(staged, (files) => files.length === 0)
    }
  })

  test('a client that stops sending is refused', async () => {
    const socket = begin(
      ['Content-Length: 1000', 'X-Impatient: yes'],
      `--${LINE}\r\n${disposition('name="file"; filename="a"')}\r\n\r\nx`,
    )
    const answer = (await new Promise<Buffer>((resolve) => socket.once('data', resolve))).toString()
    expect(answer).toContain('body: no bytes arrived for 0.3 seconds')
    expect(await staged()).toEqual([])
    socket.destroy()
  })

  test('a declared length over the limit is refused before the body', async () => {
    const socket = begin(['Content-Length: 99999999', 'Connection: close'], '')
    const [answer] = (await new Promise<Buffer>((resolve) => socket.once('data', resolve)))
      .toString()
      .split('\r\n')
    expect(answer).toContain('413')
    socket.destroy()
  })
})
