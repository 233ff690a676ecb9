// Locations of a table's objects. Metadata stores full locations, but the object store uses keys below its root, such as
// `s3://bucket/`. Only the functions of this file convert between them.

import type { TableName } from '../../../ground/names.ts'

/** All lake data has this prefix, which is not a valid namespace name. */
export const LAKE_PREFIX = '_lake/'

/** Parts of incomplete uploads have this prefix. It is outside of the lake, so no location names a part. */
export const UPLOADS_PREFIX = '_uploads/'

/** The location is not below the root of the store, or the key would leave the root. */
export class BadLocation extends Error {
  override readonly name = 'BadLocation'
}

/** The location of an object; `root` ends in a slash. @throws BadLocation */
export function locationOf(root: string, key: string): string {
  checkRoot(root)
  checkKey(key)
  return `${root}${key}`
}

/** The key of an object below `root`. @throws BadLocation for anything outside it */
export function keyOf(root: string, location: string): string {
  checkRoot(root)
  if (!location.startsWith(root)) throw new BadLocation(`${JSON.stringify(location)} is outside the lake`)
  const key = location.slice(root.length)
  checkKey(key)
  return key
}

/** The key in a location of the lake, whatever its root: a lake keeps its keys when its root changes. @throws BadLocation */
export function keyIn(location: string): string {
  const key = location.slice(rootIn(location).length)
  checkKey(key)
  return key
}

/** The root of a location of the lake, which ends in a slash. @throws BadLocation */
export function rootIn(location: string): string {
  const at = location.indexOf(`/${LAKE_PREFIX}`)
  if (at < 0) throw new BadLocation(`${JSON.stringify(location)} is outside the lake`)
  return location.slice(0, at + 1)
}

/** The part of a location that stays when the root of the lake changes; the whole text of a location outside the lake. */
export const placeIn = (location: string): string =>
  location.slice(Math.max(0, location.indexOf(`/${LAKE_PREFIX}`)))

/** Table properties of Iceberg that hold a location. */
export const LOCATION_PROPERTIES: ReadonlySet<string> = new Set([
  'write.data.path',
  'write.metadata.path',
  'write.object-storage.path',
  'write.folder-storage.path',
])

/**
 * The location of a table: `<root>_lake/<namespace>/<layer>/<name>-<first 8 digits of its uuid>`. The uuid distinguishes a
 * table from an earlier table of the same name. A retained commit may still need the files of the earlier table.
 */
export const tableLocation = (root: string, { namespace, layer, name }: TableName, uuid: string): string =>
  locationOf(root, `${LAKE_PREFIX}${namespace}/${layer}/${name}-${uuid.slice(0, 8)}`)

/** The location of a data file. `unique` makes the name unique, because objects of the lake are never overwritten. */
export const dataLocation = (table: string, unique: string): string => `${table}/data/${unique}.parquet`

/**
 * The location of a metadata file. `version` counts the commits, for people who look into the directory. Readers of directories
 * take the newest file in `metadata`, which may belong to a branch that was never merged. So the files have another directory.
 */
export const metadataLocation = (table: string, version: number, unique: string): string =>
  `${table}/commits/${String(version).padStart(5, '0')}-${unique}.metadata.json`

export const manifestLocation = (table: string, unique: string, part: number): string =>
  `${table}/metadata/${unique}-m${part}.avro`

export const manifestListLocation = (table: string, snapshotId: bigint, unique: string): string =>
  `${table}/metadata/snap-${snapshotId}-${unique}.avro`

function checkRoot(root: string) {
  if (!root.endsWith('/'))
    throw new BadLocation(`the root of the object store ${JSON.stringify(root)} does not end in a slash`)
}

function checkKey(key: string) {
  if (!isLakeFileKey(key))
    throw new BadLocation(`${JSON.stringify(key)} is not a valid object key of the lake`)
}

/**
 * Whether a key names an object of the lake. Other engines percent-encode partition values in paths: `p=a%2Fb`. The escapes
 * belong to the key and are never decoded. A later component might decode them, so no level of decoding may lead elsewhere.
 */
export function isLakeFileKey(key: string): boolean {
  const parts = key.split('/')
  return (
    key.startsWith(LAKE_PREFIX) &&
    parts.every((part) => part !== '' && isPrintable(part)) &&
    isWithinLake(key)
  )
}

/** Control characters and backslashes have different meanings in different stores. */
const isPrintable = (part: string): boolean => !/[\p{Cc}\\?#]/u.test(part) && part.isWellFormed()

const ESCAPES: Readonly<Record<string, string>> = { '25': '%', '2e': '.', '2f': '/', '5c': '\\', '00': '\0' }

/** Whether the key has no segment `.` or `..` and no NUL at every level of percent-decoding. */
function isWithinLake(key: string): boolean {
  for (let text = key; ; ) {
    if (text.includes('\0') || text.split(/[/\\]/).some((part) => part === '.' || part === '..')) return false
    const decoded = text.replace(
      /%(25|2e|2f|5c|00)/gi,
      (_, code: string) => ESCAPES[code.toLowerCase()] ?? '',
    )
    if (decoded === text) return true
    text = decoded
  }
}
