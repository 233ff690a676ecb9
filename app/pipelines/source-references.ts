import { LRUCache } from 'lru-cache'
import type { Queryable } from '../../drizzle/client.ts'
import type { Visible } from '../core/access.ts'
import { limits } from '../core/limits.ts'
import { prefixOf } from '../core/pipeline-ref.ts'
import { type ObjectStore, ObjectTooLarge } from '../objects/port.ts'
import { sourceFileOf } from './draft-files.ts'
import { type Named, readBy } from './references.ts'
import { type Source, sourcesOf } from './store/references.ts'

/** What sources read: how many and how much of it is remembered; how long a source may be, as a template (1 MiB). */
const SOURCE_REFERENCES_KEPT = 50_000
const SOURCE_REFERENCES_BYTES = 33_554_432
export const REFERENCES_SOURCE_BYTES = 1_048_576

export type { Source } from './store/references.ts'

// What pipelines read, by their sources. A version of an object never changes, so it is read and parsed once.

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
    max: SOURCE_REFERENCES_KEPT,
    maxSize: SOURCE_REFERENCES_BYTES,
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
      const object = await objects.text(prefixOf(ref) + name, pinned ?? undefined, REFERENCES_SOURCE_BYTES)
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
