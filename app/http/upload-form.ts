// A form with one file, read as it arrives: the file is handed on chunk by chunk, and the next chunk is read when the last one
// has been taken (docs/adr/0018-streamed-uploads.md).
import { Buffer } from 'node:buffer'
import { createHash, type Hash } from 'node:crypto'
import { Busboy, type BusboyFileStream, type BusboyInstance } from '@fastify/busboy'
import { invalid, tooLarge } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { checkCoding, giveBack, malformed, mediaType, passOver, refuseText } from './body.ts'

/** What multipart framing may add to an upload. */
const MULTIPART_OVERHEAD_BYTES = 65_536
/** Parts of an upload's form, header lines and bytes of one, and bytes of a text field (a path has at most 1,024). */
export const UPLOAD_PARTS = 16
export const UPLOAD_PART_HEADERS = 32
export const UPLOAD_PART_HEADER_BYTES = 16_384
export const UPLOAD_FIELD_BYTES = 8_192
/** An upload of which nothing arrives for this long is given up, and one that takes this long in all. */
const UPLOAD_IDLE_MS = 30_000

/** A file while it arrives. */
export interface IncomingFile {
  /** As the client sent it: a path, anything, or nothing. */
  filename: string
  /** A media type, in lower case. */
  contentType: string
  /**
   * To be read once, and each chunk to be done with before the next is asked for: its memory is given back then. Fails with
   * the error that the client gets.
   */
  body: AsyncIterable<Uint8Array>
}

/** Text fields by their names. */
export type FormFields = Readonly<Record<string, string>>

/** What a file becomes while it arrives, and can be undone while the rest of the form does. */
export interface Undoable {
  /** Never rejects. */
  discard(): Promise<void>
}

export interface ReceivedForm<Stored> {
  fields: FormFields
  filename: string
  contentType: string
  /** SHA-256 of the file, hex; empty unless it was asked for. */
  sha256: string
  stored: Stored
}

export interface UploadForm {
  /**
   * Reads the form to its end and answers what `store` made of its file. `store` is called when the file begins, with the
   * fields that came before it. Whatever goes wrong, there or here, ends both, and what is stored by then is discarded.
   * 400: no form, a broken one, or one without a file; 413: too large.
   */
  receive<Stored extends Undoable>(
    store: (file: IncomingFile, before: FormFields) => Promise<Stored>,
  ): Promise<ReceivedForm<Stored>>
}

/** The name of the file's field in every form. */
const FILE_FIELD = 'file'

export interface FormOptions {
  /** Text fields that are read; what else a form has is passed over. */
  fields?: readonly string[]
  /** Whether the file's content will be compared. */
  isHashed: boolean
  /** Milliseconds without a byte after which the client is given up. */
  idleMs?: number
}

/** The form that a request brings; nothing is read yet. */
export const uploadFormOf = (request: Request, options: FormOptions): UploadForm => ({
  receive: (store) => receive(request, options, store),
})

/** For the descriptions of routes that take an upload. */
export const REPEATED_UPLOAD =
  'With an `Idempotency-Key`, an upload that is sent again within 24 hours gets the answer it has got already and stores nothing; the key with another file is 409.'

