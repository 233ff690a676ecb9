// Files that an engine reaches through the S3 endpoint while it works with the token of an attempt or a preview. These are the
// files that the object gateway gives to the same token (gateway.ts), under names that engines understand.
import type { Sql } from '../../drizzle/client.ts'
import { LAKE_PREFIX } from '../../lake/iceberg/format/location.ts'
import type { CodeVisibility } from '../access/code-visibility.ts'
import type { Work, WorkFiles } from '../core/work.ts'
import type { Claims } from '../iceberg/claims.ts'
import type { ObjectStore, StoredObject } from '../objects/port.ts'
import { isTableDirectory } from '../versions/lake-keys.ts'
import { findBranch } from '../versions/store/branches.ts'
import { zoneFolderOf } from '../wire/paths.ts'
import { visibilityOf } from './access.ts'
import { type FrozenFile, frozenFiles, presentFiles } from './store/landing.ts'

interface WorkFilesDeps {
  sql: Sql
  objects: ObjectStore
  codeVisibility: CodeVisibility
}

export function makeWorkFiles({ sql, objects, codeVisibility }: WorkFilesDeps): WorkFiles<StoredObject> {
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
    // Lake files have random names, so a reader knows the names that the catalog told.
    async object(work, key) {
      const claims = claimsOf(work)
      if (key.startsWith(LAKE_PREFIX)) return (await isOver(claims)) ? null : { key }
      const file = (await landing(claims, key))?.get(key)
      return file === undefined ? null : { key: file.path, version: file.versionId }
    },

    async list(work, prefix) {
      const files = await landing(claimsOf(work), `${prefix}a`)
      if (files === null) return null
      const listed = await Promise.all(
        [...files].map(async ([key, { path, versionId }]) => {
          const found = key.startsWith(prefix) ? await objects.head(path, versionId) : null
          return found === null ? [] : [{ ...found, key }]
        }),
      )
      return listed.flat().sort((a, b) => (a.key < b.key ? -1 : 1))
    },

    async directory(work, key) {
      const claims = claimsOf(work)
      const directory = key.split('/').slice(0, 4).join('/')
      if (claims.kind !== 'attempt' || !isTableDirectory(claims.target, directory) || (await isOver(claims)))
        return null
      return `${directory}/`
    },
  }
}

/** Credentials are issued for claims only, and the signature proves that they are unchanged. */
const claimsOf = (work: Work) => work as Claims
