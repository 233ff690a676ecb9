import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { checkKey } from './key.ts'
import { openSpool, type Spool } from './spool.ts'

/** The smallest part that S3 accepts, and the size of an upload's only buffer. */
const PART_BYTES = 5 * 1_048_576

export interface ReceiveTarget {
  Bucket: string
  /** Undefined: the key is known only when the whole body has arrived. */
  Key?: string | Promise<string>
  ContentType?: string
}

/** A received body: in memory, in the parts of an incomplete upload, or on disk. */
export interface Received {
  size: number
  /** May be called once. If it fails, nothing stays stored. */
  send(key: string): Promise<{ VersionId?: string }>
  /** Has no effect after `send`. Never rejects. */
  discard(): Promise<void>
}

/**
 * Receives a body of unknown length with one buffer. Eight concurrent uploads of 32 MB take a third of the memory of the SDK's
 * own upload, which joins and queues its parts. A body that fits in the buffer waits there. A longer body is sent in parts,
 * which are invisible until completion. Without a key, a longer body waits on disk.
 */
export async function receiveChunks(
  client: S3Client,
  target: ReceiveTarget,
  chunks: AsyncIterable<Uint8Array>,
): Promise<Received> {
  const buffer = new Uint8Array(PART_BYTES)
  let filled = 0
  let size = 0
  let parts: Parts | undefined

  const sendPart = async () => {
    parts ??= await startParts(client, target)
    await parts.add(buffer.subarray(0, filled))
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
  add(part: Uint8Array): Promise<void>
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
  // The client computes a checksum of each part by default; the upload must announce its algorithm.
  const created = await client.send(
    new CreateMultipartUploadCommand({ ...target, ChecksumAlgorithm: 'CRC32' }),
  )
  const upload = { Bucket, Key, UploadId: created.UploadId }
  const parts: CompletedPart[] = []
  let isOver = false

  /** A failed abort is ignored. The bucket's lifecycle rule removes the parts, and the first error is the one that matters. */
  async function abort() {
    if (isOver) return
    isOver = true
    await client.send(new AbortMultipartUploadCommand(upload)).catch(() => {})
  }

  return {
    async add(Body) {
      const PartNumber = parts.length + 1
      const sent = await client.send(new UploadPartCommand({ ...upload, PartNumber, Body }))
      parts.push({ PartNumber, ETag: sent.ETag, ChecksumCRC32: sent.ChecksumCRC32 })
    },
    async complete(key) {
      if (key !== Key) throw new Error(`S3 upload to ${Key} cannot be completed under another key: ${key}`)
      try {
        const stored = await client.send(
          new CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts: parts } }),
        )
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
    add: (part) => spool.write(part),
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
