// Finds the files that two states of a table do not share. A manifest of both states is not read.
import type { DataFile, ManifestEntry, ManifestFile } from '../format/manifest.ts'
import { currentSnapshot, type TableMetadata } from '../format/metadata.ts'
import { type ManifestReader, mapBounded } from './scan.ts'

export interface ChangedFiles {
  /** Data files of the second state only. */
  readonly added: readonly DataFile[]
  /** Data files of the first state only. */
  readonly removed: readonly DataFile[]
  /** The states have different row-level deletes, so the record counts of files do not tell which rows differ. */
  readonly hasRowDeletes: boolean
}

/** The current manifests of a table; none for a table that does not exist or has no snapshot. */
export async function manifestsOf(
  metadata: TableMetadata | null,
  reader: ManifestReader,
): Promise<ManifestFile[]> {
  const snapshot = metadata === null ? undefined : currentSnapshot(metadata)
  return snapshot === undefined ? [] : reader.manifests(snapshot)
}

/** The difference from `before` to `after`. A null state has no files. */
export async function changedFiles(
  before: TableMetadata | null,
  after: TableMetadata | null,
  reader: ManifestReader,
): Promise<ChangedFiles> {
  const [old, now] = await Promise.all([manifestsOf(before, reader), manifestsOf(after, reader)])
  const [removed, added] = await Promise.all([filesOnlyIn(old, now, reader), filesOnlyIn(now, old, reader)])
  const [removedAt, addedAt] = [
    new Set(removed.map(({ location }) => location)),
    new Set(added.map(({ location }) => location)),
  ]
  const isData = ({ content }: DataFile) => content === 'data'
  const onlyRemoved = removed.filter(({ location }) => !addedAt.has(location))
  const onlyAdded = added.filter(({ location }) => !removedAt.has(location))
  return {
    added: onlyAdded.filter(isData),
    removed: onlyRemoved.filter(isData),
    hasRowDeletes: ![...onlyAdded, ...onlyRemoved].every(isData),
  }
}

/** Live files of the manifests that `others` does not have. Other manifests may have some of these files, too. */
async function filesOnlyIn(
  manifests: readonly ManifestFile[],
  others: readonly ManifestFile[],
  reader: ManifestReader,
): Promise<DataFile[]> {
  const shared = new Set(others.map(({ location }) => location))
  const own = manifests.filter(({ location }) => !shared.has(location))
  const entries = await mapBounded(own, (manifest) => reader.entries(manifest))
  return entries
    .flat()
    .filter(isLive)
    .map(({ file }) => file)
}

const isLive = ({ status }: ManifestEntry) => status !== 'deleted'