async function receive<Stored extends Undoable>(
  request: Request,
  { fields: read = [], isHashed, idleMs = UPLOAD_IDLE_MS }: FormOptions,
  store: (file: IncomingFile, before: FormFields) => Promise<Stored>,
): Promise<ReceivedForm<Stored>> {
  const most = limits.uploadBytes + MULTIPART_OVERHEAD_BYTES
  const parser = parserOf(request)
  if (Number(request.headers.get('content-length') ?? 0) > most) {
    await passOver(request)
    throw tooLarge()
  }

  const end = makeEnd()
  const fields: Record<string, string> = {}
  const hash = isHashed ? createHash('sha256') : null
  const content = makeContent(end, hash)
  let file: { stream: BusboyFileStream; filename: string; contentType: string } | undefined
  let storing: Promise<Stored> | undefined

  const refuseTwice = (name: string) => {
    const isKnown = name === FILE_FIELD ? file !== undefined : Object.hasOwn(fields, name)
    if (isKnown) end.fail(invalid(name, 'must be given once'))
    return isKnown
  }
  parser.on('field', (name: string | undefined, value, _, isCut) => {
    if (name === undefined || (name !== FILE_FIELD && !read.includes(name)) || refuseTwice(name)) return
    if (name === FILE_FIELD) return end.fail(invalid(name, 'must be a file'))
    if (isCut) return end.fail(invalid(name, `is longer than ${UPLOAD_FIELD_BYTES} bytes`))
    if (isMangled(value)) return end.fail(invalid(name, NOT_UTF_8))
    fields[name] = value
  })
  parser.on('file', (name: string | undefined, stream, filename: string | undefined, _, type) => {
    stream.on('error', () => {})
    if (name !== FILE_FIELD) return void stream.resume()
    if (refuseTwice(name)) return void stream.resume()
    if (isMangled(filename ?? '')) {
      end.fail(invalid(name, `its name ${NOT_UTF_8}`))
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
      if (arrived > most) throw tooLarge()
      await end.orFailure(written(parser, chunk))
      if (file !== undefined) await end.orFailure(content.taken(file.stream))
      giveBack(chunk)
    }
    await end.orFailure(finished(parser))
    for (const [name, value] of Object.entries(fields)) refuseText(name, value)
    if (file === undefined || storing === undefined) throw invalid(FILE_FIELD, 'is required')
    const stored = await end.orFailure(storing)
    const { filename, contentType } = file
    return { fields, filename, contentType, sha256: hash?.digest('hex') ?? '', stored }
  } catch (error) {
    // Ends whoever still waits for chunks; what has been stored by then is nobody's.
    end.fail(error)
    file?.stream.destroy()
    await storing?.then((stored) => stored.discard()).catch(() => {})
    throw end.error()
  } finally {
    end.stop()
  }
}

/** Limits that would cut silently are left open here and kept by us. */
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
/** The parser puts this sign where bytes are no text, and what was meant is lost; one that was sent cannot be told from it. */
const isMangled = (text: string) => text.includes('\ufffd')

const NO_TYPE = 'application/octet-stream'
const MEDIA_TYPE = /^[\w.+-]{1,127}\/[\w.+-]{1,127}$/
const mediaTypeOrNone = (type: string) => (MEDIA_TYPE.test(type) ? type : NO_TYPE)

/** Where the first thing that goes wrong is kept, for everybody who is waiting. */
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
    () => fail(malformed(`took longer than ${limits.uploadMs / 60_000} minutes`)),
    limits.uploadMs,
  )
  return {
    fail,
    error: () => failed?.error,
    orFailure: <T>(work: Promise<T>): Promise<T> => Promise.race([work, failure]),
    /** A failure of this is one of all. */
    guard<T>(work: Promise<T>): Promise<T> {
      work.catch(fail)
      return work
    },
    stop: () => clearTimeout(tooLong),
  }
}
type End = ReturnType<typeof makeEnd>

/** The bytes of the request; a client that sends nothing for a while is given up. */
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
    // Not awaited: the runtime reads on, or closes, by itself.
    reader.cancel().catch(() => {})
  }
}

async function within<T>(idleMs: number, read: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(stalled(idleMs)), idleMs)
  })
  try {
    return await Promise.race([read.catch(brokenOff), silence])
  } finally {
    clearTimeout(timer)
  }
}

const stalled = (ms: number) => malformed(`nothing of it arrived for ${ms / 1000} seconds`)
// Nobody will read this answer: the client is gone.
const brokenOff = (cause: unknown): never => {
  throw malformed('was not received to its end', cause)
}

/** The file's bytes on their way from the parser to whoever stores them. */
function makeContent(end: End, hash: Hash | null) {
  let taken = 0
  let wake = () => {}

  async function* of(stream: BusboyFileStream): AsyncGenerator<Uint8Array> {
    try {
      for await (const chunk of stream) {
        hash?.update(chunk)
        const { byteLength } = chunk
        yield chunk
        taken += byteLength
        wake()
      }
    } catch (error) {
      throw end.error() ?? error
    }
    // A stream that was destroyed ends as one that is over.
    if (end.error() !== undefined) throw end.error()
  }

  return {
    of,
    /** Resolves when all that was parsed has been taken. */
    async taken(stream: BusboyFileStream) {
      while (taken < stream.bytesRead)
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
