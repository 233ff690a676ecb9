// The bytes of a signed body. They are passed on as they arrive. An error at the end therefore means that nothing may be stored.
// Source: Amazon S3 API Reference, "Signature Calculations for the Authorization Header: Transferring Payload in Multiple Chunks".
import { createHash } from 'node:crypto'
import * as zlib from 'node:zlib'
import type { S3Caller } from './authenticate.ts'
import { S3Error } from './errors.ts'
import { hmac, isSameSignature, sha256, UNSIGNED_PAYLOAD } from './signature.ts'

/** Longest line between chunks: a length, or a trailing header with its value. */
const LINE_BYTES_MAX = 4_096
/** Trailing headers of one body. Clients send a checksum and a signature. */
const TRAILERS_MAX = 16
const CHUNK_LENGTH = /^([0-9a-f]{1,8})(?:;chunk-signature=([0-9a-f]{64}))?$/i

/** The ways in which a body is divided into signed or unsigned chunks. */
const STREAMING: Record<string, { isSigned: boolean; hasTrailer: boolean }> = {
  'STREAMING-AWS4-HMAC-SHA256-PAYLOAD': { isSigned: true, hasTrailer: false },
  'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER': { isSigned: true, hasTrailer: true },
  'STREAMING-UNSIGNED-PAYLOAD-TRAILER': { isSigned: false, hasTrailer: true },
}

interface SignedBody {
  body: AsyncIterable<Uint8Array> | null
  headers: Headers
  caller: Pick<S3Caller, 'signature' | 'signingKey'>
}

/** The bytes of the object. Throws the error of S3 when a hash, a signature or a length does not match. */
export async function* payloadOf(signed: SignedBody): AsyncGenerator<Uint8Array> {
  const { headers, caller } = signed
  const { payload } = caller.signature
  const streaming = STREAMING[payload]
  if (streaming === undefined && payload !== UNSIGNED_PAYLOAD && !/^[0-9a-f]{64}$/.test(payload))
    throw new S3Error(
      'InvalidArgument',
      'x-amz-content-sha256 must be a hash, UNSIGNED-PAYLOAD or STREAMING-...',
    )
  const checks = makeChecks(headers)
  const declared = headers.get(streaming === undefined ? 'content-length' : 'x-amz-decoded-content-length')
  const trailers = new Map<string, string>()
  let size = 0
  for await (const bytes of streaming === undefined
    ? wholeOf(signed)
    : chunksOf(signed, streaming, trailers)) {
    size += bytes.byteLength
    checks.add(bytes)
    yield bytes
  }
  if (declared !== null && Number(declared) !== size)
    throw new S3Error('IncompleteBody', `The body has ${size} bytes, but ${declared} were declared.`)
  checks.end((name) => headers.get(name) ?? trailers.get(name) ?? null)
}

async function* wholeOf({ body, caller }: SignedBody): AsyncGenerator<Uint8Array> {
  const { payload } = caller.signature
  const hash = payload === UNSIGNED_PAYLOAD ? null : createHash('sha256')
  for await (const bytes of body ?? []) {
    hash?.update(bytes)
    yield bytes
  }
  if (hash !== null && !isSameSignature(hash.digest('hex'), payload))
    throw new S3Error(
      'XAmzContentSHA256Mismatch',
      "The provided 'x-amz-content-sha256' header does not match what was computed.",
    )
}

async function* chunksOf(
  { body, caller }: SignedBody,
  { isSigned, hasTrailer }: { isSigned: boolean; hasTrailer: boolean },
  trailers: Map<string, string>,
): AsyncGenerator<Uint8Array> {
  const reader = makeReader(body ?? [])
  const check = isSigned ? makeChunkSignatures(caller) : null
  try {
    for (;;) {
      const [, length, presented = ''] = CHUNK_LENGTH.exec(await reader.line()) ?? []
      if (length === undefined) throw incomplete()
      const size = Number.parseInt(length, 16)
      const hash = check && createHash('sha256')
      for await (const bytes of reader.take(size)) {
        hash?.update(bytes)
        yield bytes
      }
      if (hash) check?.ofChunk(hash.digest('hex'), presented)
      if (size === 0) break
      if ((await reader.line()) !== '') throw incomplete()
    }
    if (hasTrailer) await readTrailers(reader, trailers, check)
    // The client waits for the answer, and the connection carries further requests.
    await reader.rest()
  } finally {
    await reader.close()
  }
}

type ChunkSignatures = ReturnType<typeof makeChunkSignatures>

