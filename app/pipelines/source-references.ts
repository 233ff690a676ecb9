import { sql } from 'drizzle-orm'
import type { Queryable } from '../../drizzle/client.ts'
import { limits } from '../limits.ts'
import type { ObjectStore } from '../objects/port.ts'
import { sourceFileOf } from './draft-files.ts'
import { type PipelineRef, prefixOf } from './ref.ts'
import { type Named, namedBy } from './references.ts'

// What pipelines read, by their sources. A version of an object never changes, so it is read and parsed once.

export interface SourceReferences {
  /**
   * What the pipelines that make these tables (`ns.layer.name`) name by literal calls, by table: in the source that runs
   * execute, which is the draft's while nothing is published. Tables that no pipeline makes are left out.
   */
  of(tables: readonly string[]): Promise<Map<string, Named>>
}

interface SourceRow extends Record<string, unknown> {
  table: string
  namespace: string
  layer: string
  name: string
  type: string
  /** JSON text of the published version's pins; null: never published. */
  pinned: string | null
}

export function makeSourceReferences(deps: { db: Queryable; objects: ObjectStore }): SourceReferences {
  const { db, objects } = deps
  /** By key and version; the one used last is at the end. */
  const known = new Map<string, Named>()

  async function read({ pinned, type, ...ref }: SourceRow): Promise<Named> {
    const name = sourceFileOf(type)
    const key = prefixOf(ref satisfies PipelineRef) + name
    const versionId = pinned ?? (await objects.head(key))?.versionId
    if (versionId === undefined) return NOTHING
    const id = `${key}@${versionId}`
    const named = known.get(id) ?? (await parsed(key, versionId, { name, ref }))
    known.delete(id)
    known.set(id, named)
    const [oldest] = known.keys()
    if (known.size > limits.sourceReferencesKept && oldest !== undefined) known.delete(oldest)
    return named
  }

  async function parsed(key: string, versionId: string, { name, ref }: { name: string; ref: PipelineRef }) {
    // What has been removed for good reads nothing any more.
    const object = await objects.text(key, versionId)
    return object === null ? NOTHING : namedBy([{ name, text: object.text }], ref)
  }

  return {
    async of(tables) {
      const rows = await sourcesOf(db, tables)
      const found = new Map<string, Named>()
      for (let at = 0; at < rows.length; at += READS_AT_ONCE)
        await Promise.all(
          rows.slice(at, at + READS_AT_ONCE).map(async (row) => found.set(row.table, await read(row))),
        )
      return found
    },
  }
}

const NOTHING: Named = { tables: [], zones: [] }
const READS_AT_ONCE = 20

const sourcesOf = async (db: Queryable, tables: readonly string[]): Promise<SourceRow[]> =>
  db.execute<SourceRow>(sql`
    select path as table, p.namespace, p.layer, p.name, p.type,
      v.published_versions ->> (p.namespace || '/pipelines/' || p.layer || '/' || p.name
        || case p.type when 'python' then '/pipeline.py' else '/pipeline.sql' end) as pinned
    from unnest(${sql.param([...tables])}::text[]) as wanted(path)
    join pipeline p on p.deleted_at is null and p.namespace = split_part(path, '.', 1)
      and p.layer = split_part(path, '.', 2) and p.name = split_part(path, '.', 3)
    left join pipeline_version v on v.pipeline_id = p.id and v.version_number = p.published_version`)
