// The bodies of CompleteMultipartUpload, which names parts in their order, and of DeleteObjects, which names keys.
import { S3Error } from './errors.ts'
import type { NamedPart } from './multipart.ts'

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

/** The limit of S3. */
const KEYS_MAX = 1_000
const OBJECT_END = /<\/(?:\w+:)?Object>/
const KEY = /<(?:\w+:)?Key>([^<]{1,4096})<\//
const QUIET = /<(?:\w+:)?Quiet>\s*true\s*<\//

/** Reads the keys that DeleteObjects removes. A quiet request wants only the refusals. */
export async function keysToDelete(
  body: AsyncIterable<Uint8Array>,
): Promise<{ keys: string[]; isQuiet: boolean }> {
  const text = await textOf(body)
  const pieces = text.split(OBJECT_END).slice(0, -1)
  if (pieces.length === 0 || pieces.length > KEYS_MAX) throw badXml()
  const keys = pieces.map((piece) => {
    const key = KEY.exec(piece)?.[1]
    if (key === undefined) throw badXml()
    return plain(key)
  })
  return { keys, isQuiet: QUIET.test(text) }
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

/** Text of XML without its escapes. Other entities need a document type, which no client sends. */
const plain = (text: string): string =>
  text.replaceAll(/&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|(\w{1,4}));/gi, (_, hex, decimal, name) => {
    const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16)
    const character = name === undefined ? characterOf(code) : ENTITIES[name]
    if (character === undefined) throw badXml()
    return character
  })

const characterOf = (code: number) => (code <= 0x10ffff ? String.fromCodePoint(code) : undefined)

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
