import { AppError, invalid, tooLarge } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { Route } from '../core/route-table.ts'

/** An upload of which nothing arrives for this long is given up, and one that takes this long in all. */
export const JSON_BODY_BYTES = 1_048_576
/** A JSON body that takes this long to arrive is given up. */
const JSON_BODY_MS = 60_000

type ReadableRoute = Pick<Route, 'body' | 'bodyBytesMax'>

/** What a JSON text of a file may add to the file: escapes, at worst one per byte. */
const ESCAPED = 2

/** Levels and values of a JSON body. The framework writes out what a schema refuses, with indentation: that is quadratic. */
const JSON_DEPTH = 100
const JSON_VALUES = 100_000

/** Bodies that are not the 1 MiB of every other JSON route. */
const BODY_BYTES_MAX: Record<string, number> = {
  'PUT /api/v1/files/*': limits.uploadBytes * ESCAPED,
}

/** Bytes a route reads before it answers 413. */
export function bodyBytesMax(route: Pick<Route, 'method' | 'pattern' | 'body'>): number {
  return BODY_BYTES_MAX[`${route.method} ${route.pattern}`] ?? JSON_BODY_BYTES
}

/**
 * The body as the route's schema will see it. No body is an empty one, whatever its content type, so that optional bodies
 * are optional and a required one fails naming its first missing field.
 */
export async function readBody(request: Request, route: ReadableRoute): Promise<object> {
  if (route.body === 'none') return {}
  const bytes = await readBounded(request, route)
  if (bytes.length === 0) return {}
  if (!/^application\/(?:[\w.-]+\+)?json$/i.test(mediaType(request)))
    throw invalid('Content-Type', 'must be application/json')
  checkCoding(request)
  return parseJson(utf8Of(bytes))
}

/** Bodies are read as they come: what is compressed would be told to be no JSON, or no form. */
export function checkCoding({ headers }: Request): void {
  if (!/^(?:identity)?$/i.test(headers.get('content-encoding') ?? ''))
    throw invalid('Content-Encoding', 'must be identity: send the body as it is')
}

/** Up to here a body that says its length is taken in one piece: a stream costs more than all else that is done for it. */
const WHOLE_BYTES_MAX = 65_536

async function readBounded(request: Request, route: ReadableRoute): Promise<Uint8Array> {
  const { headers } = request
  const declared = Number(headers.get('content-length') ?? 0)
  if (declared > route.bodyBytesMax) {
    await passOver(request)
    throw refusalOf(route)
  }
  const isSmall = declared > 0 && declared <= WHOLE_BYTES_MAX && !headers.has('transfer-encoding')
  const bytes = isSmall ? await whole(request) : await counted(request, route, declared)
  if (bytes.byteLength > route.bodyBytesMax) throw refusalOf(route)
  return bytes
}

async function whole(request: Request): Promise<Uint8Array> {
  const { late, stop } = lateness()
  try {
    return new Uint8Array(await Promise.race([request.arrayBuffer(), late]))
  } catch (cause) {
    throw notReceived(cause)
  } finally {
    stop()
  }
}

/** Counts as it reads: a body may come without a length. */
async function counted(request: Request, route: ReadableRoute, declared: number): Promise<Uint8Array> {
  let all = new Uint8Array(0)
  let size = 0
  for await (const chunk of arriving(request)) {
    size += chunk.byteLength
    if (size > route.bodyBytesMax) throw refusalOf(route)
    if (size > all.byteLength) all = grown(all, Math.max(size, declared > 0 ? declared : 2 * all.byteLength))
    all.set(chunk, size - chunk.byteLength)
    giveBack(chunk)
  }
  return all.subarray(0, size)
}

/** A body that says its length is given its place at once. What of it is not written to yet takes no memory. */
function grown(bytes: Uint8Array, size: number) {
  const more = new Uint8Array(size)
  more.set(bytes)
  giveBack(bytes)
  return more
}

/**
 * Frees the memory of bytes that nobody will look at again. Collectors weigh it too lightly: hundreds of megabytes that
 * were done with would wait for them while eight files arrive.
 */
export function giveBack({ buffer, byteLength }: Uint8Array) {
  // Some runtimes cut many chunks out of one buffer.
  if (byteLength !== buffer.byteLength) return
  if (buffer instanceof ArrayBuffer && 'transfer' in buffer && !buffer.resizable) buffer.transfer(0)
}

async function* arriving({ body }: Request): AsyncGenerator<Uint8Array> {
  if (body === null) return
  const reader = body.getReader()
  const { late, stop } = lateness()
  try {
    for (;;) {
      const { done, value } = await Promise.race([reader.read(), late])
      if (done) return
      yield value
    }
  } catch (cause) {
    throw notReceived(cause)
  } finally {
    stop()
    // Of a body that was read to its end this is nothing.
    reader.cancel().catch(() => {})
  }
}

