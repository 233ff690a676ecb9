import { AppError, invalid, tooLarge } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { Route } from '../wire/route-table.ts'

/** The limit of a JSON body. */
export const JSON_BODY_BYTES = 1_048_576
/** A JSON body that takes longer to arrive is refused. */
const JSON_BODY_MS = 60_000

type ReadableRoute = Pick<Route, 'body' | 'bodyBytesMax'>

/** JSON may be this many times as large as its file: escapes, at worst one per byte. */
const ESCAPED = 2

/** Levels and values of a JSON body. The framework prints a refused value with indentation, which takes quadratic time. */
const JSON_DEPTH = 100
const JSON_VALUES = 100_000

/** JSON routes with another limit than 1 MiB. */
const BODY_BYTES_MAX: Record<string, number> = {
  'PUT /api/v1/files/*': limits.uploadBytes * ESCAPED,
}

/** Bytes that a route reads before it answers 413. */
export function bodyBytesMax(route: Pick<Route, 'method' | 'pattern' | 'body'>): number {
  return BODY_BYTES_MAX[`${route.method} ${route.pattern}`] ?? JSON_BODY_BYTES
}

/**
 * The body for the route's schema. A missing body is an empty object, whatever its content type. So an optional body may be
 * missing, and a required body fails with the name of its first missing field.
 */
export async function readBody(request: Request, route: ReadableRoute): Promise<object> {
  const isJson = /^application\/(?:[\w.-]+\+)?json$/i.test(mediaType(request))
  if (route.body === 'none' || (route.body === 'unused' && !isJson)) return {}
  const bytes = await readBounded(request, route)
  if (bytes.length === 0) return {}
  if (!isJson) throw invalid('Content-Type', 'must be application/json')
  checkCoding(request)
  return parseJson(utf8Of(bytes))
}

/** Refuses encoded bodies. Without this check, a compressed body would be reported as invalid JSON or as an invalid form. */
export function checkCoding({ headers }: Request): void {
  if (!/^(?:identity)?$/i.test(headers.get('content-encoding') ?? ''))
    throw invalid('Content-Encoding', 'must be identity: send the body without compression')
}

/**
 * Up to this size, a body with a declared length is read in one piece. A stream would cost more than the rest of the request.
 */
const WHOLE_BYTES_MAX = 65_536

async function readBounded(request: Request, route: ReadableRoute): Promise<Uint8Array> {
  const { headers } = request
  const declared = Number(headers.get('content-length') ?? 0)
  if (declared > route.bodyBytesMax) {
    await skipBody(request)
    throw refusalOf(route)
  }
  const isSmall = declared > 0 && declared <= WHOLE_BYTES_MAX && !headers.has('transfer-encoding')
  const bytes = isSmall ? await readWhole(request) : await readCounted(request, route, declared)
  if (bytes.byteLength > route.bodyBytesMax) throw refusalOf(route)
  return bytes
}

async function readWhole(request: Request): Promise<Uint8Array> {
  const { late, stop } = makeDeadline()
  try {
    return new Uint8Array(await Promise.race([request.arrayBuffer(), late]))
  } catch (cause) {
    throw notReceived(cause)
  } finally {
    stop()
  }
}

/** Counts while it reads, because a body may come without a length. */
async function readCounted(request: Request, route: ReadableRoute, declared: number): Promise<Uint8Array> {
  let all = new Uint8Array(0)
  let size = 0
  for await (const chunk of arriving(request)) {
    size += chunk.byteLength
    if (size > route.bodyBytesMax) throw refusalOf(route)
    if (size > all.byteLength) all = grown(all, Math.max(size, declared > 0 ? declared : 2 * all.byteLength))
    all.set(chunk, size - chunk.byteLength)
    releaseBuffer(chunk)
  }
  return all.subarray(0, size)
}

/** A body with a declared length gets its buffer at once. The unwritten part of the buffer takes no memory. */
function grown(bytes: Uint8Array, size: number) {
  const more = new Uint8Array(size)
  more.set(bytes)
  releaseBuffer(bytes)
  return more
}

/**
 * Frees the memory of bytes that are no longer used. Garbage collectors underestimate such buffers: hundreds of unused
 * megabytes would stay allocated while eight files arrive.
 */
