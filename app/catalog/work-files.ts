// Files that an engine reaches through the S3 endpoint while it works with the token of an attempt or a preview. These are the
// files that the object gateway gives to the same token (gateway.ts), under names that engines understand.
import type { Sql } from '../../drizzle/client.ts'
import { LAKE_PREFIX } from '../../lake/iceberg/format/location.ts'
import type { CodeVisibility } from '../access/code-visibility.ts'
import { zoneFolderOf } from '../core/paths.ts'
import type { ObjectStore, StoredObject } from '../objects/port.ts'
import { visibilityOf } from './access.ts'
import { isTableDirectory } from './lake-keys.ts'
import { findBranch } from './store/branches.ts'
import { type FrozenFile, frozenFiles, presentFiles } from './store/landing.ts'
import type { Claims } from './tokens.ts'

/** A stored object. Without `version`: its newest one. */
export interface WorkObject {
  key: string
  version?: string
}

export type WorkFiles = ReturnType<typeof makeWorkFiles>

export interface WorkFilesDeps {
  sql: Sql
  objects: ObjectStore
  codeVisibility: CodeVisibility
}

/** All functions return null for a key that the token does not reach. */
export function makeWorkFiles({ sql, objects, codeVisibility }: WorkFilesDeps) {
  async function isOver(work: Claims): Promise<boolean> {
    return work.kind === 'attempt' && (await findBranch(sql, work.branch))?.state !== 'open'
  }

  /** The landing files that the work reads, by their keys. */
  async function landing(work: Claims, path: string): Promise<Map<string, FrozenFile> | null> {
    const zone = zoneFolderOf(path)
    if (zone === null || (await isOver(work))) return null
    const { zones: visible } = await visibilityOf(codeVisibility, work)
    const files =
      work.kind === 'attempt'
        ? await frozenFiles(sql, work, zone, {
            visible,
            mayArchive: (found) => codeVisibility.mayArchive(work.runId, found),
          })
        : work.landing === zone.namespace
          ? await presentFiles({ sql, objects }, zone, visible)
          : null
    const folder = `${zone.namespace}/landing/${zone.name}/`
    return files && new Map(files.map((file) => [`${folder}${file.filename}`, file]))
  }

  return {
    /** The object to read. Lake files have random names, so a reader knows the names that the catalog told. */
    async object(work: Claims, key: string): Promise<WorkObject | null> {
      if (key.startsWith(LAKE_PREFIX)) return (await isOver(work)) ? null : { key }
      const file = (await landing(work, key))?.get(key)
      return file === undefined ? null : { key: file.path, version: file.versionId }
    },

    /** The objects of a landing zone whose keys begin with the prefix, in the order of their keys. Lake files are not listed. */
    async list(work: Claims, prefix: string): Promise<StoredObject[] | null> {
      const files = await landing(work, `${prefix}a`)
      if (files === null) return null
      const listed = await Promise.all(
        [...files].map(async ([key, { path, versionId }]) => {
          const found = key.startsWith(prefix) ? await objects.head(path, versionId) : null
          return found === null ? [] : [{ ...found, key }]
        }),
      )
      return listed.flat().sort((a, b) => (a.key < b.key ? -1 : 1))
    },

    /** The directory of the table that takes the file: a directory of the attempt's table, while its branch is open. */
    async directory(work: Claims, key: string): Promise<string | null> {
      const directory = key.split('/').slice(0, 4).join('/')
      if (work.kind !== 'attempt' || !isTableDirectory(work.target, directory) || (await isOver(work)))
        return null
      return `${directory}/`
    },
  }
}
