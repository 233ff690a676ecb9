import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'

/** The smallest part S3 takes, and all the memory an upload holds. */
const PART_BYTES = 5 * 1_048_576

/**
 * Stores a body of unknown length, part by part from one buffer: eight uploads of 32 MB at once take a third of the
 * memory of the SDK's own upload, which joins and queues its parts. When the body or a part fails, no part stays.
 */
export async function uploadChunks(
  client: S3Client,
  target: { Bucket: string; Key: string; ContentType?: string },
  chunks: AsyncIterable<Uint8Array>,
): Promise<{ VersionId?: string; size: number }> {
  const buffer = new Uint8Array(PART_BYTES)
  const { Bucket, Key } = target
  const parts: CompletedPart[] = []
  let UploadId: string | undefined
  let filled = 0

  async function sendPart() {
    UploadId ??= await createUpload(client, target)
    const PartNumber = parts.length + 1
    const Body = buffer.subarray(0, filled)
    const sent = await client.send(new UploadPartCommand({ Bucket, Key, UploadId, PartNumber, Body }))
    parts.push({ PartNumber, ETag: sent.ETag, ChecksumCRC32: sent.ChecksumCRC32 })
    filled = 0
  }

  let size = 0
  try {
    for await (const chunk of chunks) {
      size += chunk.byteLength
      for (let rest = chunk; rest.byteLength > 0; ) {
        if (filled === PART_BYTES) await sendPart()
        const fitting = rest.subarray(0, PART_BYTES - filled)
        buffer.set(fitting, filled)
        filled += fitting.byteLength
        rest = rest.subarray(fitting.byteLength)
      }
    }
    if (UploadId === undefined) {
      const Body = buffer.subarray(0, filled)
      return { ...(await client.send(new PutObjectCommand({ ...target, Body }))), size }
    }
    await sendPart()
    const MultipartUpload = { Parts: parts }
    const stored = await client.send(
      new CompleteMultipartUploadCommand({ Bucket, Key, UploadId, MultipartUpload }),
    )
    return { VersionId: stored.VersionId, size }
  } catch (error) {
    // Should this fail too, the parts are for the bucket's lifecycle rule: what failed first is what matters.
    if (UploadId !== undefined)
      await client.send(new AbortMultipartUploadCommand({ Bucket, Key, UploadId })).catch(() => {})
    throw error
  }
}

/** The checksum that the client computes of each part by default has to be announced. */
async function createUpload(client: S3Client, target: { Bucket: string; Key: string; ContentType?: string }) {
  const created = await client.send(
    new CreateMultipartUploadCommand({ ...target, ChecksumAlgorithm: 'CRC32' }),
  )
  return created.UploadId
}
