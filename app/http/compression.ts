// Compresses JSON responses above a minimum size, for clients that accept a coding.
import { pipeline, Readable, type Transform } from 'node:stream'
import * as zlib from 'node:zlib'
import type { Route } from '../wire/route-table.ts'
import { acceptedCoding, CODINGS, type Coding } from './accept-encoding.ts'

/** Below this size, the headers of a compressed response are as large as the saving. */
const BYTES_MIN = 1_024
/** Compressing this size takes 0.1 ms; starting a stream takes longer. A larger response is compressed off the event loop. */
const AT_ONCE_BYTES_MAX = 65_536
/** Size of the chunks that the stream emits. */
const PIECE_BYTES = 65_536

const { constants } = zlib
/** The fastest levels: 1 MB takes 1.5 to 2 ms, compared with 6 ms at the default levels (docs/performance.md). */
const GZIP = { level: 1, chunkSize: PIECE_BYTES }
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 }, chunkSize: PIECE_BYTES }
const ZSTD = { params: { [constants.ZSTD_c_compressionLevel]: 1 }, chunkSize: PIECE_BYTES }

interface Codec {
  compress(bytes: Uint8Array): Uint8Array
  stream(): Transform
}

const CODECS: Record<Coding, Codec> = {
  zstd: {
    compress: (bytes) => zlib.zstdCompressSync(bytes, ZSTD),
    stream: () => zlib.createZstdCompress(ZSTD),
  },
  br: {
    compress: (bytes) => zlib.brotliCompressSync(bytes, BROTLI),
    stream: () => zlib.createBrotliCompress(BROTLI),
  },
  gzip: { compress: (bytes) => zlib.gzipSync(bytes, GZIP), stream: () => zlib.createGzip(GZIP) },
}

/** Node.js has zstd since version 22.15. */
const AVAILABLE = CODINGS.filter(
  (coding) => coding !== 'zstd' || typeof zlib.createZstdCompress === 'function',
)

/**
 * Parts of the service call these routes, mostly on the same machine. Compression would cost more than the transfer it saves.
 */
const INTERNAL = /^\/(catalog|lake\/objects)\//
/**
 * Responses that show a webhook token beside text that a caller chose. Their compressed length would reveal information about
 * the token (BREACH).
 */
const SECRETS = /\/triggers(\/|$)/
const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\b/i

/**
 * Compresses a response if its size justifies that and the client accepts a coding. A response with a strong entity tag stays
 * as it is: the tag names these very bytes, and clients send it back in `If-Match`.
 */
export async function compressed(
  request: Request,
  route: Route | null,
  response: Response,
): Promise<Response> {
  const { headers, status } = response
  if (!JSON_TYPE.test(headers.get('content-type') ?? '') || headers.has('content-encoding')) return response
  if (status === 206 || /\bno-transform\b/.test(headers.get('cache-control') ?? '')) return response
  if (headers.get('etag')?.startsWith('"')) return response
  if (route !== null && (INTERNAL.test(route.pattern) || SECRETS.test(route.pattern))) return response
  headers.append('vary', 'Accept-Encoding')
  const accepted = acceptedCoding(request.headers.get('accept-encoding'), AVAILABLE)
  if (accepted.coding === null || response.body === null || request.method === 'HEAD') return response

  const bytesMin = accepted.refusesIdentity ? 1 : BYTES_MIN
  const reader = response.body.getReader()
  const start = await readUpTo(reader, AT_ONCE_BYTES_MAX)
  const codec = CODECS[accepted.coding]
  const init = { status, statusText: response.statusText, headers }
  if (start.isWhole && start.length < bytesMin) return new Response(joined(start), init)
  headers.set('content-encoding', accepted.coding)
  headers.delete('content-length')
  if (start.isWhole) return new Response(new Uint8Array(codec.compress(joined(start))), init)
  return new Response(through(codec.stream(), start.chunks, reader), init)
}

type Reader = ReadableStreamDefaultReader<Uint8Array>

interface Start {
  chunks: Uint8Array[]
  length: number
  /** No chunk follows. */
  isWhole: boolean
}

/** Reads chunks until they exceed `bytes` or the stream ends. */
async function readUpTo(reader: Reader, bytes: number): Promise<Start> {
  const start: Start = { chunks: [], length: 0, isWhole: false }
  while (start.length <= bytes) {
    const { done, value } = await reader.read()
    if (done) return { ...start, isWhole: true }
    start.chunks.push(value)
    start.length += value.length
  }
  return start
}

function joined({ chunks, length }: Start): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(length)
  let at = 0
  for (const chunk of chunks) {
    all.set(chunk, at)
    at += chunk.length
  }
  return all
}

/** Compresses at the pace of the client. A client that disconnects ends the source as well. */
function through(
  codec: Transform,
  start: readonly Uint8Array[],
  reader: Reader,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  async function* chunks() {
    try {
      yield* start
      for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value
    } finally {
      await reader.cancel()
    }
  }
  // An error of the source destroys the codec, which forwards the error to the client.
  pipeline(Readable.from(chunks(), { objectMode: true, highWaterMark: 1 }), codec, () => {})
  const pieces: AsyncIterator<Uint8Array<ArrayBuffer>> = codec[Symbol.asyncIterator]()
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await pieces.next()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      cancel() {
        codec.destroy()
      },
    },
    { highWaterMark: 0 },
  )
}
