// Where the objects of a table live. Metadata carries full locations, the object store knows keys below its root
// (`s3://bucket/`, `file:///data/objects/`): these two functions are the only way from one to the other.

import type { TableName } from '../../pipeline/names.ts'

/** All lake data lives below this prefix, which no namespace can have. */
export const LAKE_PREFIX = '_lake/'

/** A location that is not below the root of the store, or a key that would leave it. */
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

/**
 * The location of a table: `<root>_lake/<namespace>/<layer>/<name>-<first 8 digits of its uuid>`. The uuid keeps a
 * table apart from an earlier one of the same name, whose files a retained commit may still need.
 */
export const tableLocation = (root: string, { namespace, layer, name }: TableName, uuid: string): string =>
  locationOf(root, `${LAKE_PREFIX}${namespace}/${layer}/${name}-${uuid.slice(0, 8)}`)

/** `unique` makes the name; objects of the lake are never overwritten. */
export const dataLocation = (table: string, unique: string): string => `${table}/data/${unique}.parquet`

/** A metadata file; `version` counts the commits, for people who look into the directory. */
export const metadataLocation = (table: string, version: number, unique: string): string =>
  `${table}/metadata/${String(version).padStart(5, '0')}-${unique}.metadata.json`

export const manifestLocation = (table: string, unique: string, part: number): string =>
  `${table}/metadata/${unique}-m${part}.avro`

export const manifestListLocation = (table: string, snapshotId: bigint, unique: string): string =>
  `${table}/metadata/snap-${snapshotId}-${unique}.avro`

function checkRoot(root: string) {
  if (!root.endsWith('/')) throw new BadLocation(`the root ${JSON.stringify(root)} does not end in a slash`)
}

function checkKey(key: string) {
  const parts = key.split('/')
  const isPlain = parts.every((part) => part !== '' && part !== '.' && part !== '..' && isPrintable(part))
  if (!isPlain || !key.startsWith(LAKE_PREFIX))
    throw new BadLocation(`${JSON.stringify(key)} is not a key of the lake`)
}

/** Control characters, backslashes and percent escapes mean different things to different stores. */
const isPrintable = (part: string): boolean => !/[\p{Cc}\\%?#]/u.test(part) && part.isWellFormed()
