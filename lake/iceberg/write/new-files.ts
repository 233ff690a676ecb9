import type { PartitionTuple } from '../format/data-file.ts'
import type { TableFile } from '../read/scan.ts'
import type { FileMetrics } from './stats.ts'

/** A data file that is already stored. */
export interface NewDataFile extends FileMetrics {
  readonly location: string
  readonly partition?: PartitionTuple
}

/** A delete file that is already stored. Its spec and partition are those of the data files concerned. */
export interface NewDeleteFile extends NewDataFile {
  readonly content: 'position-deletes' | 'equality-deletes'
  readonly specId: number
  /** The compared columns of equality deletes. */
  readonly equalityIds?: readonly number[]
  /** `PUFFIN` for a deletion vector. Default: `PARQUET`. */
  readonly format?: string
  readonly referencedDataFile?: string
  readonly contentOffset?: number
  readonly contentSizeBytes?: number
}

export type ReplacedFiles = ReadonlyMap<string, ReadonlySet<string>>

/** Groups files of a table for `replaced`. */
export function replacedFiles(files: readonly TableFile[]): ReplacedFiles {
  const byManifest = Map.groupBy(files, ({ manifest }) => manifest)
  return new Map(
    Array.from(byManifest, ([manifest, own]) => [manifest, new Set(own.map(({ file }) => file.location))]),
  )
}

/** The same files, after a snapshot has perhaps moved their entries to its own manifests. */
export function movedTo(
  objects: readonly StoredObject[],
  replaced: ReplacedFiles = new Map(),
): ReplacedFiles {
  const locations = new Set([...replaced.values()].flatMap((ofManifest) => [...ofManifest]))
  return new Map([...replaced, ...objects.map(({ location }) => [location, locations] as const)])
}

export interface StoredObject {
  readonly location: string
  readonly bytes: Uint8Array
}