/** Each signature covers the one before it, so chunks cannot be left out, repeated or reordered. */
function makeChunkSignatures({ signature, signingKey }: SignedBody['caller']) {
  const { date, scope } = signature
  let previous = signature.value
  function check(kind: string, texts: readonly string[], presented: string) {
    const expected = hmac(signingKey, [kind, date, scope, previous, ...texts].join('\n')).toString('hex')
    if (!isSameSignature(expected, presented))
      throw new S3Error('SignatureDoesNotMatch', 'The signature of a chunk does not match its bytes.')
    previous = expected
  }
  return {
    ofChunk: (hash: string, presented: string) =>
      check('AWS4-HMAC-SHA256-PAYLOAD', [sha256(''), hash], presented),
    ofTrailers: (text: string, presented: string) =>
      check('AWS4-HMAC-SHA256-TRAILER', [sha256(text)], presented),
  }
}

async function readTrailers(
  reader: Reader,
  trailers: Map<string, string>,
  check: ChunkSignatures | null,
): Promise<void> {
  let signed = ''
  for (let count = 0; ; count++) {
    const line = await reader.line()
    if (line === '') break
    if (count === TRAILERS_MAX) throw incomplete()
    const at = line.indexOf(':')
    if (at === -1) throw incomplete()
    const [name, value] = [line.slice(0, at).toLowerCase(), line.slice(at + 1).trim()]
    trailers.set(name, value)
    if (name !== 'x-amz-trailer-signature') signed += `${name}:${value}\n`
  }
  check?.ofTrailers(signed, trailers.get('x-amz-trailer-signature') ?? '')
}

const incomplete = () => new S3Error('IncompleteBody', 'The request body terminated unexpectedly')

type Reader = ReturnType<typeof makeReader>

/** Reads lines and counted bytes from chunks of any size, one chunk at a time. */
function makeReader(body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>) {
  const source = (async function* () {
    yield* body
  })()
  let unread: Uint8Array = new Uint8Array(0)

  /** False: the body has ended. */
  async function fill(): Promise<boolean> {
    while (unread.byteLength === 0) {
      const { done, value } = await source.next()
      if (done) return false
      unread = value
    }
    return true
  }

  return {
    /** The text up to a line feed. The end of the body ends the last line, too. */
    async line(): Promise<string> {
      const parts: Uint8Array[] = []
      for (let length = 0; length <= LINE_BYTES_MAX; ) {
        if (!(await fill())) return lineOf(parts)
        const end = unread.indexOf(LINE_FEED)
        const part = end === -1 ? unread : unread.subarray(0, end)
        // The source may reuse its buffer for the next chunk.
        parts.push(part.slice())
        length += part.byteLength
        unread = unread.subarray(end === -1 ? unread.byteLength : end + 1)
        if (end !== -1 && length <= LINE_BYTES_MAX) return lineOf(parts)
      }
      throw incomplete()
    },
    async *take(bytes: number): AsyncGenerator<Uint8Array> {
      for (let left = bytes; left > 0; ) {
        if (!(await fill())) throw incomplete()
        const part = unread.subarray(0, left)
        unread = unread.subarray(part.byteLength)
        left -= part.byteLength
        yield part
      }
    },
    /** Reads the end of the body, which must be empty lines. */
    async rest(): Promise<void> {
      for (let count = 0; await fill(); count++)
        if (count > TRAILERS_MAX || (await this.line()) !== '') throw incomplete()
    },
    close: () => source.return(undefined),
  }
}

const LINE_FEED = 0x0a

const lineOf = (parts: readonly Uint8Array[]) => Buffer.concat(parts).toString('latin1').replace(/\r$/, '')

interface Checksum {
  update(bytes: Uint8Array): unknown
  digest(): Buffer
}

/** Checksums that are verified when a client sends them, by the name of their header. Others are ignored. */
const CHECKSUMS: Record<string, () => Checksum> = {
  'content-md5': () => createHash('md5'),
  'x-amz-checksum-sha1': () => createHash('sha1'),
  'x-amz-checksum-sha256': () => createHash('sha256'),
  // Node.js has this function since version 20.15.
  ...(typeof zlib.crc32 === 'function' && { 'x-amz-checksum-crc32': makeCrc32 }),
}

function makeChecks(headers: Headers) {
  const announced = (headers.get('x-amz-trailer') ?? '').toLowerCase().split(',')
  const hashes = Object.entries(CHECKSUMS)
    .filter(([name]) => headers.has(name) || announced.some((trailer) => trailer.trim() === name))
    .map(([name, make]) => ({ name, hash: make() }))
  return {
    add(bytes: Uint8Array) {
      for (const { hash } of hashes) hash.update(bytes)
    },
    /** Throws BadDigest for a checksum that is missing or different. */
    end(presentedOf: (name: string) => string | null) {
      for (const { name, hash } of hashes)
        if (hash.digest().toString('base64') !== presentedOf(name))
          throw new S3Error('BadDigest', `The ${name} you specified did not match what we received.`)
    },
  }
}

function makeCrc32(): Checksum {
  let value = 0
  return {
    update(bytes: Uint8Array) {
      value = zlib.crc32(bytes, value)
    },
    digest() {
      const bytes = Buffer.alloc(4)
      bytes.writeUInt32BE(value)
      return bytes
    },
  }
}
