// The data files of a table's state, and the statistics of its columns, from the manifests of the state. A state never changes.
import { LRUCache } from 'lru-cache'
import type { ManifestFile } from '../../lake/iceberg/format/data-file.ts'
import { keyIn } from '../../lake/iceberg/format/location.ts'
import {
  currentSchema,
  currentSnapshot,
  defaultSortOrder,
  defaultSpec,
  type TableMetadata,
} from '../../lake/iceberg/format/metadata.ts'
import { fieldsOf, type IcebergType, type Schema } from '../../lake/iceberg/format/types.ts'
import { partitionText } from '../../lake/iceberg/format/value-text.ts'
import { type ColumnStatistics, StatisticsOfColumns } from '../../lake/iceberg/read/column-statistics.ts'
import { deletedRowsOf } from '../../lake/iceberg/read/deletes.ts'
import {
  liveEntries,
  liveFiles,
  liveManifestsOf,
  type ManifestReader,
  manifestsOfPage,
  READS_AT_ONCE_LIMIT,
  type TableFile,
  tableFilesOf,
} from '../../lake/iceberg/read/scan.ts'
import type { Page } from '../core/pagination.ts'
import type { MetadataFiles } from '../versions/metadata-files.ts'
import type { DataFile, TableFiles, TableStatistics } from './schema.ts'

/**
 * Metrics that the statistics of one table read: files times columns. A table with more of them has no statistics. This many take
 * up to a second of processor time, during which other requests wait.
 */
const METRICS_MAX = 200_000
/** Statistics of states. States never change. */
const CACHED_STATISTICS = 500
const UNKNOWN = { nullCount: null, min: null, max: null, sizeBytes: null }

export interface LakeFiles {
  files: MetadataFiles
  reader: ManifestReader
}

export function makeTableFiles({ files, reader }: LakeFiles) {
  const cached = new LRUCache<string, TableStatistics>({ max: CACHED_STATISTICS })

  const metadataAt = async (location: string) => (await files.read(location)).table

  /** One page of the data files, in the order of the manifests. */
  async function page(location: string, { offset, limit }: Page): Promise<TableFiles> {
    const metadata = await metadataAt(location)
    const snapshot = currentSnapshot(metadata)
    if (snapshot === undefined) return { files: [], total: 0 }
    const live = await liveManifestsOf(metadata, snapshot['snapshot-id'], reader)
    const { manifests, filesBefore } = manifestsOfPage(live.data, { offset, limit })
    const read = await tableFilesOf({ ...live, data: manifests }, reader)
    const first = offset - filesBefore
    return { files: read.slice(first, first + limit).map(dataFileOf(metadata)), total: filesOf(live.data) }
  }

  async function statistics(location: string): Promise<TableStatistics> {
    const known = cached.get(location)
    if (known !== undefined) return known
    const metadata = await metadataAt(location)
    const snapshot = currentSnapshot(metadata)
    const manifests = snapshot === undefined ? [] : await reader.manifests(snapshot)
    const [data, deletes] = ['data', 'deletes'].map((content) =>
      manifests.filter((manifest) => manifest.content === content && liveFiles(manifest) > 0),
    ) as [ManifestFile[], ManifestFile[]]
    const found: TableStatistics = {
      file_count: filesOf(data),
      delete_file_count: filesOf(deletes),
      ...layoutOf(metadata),
      columns: (await columnsIn(currentSchema(metadata), data)).map((column) => ({
        name: column.name,
        type: column.type,
        null_count: column.nullCount,
        min: column.min,
        max: column.max,
        size_bytes: column.sizeBytes,
      })),
    }
    cached.set(location, found)
    return found
  }

  async function columnsIn(schema: Schema, data: readonly ManifestFile[]): Promise<ColumnStatistics[]> {
    const columns = new StatisticsOfColumns(schema)
    if (filesOf(data) * schema.fields.length > METRICS_MAX)
      return columns.result().map(({ name, type }) => ({ name, type, ...UNKNOWN }))
    for (let from = 0; from < data.length; from += READS_AT_ONCE_LIMIT) {
      const batch = data.slice(from, from + READS_AT_ONCE_LIMIT)
      for (const { file } of await liveEntries(batch, reader)) columns.add(file)
    }
    return columns.result()
  }

  return { page, statistics }
}

const filesOf = (manifests: readonly ManifestFile[]): number =>
  manifests.reduce((sum, manifest) => sum + liveFiles(manifest), 0)

function dataFileOf(metadata: TableMetadata): (file: TableFile) => DataFile {
  const sources = sourcesOf(metadata)
  const specOf = new Map(metadata['partition-specs'].map((spec) => [spec['spec-id'], spec]))
  return ({ specId, file }) => ({
    path: keyIn(file.location),
    row_count: file.recordCount,
    deleted_rows: deletedRowsOf(file.deletes),
    size_bytes: file.sizeBytes,
    partition: (specOf.get(specId)?.fields ?? []).map(({ name, transform, ...ids }) => {
      const value = file.partition[ids['field-id']] ?? null
      const source = sources.get(ids['source-id'])?.type
      return { field: name, value: value === null ? null : partitionText(transform, source, value) }
    }),
  })
}

function layoutOf(metadata: TableMetadata): Pick<TableStatistics, 'partition_by' | 'sort_by'> {
  const sources = sourcesOf(metadata)
  const columnOf = (id: number) => sources.get(id)?.column ?? null
  const spec = defaultSpec(metadata)
  return {
    partition_by: spec.fields.map(({ name, transform, 'source-id': id }) => ({
      field: name,
      column: columnOf(id),
      transform,
    })),
    sort_by: defaultSortOrder(metadata).fields.map(
      ({ transform, direction, 'source-id': id, 'null-order': nulls }) => ({
        column: columnOf(id),
        transform,
        direction,
        null_order: nulls,
      }),
    ),
  }
}

/** The names and types of all columns by id. Old partition specs may name columns of old schemas; the current schema comes last. */
function sourcesOf(metadata: TableMetadata): Map<number, { column: string; type: IcebergType }> {
  return new Map(
    [...metadata.schemas, currentSchema(metadata)].flatMap((schema) =>
      [...fieldsOf(schema)].map(({ id, path, type }) => [id, { column: path.join('.'), type }] as const),
    ),
  )
}
