// Reads a form with one file as it arrives. The file is forwarded chunk by chunk; the next chunk is read when the last chunk
// was consumed (docs/adr/0018-streamed-uploads.md).
import { Buffer } from 'node:buffer'
import { createHash, type Hash } from 'node:crypto'
import { Busboy, type BusboyFileStream, type BusboyInstance } from '@fastify/busboy'
import { invalid, tooLarge } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { unknownName } from '../wire/unknown-fields.ts'
import { checkCoding, malformed, mediaType, refuseText, releaseBuffer, skipBody } from './body.ts'

/** Bytes that multipart framing may add to an upload. */
const MULTIPART_OVERHEAD_BYTES = 65_536
/** Limits of a form: parts, header lines and header bytes of a part, bytes of a text field. A path has at most 1,024 bytes. */
export const UPLOAD_PARTS = 16
export const UPLOAD_PART_HEADERS = 32
export const UPLOAD_PART_HEADER_BYTES = 16_384
export const UPLOAD_FIELD_BYTES = 8_192
/** An upload is aborted when nothing arrives for this time. */
const UPLOAD_IDLE_MS = 30_000

/** A file that is still arriving. */
export interface IncomingFile {
  /** As the client sent it; may be a path or empty. */
  filename: string
  /** A media type, in lower case. */
  contentType: string
  /**
   * May be read once. A chunk must be consumed before the next chunk is requested, because its memory is freed then. Fails with
   * the error that the client receives.
   */
  body: AsyncIterable<Uint8Array>
}

/** Text fields by their names. */
export type FormFields = Readonly<Record<string, string>>

/** A stored file, which can be discarded while the rest of the form arrives. */
interface Undoable {
  /** Never rejects. */
  discard(): Promise<void>
}

interface ReceivedForm<Stored> {
  fields: FormFields
  filename: string
  contentType: string
  /** SHA-256 of the file, hex; empty unless `isHashed` is set. */
  sha256: string
  stored: Stored
}

export interface UploadForm {
  /**
   * Reads the form to its end and returns the result of `store`. `store` is called when the file begins, with the fields before
   * the file. A failure on either side ends both, and the stored file is discarded. Throws 400 for no form, a broken form, or a
   * form without a file, and 413 for a file that is too large.
   */
  receive<Stored extends Undoable>(
    store: (file: IncomingFile, before: FormFields) => Promise<Stored>,
  ): Promise<ReceivedForm<Stored>>
}

/** The name of the file's field in every form. */
const FILE_FIELD = 'file'

interface FormOptions {
  /** Text fields to read. */
  fields?: readonly string[]
  /** Whether the SHA-256 of the file is computed. */
  isHashed: boolean
  /** Milliseconds without a byte after which the upload is aborted. */
  idleMs?: number
}

/** The form of a request; no byte is read yet. */
export const uploadFormOf = (request: Request, options: FormOptions): UploadForm => ({
  receive: (store) => receive(request, options, store),
})

/** For the descriptions of routes that accept an upload. */
export const REPEATED_UPLOAD =
  'With an `Idempotency-Key`, an upload that is repeated within 24 hours stores nothing and gets the first response. The same key with another file is 409.'

async function receive<Stored extends Undoable>(
  request: Request,
  { fields: read = [], isHashed, idleMs = UPLOAD_IDLE_MS }: FormOptions,
  store: (file: IncomingFile, before: FormFields) => Promise<Stored>,
): Promise<ReceivedForm<Stored>> {
  const bytesMax = limits.uploadBytes + MULTIPART_OVERHEAD_BYTES
  const parser = parserOf(request)
  if (Number(request.headers.get('content-length') ?? 0) > bytesMax) {
    await skipBody(request)
    throw tooLarge()
  }

  const end = makeEnd()
  const fields: Record<string, string> = {}
  const hash = isHashed ? createHash('sha256') : null
  const content = makeContent(end, hash)
  let file: { stream: BusboyFileStream; filename: string; contentType: string } | undefined
  let storing: Promise<Stored> | undefined

  const known = [...read, FILE_FIELD]
  const refuseUnknown = (name: string) => {
    const isUnknown = !known.includes(name)
    if (isUnknown) end.fail(unknownName('form field', name, known))
    return isUnknown
  }
  const refuseTwice = (name: string) => {
    const isKnown = name === FILE_FIELD ? file !== undefined : Object.hasOwn(fields, name)
    if (isKnown) end.fail(invalid(name, 'must not occur more than once'))
    return isKnown
  }
  parser.on('field', (name: string | undefined, value, _, isCut) => {
    if (name === undefined || refuseUnknown(name) || refuseTwice(name)) return
    if (name === FILE_FIELD) return end.fail(invalid(name, 'must be a file'))
    if (isCut) return end.fail(invalid(name, `is longer than ${UPLOAD_FIELD_BYTES} bytes`))
    if (isMangled(value)) return end.fail(invalid(name, NOT_UTF_8))
    fields[name] = value
  })
  parser.on('file', (name: string | undefined, stream, filename: string | undefined, _, type) => {
    stream.on('error', () => {})
    if (name === undefined || refuseUnknown(name) || refuseTwice(name)) return void stream.resume()
    if (name !== FILE_FIELD) {
      end.fail(invalid(name, 'must be a text, not a file'))
      return void stream.resume()
    }
    if (isMangled(filename ?? '')) {
      end.fail(invalid(name, `the file name ${NOT_UTF_8}`))
      return void stream.resume()
    }
    file = { stream, filename: filename ?? '', contentType: mediaTypeOrNone(type) }
    storing = end.guard(store({ ...file, body: content.of(stream) }, { ...fields }))
  })
  parser.on('partsLimit', () => end.fail(invalid('body', `has more than ${UPLOAD_PARTS} parts`)))
  parser.on('error', (cause) => end.fail(malformed('is not valid multipart/form-data', cause)))

  try {
    let arrived = 0
    for await (const chunk of arriving(request, end, idleMs)) {
      arrived += chunk.byteLength
      if (arrived > bytesMax) throw tooLarge()
      await end.orFailure(written(parser, chunk))
      if (file !== undefined) await end.orFailure(content.allConsumed(file.stream))
      releaseBuffer(chunk)
    }
    await end.orFailure(finished(parser))
    for (const [name, value] of Object.entries(fields)) refuseText(name, value)
    if (file === undefined || storing === undefined) throw invalid(FILE_FIELD, 'is required')
    const stored = await end.orFailure(storing)
    const { filename, contentType } = file
    return { fields, filename, contentType, sha256: hash?.digest('hex') ?? '', stored }
  } catch (error) {
    // Ends every reader that waits for chunks, then discards the stored file.
    end.fail(error)
    file?.stream.destroy()
    await storing?.then((stored) => stored.discard()).catch(() => {})
    throw end.error()
  } finally {
    end.stop()
  }
}

