import assert from 'node:assert/strict'
import {
  GetObjectCommand,
  type GetObjectCommandOutput,
  type S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3'
import type { ByteRange } from './port.ts'
import { PART_BYTES, takeSpareBuffer } from './spare-buffers.ts'

/** Connections in a row that may end without a byte before a read fails. */
const FRUITLESS_MAX = 3

interface S3Object {
  Bucket: string
  Key: string
  VersionId?: string
}

/** The metadata of an object with its content. `ContentLength` is the length of the whole object. */
interface Download extends Pick<GetObjectCommandOutput, 'ContentLength' | 'LastModified' | 'VersionId'> {
  body: ReadableStream<Uint8Array>
}

/**
 * Opens an object, or the given bytes of it, for reading. Many bytes are read in parts: the part that the reader waits for is
 * streamed, and further parts are read into spare buffers meanwhile. A part whose connection breaks is continued where it broke,
 * on the same version. Rejects with the client's error when the object cannot be opened.
 */
export async function openDownload(
  client: S3Client,
  object: S3Object,
  { start, end }: ByteRange = { start: 0, end: Number.POSITIVE_INFINITY },
): Promise<Download> {
  const first = await openFirstPart(client, object, { start, end: Math.min(end, start + PART_BYTES) })
  const { LastModified, VersionId = object.VersionId } = first
  const size = totalLengthOf(first)
  const opened = first.Body?.transformToWebStream() ?? new Blob([]).stream()
  const openedEnd = start + (first.ContentLength ?? size)
  const whole = { start, end: Math.min(end, size) }
  const chunks = chunksOf(client, { ...object, VersionId }, { opened, openedEnd, whole })
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await chunks.next()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      async cancel(reason) {
        await chunks.return(undefined)
        // A generator that never started has not touched its stream. A stream that it read is closed or locked by now.
        if (!opened.locked) await opened.cancel(reason)
      },
    },
    { highWaterMark: 0 },
  )
  return { LastModified, VersionId, ContentLength: size, body }
}

/** A range of an empty object is an error, so an empty object is read as a whole. */
async function openFirstPart(client: S3Client, object: S3Object, part: ByteRange) {
  try {
    return await openRange(client, object, part)
  } catch (error) {
    const isEmpty = error instanceof S3ServiceException && error.$metadata.httpStatusCode === 416
    if (!isEmpty || part.start > 0) throw error
    return client.send(new GetObjectCommand(object))
  }
}

/** `Content-Range: bytes 0-4/10` has the total after the slash. A server without ranges answers with the whole object. */
function totalLengthOf({ ContentRange, ContentLength }: GetObjectCommandOutput): number {
  const total = ContentRange === undefined ? ContentLength : Number(ContentRange.split('/').at(-1))
  assert(total !== undefined && Number.isSafeInteger(total), 'S3 response without the size of an object')
  return total
}

async function* chunksOf(
  client: S3Client,
  object: S3Object,
  { opened, openedEnd, whole }: { opened: ReadableStream<Uint8Array>; openedEnd: number; whole: ByteRange },
): AsyncGenerator<Uint8Array, undefined> {
  const ahead = readAhead(client, object, { start: openedEnd, end: whole.end })
  try {
    ahead.fill()
    yield* streamRange(client, object, { range: { start: whole.start, end: openedEnd }, opened })
    for (let start = openedEnd; start < whole.end; start += PART_BYTES) {
      const range = { start, end: Math.min(start + PART_BYTES, whole.end) }
      const chunks = await ahead.take(range)
      ahead.fill()
      if (chunks === null) yield* streamRange(client, object, { range })
      else yield* chunks
    }
  } finally {
    ahead.stop()
  }
}

/** Streams a range. After a lost connection it asks for the rest of the range. */
async function* streamRange(
  client: S3Client,
  object: S3Object,
  { range, opened, signal }: { range: ByteRange; opened?: ReadableStream<Uint8Array>; signal?: AbortSignal },
): AsyncGenerator<Uint8Array> {
  const { end } = range
  let at = range.start
  let chunks = opened
  for (let fruitless = 0; at < end; ) {
    const before = at
    try {
      chunks ??= (await openRange(client, object, { start: at, end }, signal)).Body?.transformToWebStream()
      for await (const chunk of chunks ?? []) {
        at += chunk.byteLength
        yield chunk
      }
      if (at < end) throw new Error(`S3 closed the connection after ${at} of ${end} bytes of ${object.Key}`)
    } catch (error) {
      fruitless = at === before ? fruitless + 1 : 0
      if (signal?.aborted || error instanceof S3ServiceException || fruitless === FRUITLESS_MAX) throw error
    }
    chunks = undefined
  }
}

/** A server without ranges may answer with the whole object if the range begins with it. */
async function openRange(
  client: S3Client,
  object: S3Object,
  { start, end }: ByteRange,
  signal?: AbortSignal,
): Promise<GetObjectCommandOutput> {
  const command = new GetObjectCommand({ ...object, Range: `bytes=${start}-${end - 1}` })
  const found = await client.send(command, { abortSignal: signal })
  const isRange = found.ContentRange?.startsWith(`bytes ${start}-`)
  assert(
    isRange || (start === 0 && (found.ContentLength ?? 0) <= end),
    `S3 ignored the range of a read from byte ${start}`,
  )
  return found
}

interface ReadAhead {
  /** Starts to read further ranges while spare buffers are left. */
  fill(): void
  /** Returns the content of a range, or null when that range was not read ahead. */
  take(range: ByteRange): Promise<Uint8Array[] | null>
  /** Ends all reads and gives their buffers back. */
  stop(): void
}

function readAhead(client: S3Client, object: S3Object, { start, end }: ByteRange): ReadAhead {
  const stopped = new AbortController()
  const reads = new Map<number, { content: Promise<Uint8Array[]>; release: () => void }>()
  /** The start of the first range that neither the reader nor this function has asked for. */
  let next = start

  return {
    fill() {
      // The next range belongs to the reader as soon as it comes to it, unless it is read here before.
      while (next < end) {
        const release = takeSpareBuffer()
        if (release === null) return
        const range = { start: next, end: Math.min(next + PART_BYTES, end) }
        const content = Array.fromAsync(streamRange(client, object, { range, signal: stopped.signal }))
        // The reader that takes the content gets the error. Without this line an unread error would end the process.
        content.catch(() => {})
        reads.set(range.start, { content, release })
        next = range.end
      }
    },
    async take(range) {
      next = Math.max(next, range.end)
      const read = reads.get(range.start)
      if (read === undefined) return null
      reads.delete(range.start)
      try {
        return await read.content
      } finally {
        read.release()
      }
    },
    stop() {
      stopped.abort()
      for (const { release } of reads.values()) release()
      reads.clear()
    },
  }
}