export function releaseBuffer({ buffer, byteLength }: Uint8Array) {
  // In some runtimes, several chunks share one buffer, which must then stay.
  if (byteLength !== buffer.byteLength) return
  if (buffer instanceof ArrayBuffer && 'transfer' in buffer && !buffer.resizable) buffer.transfer(0)
}

async function* arriving({ body }: Request): AsyncGenerator<Uint8Array> {
  if (body === null) return
  const reader = body.getReader()
  const { late, stop } = makeDeadline()
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
    // Has no effect on a body that was read to its end.
    reader.cancel().catch(() => {})
  }
}

/** The time limit for a body. A client that sends a byte now and then could otherwise hold its buffer indefinitely. */
function makeDeadline() {
  const { promise: late, reject } = Promise.withResolvers<never>()
  late.catch(() => {})
  const timer = setTimeout(
    () => reject(malformed(`took longer than ${JSON_BODY_MS / 1_000} s to arrive`)),
    JSON_BODY_MS,
  )
  return { late, stop: () => clearTimeout(timer) }
}

/** Limits of draining an unwanted body: bytes and time. */
const DRAINED_BYTES_MAX = 256 * 1_048_576
const DRAINED_MS = 30_000
/** A client that sends nothing for this time is waiting for the response. */
const DRAINED_PAUSE_MS = 500

/**
 * Drains a body that is too large if the client wants the connection closed after the response. A close while the client still
 * sends would hide the response from the client. On a connection that stays open, the response is sent at once.
 */
export async function skipBody({ headers, body }: Request): Promise<void> {
  if (body === null || !/\bclose\b/i.test(headers.get('connection') ?? '')) return
  const reader = body.getReader()
  const cancel = () => void reader.cancel().catch(() => {})
  const timer = setTimeout(cancel, DRAINED_MS)
  let pause = setTimeout(cancel, DRAINED_PAUSE_MS)
  try {
    for (let bytes = 0; bytes <= DRAINED_BYTES_MAX; ) {
      const { done, value } = await reader.read()
      if (done) return
      clearTimeout(pause)
      pause = setTimeout(cancel, DRAINED_PAUSE_MS)
      bytes += value.byteLength
      releaseBuffer(value)
    }
  } catch {
    // The client is gone.
  } finally {
    clearTimeout(timer)
    clearTimeout(pause)
    cancel()
  }
}

/** The client is gone and reads no response, unless its body was late. */
const notReceived = (cause: unknown) =>
  cause instanceof AppError ? cause : malformed('was not received completely', cause)

const refusalOf = ({ bodyBytesMax: max }: ReadableRoute) =>
  max > JSON_BODY_BYTES ? tooLarge() : tooLarge('body too large (max 1MiB)')

function parseJson(text: string): object {
  const value = jsonOf(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalid('body', 'must be a JSON object')
  refuseBoundless(value)
  // Only an escape can produce such text: a raw NUL or a lone surrogate is invalid JSON or invalid UTF-8.
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

/** A small text can be a value that takes seconds to inspect: nested by the thousand, or with a million parts. */
function refuseBoundless(body: object) {
  let values = 0
  let level: object[] = [body]
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > JSON_DEPTH) throw invalid('body', `is nested deeper than ${JSON_DEPTH} levels`)
    const inner: object[] = []
    for (const holder of level) {
      // `for in` builds no list: the keys of a million parts would be a million strings.
      for (const key in holder) {
        if (++values > JSON_VALUES) throw invalid('body', `has more than ${JSON_VALUES} values`)
        const value: unknown = holder[key as keyof typeof holder]
        if (typeof value === 'object' && value !== null) inner.push(value)
      }
    }
    level = inner
  }
}

/** Postgres stores neither NUL nor lone surrogates. Such a text would fail in a statement, as a 500. */
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

/** An error of the body as a whole. */
export const malformed = (why: string, cause?: unknown) =>
  new AppError(400, 'INVALID_ARGUMENT', `body: ${why}`, { cause })

/** The media type without parameters, in lower case; empty without a header. */
export const mediaType = (request: Request) =>
  (request.headers.get('content-type') ?? '').replace(/;.*/s, '').trim().toLowerCase()
