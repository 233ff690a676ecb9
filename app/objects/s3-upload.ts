import { randomUUID } from 'node:crypto'
import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  NoSuchUpload,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { checkKey } from './key.ts'
import { PART_BYTES, takeSpareBuffer } from './spare-buffers.ts'
import { openSpool, type Spool } from './spool.ts'

const MARK_NAME = 'sluice-upload'

interface ReceiveTarget {
  Bucket: string
  /** Undefined: the key is known only when the whole body has arrived. */
  Key?: string | Promise<string>
  ContentType?: string
}

/** A received body: in memory, in the parts of an incomplete upload, or on disk. */
interface Received {
  size: number
  /** May be called once. If it fails, nothing stays stored. */
  send(key: string): Promise<{ VersionId?: string }>
  /** Has no effect after `send`. Never rejects. */
  discard(): Promise<void>
}

/**
 * Receives a body of unknown length with one buffer, and with spare buffers for parts that are still being sent. Eight concurrent
 * uploads of 32 MB take less memory than with the SDK's own upload, which joins and queues its parts. A body that fits in the
 * buffer waits there. A longer body is sent in parts, which are invisible until completion. Without a key, a longer body waits
 * on disk.
 */
export async function receiveChunks(
  client: S3Client,
  target: ReceiveTarget,
  chunks: AsyncIterable<Uint8Array>,
): Promise<Received> {
  let buffer = new Uint8Array(PART_BYTES)
  let filled = 0
  let size = 0
  let parts: Parts | undefined

  const sendPart = async () => {
    parts ??= await startParts(client, target)
    const part = buffer.subarray(0, filled)
    const isKept = await parts.add(part)
    if (isKept) buffer = new Uint8Array(PART_BYTES)
    filled = 0
  }

  try {
    for await (const chunk of chunks) {
      size += chunk.byteLength
      for (let unread = chunk; unread.byteLength > 0; ) {
        if (filled === PART_BYTES) await sendPart()
        const fitting = unread.subarray(0, PART_BYTES - filled)
        buffer.set(fitting, filled)
        filled += fitting.byteLength
        unread = unread.subarray(fitting.byteLength)
      }
    }
    if (parts !== undefined) {
      await sendPart()
      return { size, send: parts.complete, discard: parts.abort }
    }
    return {
      size,
      send: (Key) =>
        client.send(
          new PutObjectCommand({
            Bucket: target.Bucket,
            ContentType: target.ContentType,
            Key,
            Body: buffer.subarray(0, filled),
          }),
        ),
      discard: async () => {},
    }
  } catch (error) {
    await parts?.abort()
    throw error
  }
}

interface Parts {
  /** Resolves to true when the part is sent later. Its buffer must not change any more then. */
  add(part: Uint8Array): Promise<boolean>
  complete(key: string): Promise<{ VersionId?: string }>
  abort(): Promise<void>
}

async function startParts(client: S3Client, { Key, ...target }: ReceiveTarget): Promise<Parts> {
  if (Key === undefined) return startSpool(client, target)
  const key = await Key
  checkKey(key)
  return startUpload(client, { ...target, Key: key })
}

async function startUpload(
  client: S3Client,
  target: { Bucket: string; Key: string; ContentType?: string },
): Promise<Parts> {
  const { Bucket, Key } = target
  // Tells the object of this upload from any other, if the answer to its completion is lost.
  const uploadMark = randomUUID()
  // The client computes a checksum of each part by default; the upload must announce its algorithm.
  const created = await client.send(
    new CreateMultipartUploadCommand({
      ...target,
      ChecksumAlgorithm: 'CRC32',
      Metadata: { [MARK_NAME]: uploadMark },
    }),
  )
  const upload = { Bucket, Key, UploadId: created.UploadId }
  const parts: Promise<CompletedPart>[] = []
  let isOver = false

  async function send(PartNumber: number, Body: Uint8Array): Promise<CompletedPart> {
    const sent = await client.send(new UploadPartCommand({ ...upload, PartNumber, Body }))
    return { PartNumber, ETag: sent.ETag, ChecksumCRC32: sent.ChecksumCRC32 }
  }

  /** A failed abort is ignored. The bucket's lifecycle rule removes the parts, and the first error is the one that matters. */
  async function abort() {
    if (isOver) return
    isOver = true
    // A part that arrives after the abort would stay.
    await Promise.allSettled(parts)
    await client.send(new AbortMultipartUploadCommand(upload)).catch(() => {})
  }

  /** Finds the object of this upload. A repeated completion fails, or has an answer without version, on some servers. */
  async function findStored() {
    const found = await client.send(new HeadObjectCommand({ Bucket, Key })).catch(() => null)
    return found?.Metadata?.[MARK_NAME] === uploadMark ? found : null
  }

  async function finish() {
    const MultipartUpload = { Parts: await Promise.all(parts) }
    try {
      const stored = await client.send(new CompleteMultipartUploadCommand({ ...upload, MultipartUpload }))
      return stored.VersionId === undefined ? ((await findStored()) ?? stored) : stored
    } catch (error) {
      const stored = error instanceof NoSuchUpload ? await findStored() : null
      if (stored === null) throw error
      return stored
    }
  }

  return {
    async add(part) {
      const sent = send(parts.length + 1, part)
      parts.push(sent)
      const release = takeSpareBuffer()
      if (release === null) {
        await sent
        return false
      }
      // `complete` reports the error of a part.
      sent.catch(() => {}).finally(release)
      return true
    },
    async complete(key) {
      if (key !== Key) throw new Error(`S3 upload to ${Key} cannot be completed under another key: ${key}`)
      try {
        const stored = await finish()
        isOver = true
        return stored
      } catch (error) {
        await abort()
        throw error
      }
    },
    abort,
  }
}

async function startSpool(client: S3Client, target: ReceiveTarget): Promise<Parts> {
  const spool: Spool = await openSpool()
  return {
    async add(part) {
      await spool.write(part)
      return false
    },
    async complete(Key) {
      try {
        const received = await receiveChunks(client, { ...target, Key }, spool.chunks())
        return await received.send(Key)
      } finally {
        await spool.close()
      }
    },
    abort: () => spool.close(),
  }
}
