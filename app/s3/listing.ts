// ListObjects and ListObjectsV2: the keys below a prefix that the credentials reach.
import { limits } from '../core/limits.ts'
import type { StoredObject } from '../objects/port.ts'
import { S3Error } from './errors.ts'
import { entityTagOf, isUploadPart, type ListFiles } from './files.ts'
import { encoded } from './signature.ts'
import { document, element, type Markup } from './xml.ts'

/** Keys of one page; the limit of S3. */
const PAGE_MAX = 1_000
/** No key contains this character, so it sorts behind all keys that begin with the text before it. */
const LAST = '\u{10ffff}'

interface ListRequest {
  /** The names of the query; a missing name is null. */
  parameter(name: string): string | null
  bucket: string
}

/** The XML of a page of the keys that begin with the prefix. */
export async function listing(list: ListFiles, prefix: string, request: ListRequest): Promise<Markup> {
  const { parameter, bucket } = request
  const isV2 = parameter('list-type') === '2'
  const token = parameter('continuation-token')
  const after =
    (isV2 ? (token === null ? parameter('start-after') : afterOf(token)) : parameter('marker')) ?? ''
  const limit = limitOf(parameter('max-keys'))
  const delimiter = parameter('delimiter') ?? ''
  const page = await pageOf(list, { prefix, delimiter, after, limit })
  const isEncoded = parameter('encoding-type') === 'url'
  const shown = (text: string) => (isEncoded ? text.split('/').map(encoded).join('/') : text)
  const optional = (name: string, text: string | null) => (text ? [element(name, text)] : [])
  const next = page.next === null ? null : isV2 ? tokenOf(page.next) : page.next
  return document('ListBucketResult', [
    element('Name', bucket),
    element('Prefix', shown(prefix)),
    ...(isV2
      ? [
          element('KeyCount', page.entries.length),
          ...optional('ContinuationToken', token),
          ...optional('NextContinuationToken', next),
          ...optional('StartAfter', parameter('start-after')),
        ]
      : [element('Marker', shown(after)), ...optional('NextMarker', next && shown(next))]),
    element('MaxKeys', limit),
    ...optional('Delimiter', delimiter && shown(delimiter)),
    ...optional('EncodingType', isEncoded ? 'url' : null),
    element('IsTruncated', page.next !== null),
    ...page.entries.map((entry) =>
      typeof entry === 'string'
        ? element('CommonPrefixes', [element('Prefix', shown(entry))])
        : contents(entry, shown),
    ),
  ])
}

const contents = ({ key, size, modified }: StoredObject, shown: (text: string) => string) =>
  element('Contents', [
    element('Key', shown(key)),
    element('LastModified', modified.toISOString()),
    element('ETag', `"${entityTagOf(key, size)}"`),
    element('Size', size),
    element('StorageClass', 'STANDARD'),
  ])

interface Wanted {
  prefix: string
  delimiter: string
  after: string
  limit: number
}

interface Page {
  /** Objects and common prefixes, in the order of their keys. */
  entries: (StoredObject | string)[]
  /** The position after which the next page begins; null: this page is the last one. */
  next: string | null
}

async function pageOf(list: ListFiles, { prefix, delimiter, after, limit }: Wanted): Promise<Page> {
  const entries: Page['entries'] = []
  if (limit === 0) return { entries, next: null }
  let position = after
  for (;;) {
    const batch = Math.min(limits.listCap, PAGE_MAX + 1)
    const found = await list(prefix, { limit: batch, after: position })
    for (const object of found.objects) {
      if (isUploadPart(object.key)) {
        position = object.key
        continue
      }
      const common = commonPrefixOf(object.key, prefix, delimiter)
      if (common !== null && position === common + LAST) continue
      if (entries.length === limit) return { entries, next: position }
      entries.push(common ?? object)
      position = common === null ? object.key : common + LAST
    }
    if (!found.truncated) return { entries, next: null }
  }
}

function commonPrefixOf(key: string, prefix: string, delimiter: string): string | null {
  const at = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length)
  return at === -1 ? null : key.slice(0, at + delimiter.length)
}

function limitOf(text: string | null): number {
  if (text === null || text === '') return PAGE_MAX
  if (!/^\d{1,10}$/.test(text)) throw new S3Error('InvalidArgument', 'max-keys must be a number')
  return Math.min(Number(text), PAGE_MAX)
}

const tokenOf = (position: string) => Buffer.from(position).toString('base64url')

function afterOf(token: string): string {
  const position = Buffer.from(token, 'base64url').toString()
  if (tokenOf(position) !== token)
    throw new S3Error('InvalidArgument', 'The continuation token provided is incorrect')
  return position
}
