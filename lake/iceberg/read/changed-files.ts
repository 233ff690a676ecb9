// Finds the files that two states of a table do not share. A manifest of both states is not read.
import type { DataFile, ManifestEntry, ManifestFile } from '../format/data-file.ts'
import { currentSnapshot, type TableMetadata } from '../format/metadata.ts'
import { liveFiles, type ManifestReader, mapBounded } from './scan.ts'

export interface ChangedFiles {
  /** Data files of the second state only. */
  readonly added: readonly DataFile[]
  /** Data files of the first state only. */
  readonly removed: readonly DataFile[]
  /** A state has row-level deletes, so the record counts of files also count deleted rows. */
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
  const [removedAt, addedAt] = [locationsOf(removed), locationsOf(added)]
  return {
    added: added.filter(({ content, location }) => content === 'data' && !removedAt.has(location)),
    removed: removed.filter(({ content, location }) => content === 'data' && !addedAt.has(location)),
    hasRowDeletes: [...old, ...now].some(
      (manifest) => manifest.content === 'deletes' && liveFiles(manifest) > 0,
    ),
  }
}

const locationsOf = (files: readonly DataFile[]) => new Set(files.map(({ location }) => location))

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
