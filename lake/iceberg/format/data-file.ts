import type { BoundValue } from './bounds.ts'

export interface ColumnMetrics {
  /** Size in the file, compressed. */
  readonly sizeBytes?: number | undefined
  /** Number of values, nulls included. */
  readonly valueCount?: number | undefined
  readonly nullCount?: number | undefined
  readonly nanCount?: number | undefined
  /** The value in Iceberg's single-value binary form (bounds.ts). */
  readonly lower?: Uint8Array | undefined
  readonly upper?: Uint8Array | undefined
}

/** Values of the partition fields by field id; empty for an unpartitioned table. */
export type PartitionTuple = Readonly<Record<number, BoundValue | null>>

/** Equal tuples, and only equal tuples, have the same text. */
export const tupleText = (tuple: PartitionTuple): string =>
  JSON.stringify(
    Object.entries(tuple).map(([id, value]) => [
      id,
      value instanceof Uint8Array ? [...value] : value === null ? null : String(value),
    ]),
  )

/** Summarizes the values of one partition field over the files of a manifest, for the manifest list. */
export interface PartitionSummary {
  readonly containsNull: boolean
  readonly containsNan?: boolean | undefined
  /** The value in Iceberg's single-value binary form; absent when every value is null. */
  readonly lower?: Uint8Array | undefined
  readonly upper?: Uint8Array | undefined
}

export interface DataFile {
  readonly content: 'data' | 'position-deletes' | 'equality-deletes'
  readonly location: string
  readonly format: string
  readonly partition: PartitionTuple
  readonly recordCount: number
  readonly sizeBytes: number
  /** Metrics by field id. */
  readonly columns: ReadonlyMap<number, ColumnMetrics>
  readonly splitOffsets?: readonly number[]
  readonly equalityIds?: readonly number[]
  readonly sortOrderId?: number
  /** The id of the file's first row. Only data files of format version 3 have row ids. */
  readonly firstRowId?: number
  /** The only data file whose rows a position delete file or a deletion vector deletes. */
  readonly referencedDataFile?: string
  /** The part of a Puffin file that is a deletion vector. */
  readonly contentOffset?: number
  readonly contentSizeBytes?: number
}

export interface ManifestEntry {
  readonly status: 'existing' | 'added' | 'deleted'
  /** The snapshot that added or deleted the file. In an added entry, null means the manifest's own snapshot. */
  readonly snapshotId: bigint | null
  /** In an added entry, null means the manifest's own number, which is known only when the commit succeeds. */
  readonly sequenceNumber: number | null
  readonly fileSequenceNumber: number | null
  readonly file: DataFile
}

/** The entry of a manifest in a manifest list. */
export interface ManifestFile {
  readonly location: string
  readonly sizeBytes: number
  readonly specId: number
  readonly content: 'data' | 'deletes'
  readonly sequenceNumber: number
  readonly minSequenceNumber: number
  readonly addedSnapshotId: bigint
  readonly addedFiles: number
  readonly existingFiles: number
  readonly deletedFiles: number
  readonly addedRows: number
  readonly existingRows: number
  readonly deletedRows: number
  /** One summary per field of the partition spec, in order; absent when the writer stored none. */
  readonly partitions?: readonly PartitionSummary[] | undefined
  /** The id of the first row in the files that have no `firstRowId` of their own. */
  readonly firstRowId?: number | undefined
}