/** The parser gets no limit at which it would truncate silently; this file checks such limits itself. */
function parserOf(request: Request): BusboyInstance {
  if (mediaType(request) !== 'multipart/form-data')
    throw invalid('Content-Type', 'must be multipart/form-data')
  checkCoding(request)
  try {
    return new Busboy({
      headers: { 'content-type': request.headers.get('content-type') ?? '' },
      preservePath: true,
      isPartAFile: (_, type, filename) => filename !== undefined || type === NO_TYPE,
      limits: {
        fieldSize: UPLOAD_FIELD_BYTES,
        headerPairs: UPLOAD_PART_HEADERS,
        headerSize: UPLOAD_PART_HEADER_BYTES,
        parts: UPLOAD_PARTS,
      },
    })
  } catch (cause) {
    throw malformed('is not valid multipart/form-data', cause)
  }
}

const NOT_UTF_8 = 'must be valid UTF-8 without U+FFFD'
/** The parser inserts U+FFFD for invalid bytes, and the original is lost. A U+FFFD from the client looks the same. */
const isMangled = (text: string) => text.includes('\ufffd')

const NO_TYPE = 'application/octet-stream'
const MEDIA_TYPE = /^[\w.+-]{1,127}\/[\w.+-]{1,127}$/
const mediaTypeOrNone = (type: string) => (MEDIA_TYPE.test(type) ? type : NO_TYPE)

/** Stores the first failure, for all waiting readers. */
function makeEnd() {
  let failed: { error: unknown } | undefined
  let refuse: (error: unknown) => void = () => {}
  const failure = new Promise<never>((_, reject) => {
    refuse = reject
  })
  failure.catch(() => {})
  const fail = (error: unknown) => {
    failed ??= { error }
    refuse(error)
  }
  const tooLong = setTimeout(
    () => fail(malformed(`took longer than ${limits.uploadMs / 60_000} minutes to arrive`)),
    limits.uploadMs,
  )
  return {
    fail,
    error: () => failed?.error,
    orFailure: <T>(promise: Promise<T>): Promise<T> => Promise.race([promise, failure]),
    /** If `promise` rejects, the whole form fails with its error. */
    guard<T>(promise: Promise<T>): Promise<T> {
      promise.catch(fail)
      return promise
    },
    stop: () => clearTimeout(tooLong),
  }
}
type End = ReturnType<typeof makeEnd>

/** The bytes of the request. A client that sends nothing for `idleMs` is refused. */
async function* arriving({ body }: Request, end: End, idleMs: number): AsyncGenerator<Uint8Array> {
  if (body === null) return
  const reader = body.getReader()
  try {
    for (;;) {
      const { done, value } = await end.orFailure(within(idleMs, reader.read()))
      if (done) return
      yield value
    }
  } finally {
    // Not awaited: the runtime drains or closes the body by itself.
    reader.cancel().catch(() => {})
  }
}

async function within<T>(idleMs: number, read: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(stalled(idleMs)), idleMs)
  })
  try {
    return await Promise.race([read.catch(interrupted), silence])
  } finally {
    clearTimeout(timer)
  }
}

const stalled = (ms: number) => malformed(`no bytes arrived for ${ms / 1000} seconds`)
// The client is gone and reads no response.
const interrupted = (cause: unknown): never => {
  throw malformed('was not received completely', cause)
}

/** Carries the bytes of the file from the parser to their consumer. */
function makeContent(end: End, hash: Hash | null) {
  let consumed = 0
  let wake = () => {}

  async function* of(stream: BusboyFileStream): AsyncGenerator<Uint8Array> {
    try {
      for await (const chunk of stream) {
        hash?.update(chunk)
        const { byteLength } = chunk
        yield chunk
        consumed += byteLength
        wake()
      }
    } catch (error) {
      throw end.error() ?? error
    }
    // A destroyed stream ends like a complete one.
    if (end.error() !== undefined) throw end.error()
  }

  return {
    of,
    /** Resolves when all parsed bytes are consumed. */
    async allConsumed(stream: BusboyFileStream) {
      while (consumed < stream.bytesRead)
        await new Promise<void>((resolve) => {
          wake = resolve
        })
    },
  }
}

const written = (parser: BusboyInstance, chunk: Uint8Array) =>
  new Promise<void>((resolve, reject) => {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    parser.write(bytes, (error) => (error ? reject(error) : resolve()))
  })

const finished = (parser: BusboyInstance) =>
  new Promise<void>((resolve) => {
    parser.once('finish', resolve)
    parser.end()
  })
