// The body of CompleteMultipartUpload: the parts in their order.
import { S3Error } from './errors.ts'
import type { NamedPart } from './writes.ts'

/** 10,000 parts with their checksums take less than this. */
const BODY_BYTES_MAX = 4 * 1_048_576
const PARTS_MAX = 10_000
const PART_END = /<\/(?:\w+:)?Part>/
const NUMBER = /<(?:\w+:)?PartNumber>\s*([1-9]\d{0,4})\s*<\//
const ETAG = /<(?:\w+:)?ETag>\s*(?:"|&quot;|&#34;)?([\w-]{1,100})(?:"|&quot;|&#34;)?\s*<\//

/** Reads the parts. A body that names none is refused if parts are `required`. */
export async function uploadParts(body: AsyncIterable<Uint8Array>, required: boolean): Promise<NamedPart[]> {
  const text = await textOf(body)
  // A search for pairs of tags would take quadratic time on many opening tags.
  const pieces = text.split(PART_END).slice(0, -1)
  if (pieces.length > PARTS_MAX || (required && pieces.length === 0)) throw badXml()
  return pieces.map((part) => {
    const [number, etag] = [NUMBER.exec(part)?.[1], ETAG.exec(part)?.[1]]
    if (number === undefined || etag === undefined) throw badXml()
    return { number: Number(number), etag }
  })
}

async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.byteLength
    if (size > BODY_BYTES_MAX) throw badXml()
    // The source may reuse its buffer for the next chunk.
    chunks.push(chunk.slice())
  }
  return Buffer.concat(chunks).toString()
}

const badXml = () =>
  new S3Error('MalformedXML', 'The XML you provided was not well-formed or did not validate.')
