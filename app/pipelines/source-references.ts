import { sql } from 'drizzle-orm'
import { LRUCache } from 'lru-cache'
import type { Queryable } from '../../drizzle/client.ts'
import { isSeenId } from '../../drizzle/visibility.ts'
import type { Visible } from '../core/access.ts'
import { limits } from '../core/limits.ts'
import { type PipelineRef, prefixOf } from '../core/pipeline-ref.ts'
import { type ObjectStore, ObjectTooLarge } from '../objects/port.ts'
import { sourceFileOf } from './draft-files.ts'
import { type Named, readBy } from './references.ts'

// What pipelines read, by their sources. A version of an object never changes, so it is read and parsed once.

/** The source that runs of a pipeline execute. */
export interface Source extends PipelineRef {
  pipelineId: string
  type: string
  /** The published version; null: never published, so the draft's source. */
  version: number | null
  /** The object version of the source in that version; null: it has none, or there is no version. */
  pinned: string | null
  /** Of the draft: every write of its files raises it, after the write. */
  draftRevision: string
}

export interface SourceReferences {
  /**
   * What the pipelines that make these tables (`ns.layer.name`) read by literal calls, by table: in the source that runs
   * execute, which is the draft's while nothing is published. Tables that no pipeline makes, or none of `seen`, are left out.
   */
  of(tables: readonly string[], seen?: Visible['pipelines']): Promise<Map<string, Named>>
  /**
   * What one source reads by literal calls. From the store once for each version, at most limits.sourceReadsAtOnce at the
   * same time in this process. Rejects when the store does; a source that is not there, or is too long, reads nothing.
   */
  in(source: Source): Promise<Named> | Named
}

export function makeSourceReferences(deps: { db: Queryable; objects: ObjectStore }): SourceReferences {
  const { db, objects } = deps
  const known = new LRUCache<string, Named>({
    max: limits.sourceReferencesKept,
    maxSize: limits.sourceReferencesBytes,
    sizeCalculation: sizeOf,
  })
  const reading = new Map<string, Promise<Named>>()
  const inTurn = turnstile(limits.sourceReadsAtOnce)

  function named(source: Source): Promise<Named> | Named {
    if (source.version !== null && source.pinned === null) return NOTHING
    const id = idOf(source)
    const found = known.get(id)
    if (found !== undefined) return found
    const open = reading.get(id)
    if (open !== undefined) return open
    const read = inTurn(() => parsed(source))
      .then((named) => {
        known.set(id, named)
        return named
      })
      .finally(() => reading.delete(id))
    reading.set(id, read)
    return read
  }

  async function parsed({ pinned, type, ...ref }: Source): Promise<Named> {
    const name = sourceFileOf(type)
    try {
      const object = await objects.text(
        prefixOf(ref) + name,
        pinned ?? undefined,
        limits.referencesSourceBytes,
      )
      // What has been removed for good reads nothing any more.
      return object === null ? NOTHING : readBy([{ name, text: object.text }], ref)
    } catch (error) {
      if (error instanceof ObjectTooLarge) return NOTHING
      throw error
    }
  }

  return {
    in: named,
    async of(tables, seen) {
      const rows = await sourcesOf(db, tables, seen)
      return new Map(
        await Promise.all(rows.map(async ({ table, ...row }) => [table, await named(row)] as const)),
      )
    },
  }
}

const NOTHING: Named = { tables: [], zones: [] }

/**
 * A draft is known by its revision, so that nobody asks the store whether it has changed. Only a write that was never
 * acknowledged, because its process ended before the revision was raised, can stay unseen, until the next one.
 */
const idOf = ({ pipelineId, type, version, pinned, draftRevision }: Source) =>
  version === null ? `${pipelineId}/${type}#${draftRevision}` : `${pipelineId}/${type}@${pinned}`

/** At worst two bytes a character in memory, and what keeping a text and an entry takes. */
const sizeOf = ({ tables, zones }: Named, id: string) =>
  [id, ...tables, ...zones].reduce((sum, text) => sum + 2 * text.length + 64, 256)

/** Work for which there is no place waits for its turn. */
function turnstile(places: number) {
  const waiting: (() => void)[] = []
  let free = places
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (free > 0) free -= 1
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) free += 1
      else next()
    }
  }
}

const sourcesOf = async (db: Queryable, tables: readonly string[], seen?: Visible['pipelines']) =>
  db.execute<Source & { table: string } & Record<string, unknown>>(sql`
    select path as table, p.id as "pipelineId", p.namespace, p.layer, p.name,
      coalesce(v.pipeline_type, p.type) as type, v.version_number as version,
      p.draft_revision as "draftRevision",
      v.published_versions ->> (p.namespace || '/pipelines/' || p.layer || '/' || p.name
        || case coalesce(v.pipeline_type, p.type) when 'python' then '/pipeline.py' else '/pipeline.sql' end) as pinned
    from unnest(${sql.param([...tables])}::text[]) as wanted(path)
    join pipeline p on p.deleted_at is null and p.namespace = split_part(path, '.', 1)
      and p.layer = split_part(path, '.', 2) and p.name = split_part(path, '.', 3)
    left join pipeline_version v on v.pipeline_id = p.id and v.version_number = p.published_version
    where ${isSeenId(sql`p.id`, seen) ?? sql`true`}`)
