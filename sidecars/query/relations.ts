import { LRUCache } from 'lru-cache'
import { parseDuckType, renderDuckType } from '../../lake/iceberg/format/duckdb-type.ts'
import { keyOf } from '../../lake/iceberg/format/location.ts'
import { currentSchema, currentSnapshot, parseMetadata } from '../../lake/iceberg/format/metadata.ts'
import type { Schema } from '../../lake/iceberg/format/types.ts'
import { dataFilesOf, type ManifestReader, makeManifestReader } from '../../lake/iceberg/read/scan.ts'
import { readTable } from '../../lake/iceberg/sql.ts'
import { quoteIdentifier } from '../../lake/quote.ts'
import type { LakeView } from '../../proto/gen/sluice/query/v1/query_pb.ts'
import { gatewayLake, LAKE_ROOT, type LakeFiles, sharedLake } from '../objects/lake-access.ts'
import type { Lease, ObjectCache } from '../objects/object-cache.ts'
import { authorityOf } from '../rpc/api-addresses.ts'
import type { CommitTable } from './commits.ts'
import { limits } from './limits.ts'

// Tables as SQL expressions. A state of a table never changes, so its metadata is cached forever.

export interface Relation {
  /** A table expression over local files. */
  from(): string
  /** Releases the files, which stay in place until this call. */
  release(): void
}

/** Throws UnsupportedTable, HttpFailure, and the signal's reason. */
export type OpenRelation = (table: CommitTable, lake: LakeView, signal: AbortSignal) => Promise<Relation>

export interface RelationOptions {
  /** The directory of the API's disk store, if this service shares that disk. */
  lakeDir: string | null
  cache: ObjectCache
}

interface Content {
  schema: Schema
  files: { key: string; sizeBytes: number }[]
}

/** Files of one table that are downloaded concurrently. */
const DOWNLOADS_AT_ONCE = 8

export function makeRelations({ lakeDir, cache }: RelationOptions): OpenRelation {
  const shared = lakeDir === null ? null : sharedLake(lakeDir)
  const sharedReader = shared && readerOf(shared)
  const cachedContents = new LRUCache<string, Content>({
    maxSize: limits.dataFiles,
    sizeCalculation: ({ files }) => 1 + files.length,
  })

  return async function openRelation(table, lake, signal) {
    const authority = authorityOf(lake)
    const { objectsUrl: url, token } = lake
    const files = shared ?? gatewayLake({ url, token, authority, cache, signal })
    const key = `${authority} ${table.content_id}`
    let content = cachedContents.get(key)
    if (content === undefined) {
      content = await contentOf(table, files, sharedReader ?? readerOf(files))
      cachedContents.set(key, content)
    }
    signal.throwIfAborted()
    const { schema } = content
    const leases = await openAll(content, files)
    return {
      from: () =>
        readTable(
          schema,
          leases.map(({ path }) => path),
        ),
      release: () => {
        for (const lease of leases) lease.release()
      },
    }
  }
}

/** Returns the columns of a table without rows. This suffices for a query that only lists tables. */
export const emptyRelation = ({ columns }: CommitTable): string =>
  `(SELECT ${columns
    .map(
      ({ name, type }) =>
        `NULL::${renderDuckType(parseDuckType(type), quoteIdentifier)} AS ${quoteIdentifier(name)}`,
    )
    .join(', ')} WHERE false)`

const readerOf = (files: LakeFiles) =>
  makeManifestReader((location) => files.read(keyOf(LAKE_ROOT, location)))

async function contentOf(table: CommitTable, files: LakeFiles, reader: ManifestReader): Promise<Content> {
  const text = await files.read(keyOf(LAKE_ROOT, table.metadata_location))
  const metadata = parseMetadata(new TextDecoder().decode(text))
  const snapshot = currentSnapshot(metadata)
  const dataFiles = snapshot ? await dataFilesOf(metadata, snapshot['snapshot-id'], reader) : []
  return {
    schema: currentSchema(metadata),
    files: dataFiles.map(({ location, sizeBytes }) => ({ key: keyOf(LAKE_ROOT, location), sizeBytes })),
  }
}

async function openAll({ files: wanted }: Content, files: LakeFiles): Promise<Lease[]> {
  const leases: Lease[] = []
  try {
    for (let from = 0; from < wanted.length; from += DOWNLOADS_AT_ONCE) {
      const opened = await Promise.allSettled(
        wanted.slice(from, from + DOWNLOADS_AT_ONCE).map(({ key, sizeBytes }) => files.open(key, sizeBytes)),
      )
      for (const each of opened) if (each.status === 'fulfilled') leases.push(each.value)
      const failed = opened.find((each) => each.status === 'rejected')
      if (failed) throw failed.reason
    }
    return leases
  } catch (error) {
    for (const lease of leases) lease.release()
    throw error
  }
}