/** A client that sends a byte now and then would otherwise keep its place, and what it has sent, for as long as it likes. */
function lateness() {
  const { promise: late, reject } = Promise.withResolvers<never>()
  late.catch(() => {})
  const timer = setTimeout(
    () => reject(malformed(`took longer than ${JSON_BODY_MS / 1_000} s`)),
    JSON_BODY_MS,
  )
  return { late, stop: () => clearTimeout(timer) }
}

/** What is read of a body that is not wanted, and for how long. */
const PASSED_OVER_BYTES_MAX = 256 * 1_048_576
const PASSED_OVER_MS = 30_000
/** Who sends nothing for so long waits for the answer. */
const PASSED_OVER_PAUSE_MS = 500

/**
 * Reads a body that is too large where the client wants the connection closed after its answer: it would be closed while the
 * client still sends, which then learns of that and not of the answer. On a connection that stays open the answer comes at once.
 */
export async function passOver({ headers, body }: Request): Promise<void> {
  if (body === null || !/\bclose\b/i.test(headers.get('connection') ?? '')) return
  const reader = body.getReader()
  const leave = () => void reader.cancel().catch(() => {})
  const timer = setTimeout(leave, PASSED_OVER_MS)
  let pause = setTimeout(leave, PASSED_OVER_PAUSE_MS)
  try {
    for (let bytes = 0; bytes <= PASSED_OVER_BYTES_MAX; ) {
      const { done, value } = await reader.read()
      if (done) return
      clearTimeout(pause)
      pause = setTimeout(leave, PASSED_OVER_PAUSE_MS)
      bytes += value.byteLength
      giveBack(value)
    }
  } catch {
    // The client is gone.
  } finally {
    clearTimeout(timer)
    clearTimeout(pause)
    leave()
  }
}

/** Nobody will read this answer, unless it was late: the client is gone. */
const notReceived = (cause: unknown) =>
  cause instanceof AppError ? cause : malformed('was not received to its end', cause)

const refusalOf = ({ bodyBytesMax: max }: ReadableRoute) =>
  max > JSON_BODY_BYTES ? tooLarge() : tooLarge('body too large (max 1MiB)')

function parseJson(text: string): object {
  const value = jsonOf(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalid('body', 'must be a JSON object')
  refuseBoundless(value)
  // Only an escape can smuggle one in: raw, neither NUL nor half a surrogate pair is valid JSON or valid UTF-8.
  if (text.includes('\\u')) refuseUnstorable(value)
  return value
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function utf8Of(bytes: Uint8Array) {
  try {
    return utf8.decode(bytes)
  } catch (cause) {
    throw malformed('is not valid UTF-8', cause)
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw malformed('is not valid JSON', cause)
  }
}

/** A small text can be a value that takes seconds to look at: nested by the thousand, or of a million parts. */
function refuseBoundless(body: object) {
  let values = 0
  let level: object[] = [body]
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > JSON_DEPTH) throw invalid('body', `is nested deeper than ${JSON_DEPTH} levels`)
    const inner: object[] = []
    for (const holder of level) {
      // In place: the keys of a million parts would be a million texts.
      for (const key in holder) {
        if (++values > JSON_VALUES) throw invalid('body', `has more than ${JSON_VALUES} values`)
        const value: unknown = holder[key as keyof typeof holder]
        if (typeof value === 'object' && value !== null) inner.push(value)
      }
    }
    level = inner
  }
}

/** Postgres stores neither NUL nor half a surrogate pair: such a text would fail deep inside, as a 500. */
function refuseUnstorable(body: object) {
  const pending: { field: string; value: unknown }[] = [{ field: '', value: body }]
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { field, value } = next
    if (typeof value === 'string') refuseText(field || 'body', value)
    if (typeof value !== 'object' || value === null) continue
    for (const [key, inner] of Object.entries(value)) {
      refuseText(field || 'body', key)
      pending.push({ field: field ? `${field}.${key}` : key, value: inner })
    }
  }
}

/** 400 for a text that Postgres cannot store. */
export function refuseText(field: string, text: string) {
  if (text.includes('\0')) throw invalid(field, 'must not contain a NUL character')
  if (!text.isWellFormed()) throw invalid(field, 'must be valid Unicode')
}

/** The body as a whole is at fault. */
export const malformed = (why: string, cause?: unknown) =>
  new AppError(400, 'INVALID_ARGUMENT', `body: ${why}`, { cause })

/** Without parameters, in lower case; empty when there is none. */
export const mediaType = (request: Request) =>
  (request.headers.get('content-type') ?? '').replace(/;.*/s, '').trim().toLowerCase()
