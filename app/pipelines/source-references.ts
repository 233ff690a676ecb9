import { LRUCache } from 'lru-cache'
import type { Queryable } from '../../drizzle/client.ts'
import type { Visible } from '../core/access.ts'
import { limits } from '../core/limits.ts'
import { prefixOf } from '../core/pipeline-ref.ts'
import { type ObjectStore, ObjectTooLarge } from '../objects/port.ts'
import { sourceFileOf } from './draft-files.ts'
import { type Named, readBy } from './references.ts'
import { type Source, sourcesOf } from './store/references.ts'

/**
 * Cache of parsed references: maximum number of entries, and their maximum size. `REFERENCES_SOURCE_BYTES` is the maximum
 * length of a source, as for templates (1 MiB).
 */
const SOURCE_REFERENCES_CACHED = 50_000
const SOURCE_REFERENCES_BYTES = 33_554_432
export const REFERENCES_SOURCE_BYTES = 1_048_576

// References in the sources of pipelines. An object version never changes, so each version is read and parsed once.

export interface SourceReferences {
  /**
   * Inputs by table, for the pipelines that write these tables (`ns.layer.name`). Inputs are the names in literal calls of the
   * source that runs execute; before the first publish, that is the draft's source. Tables without a pipeline, or whose
   * pipeline is not in `visible`, are left out.
   */
  of(tables: readonly string[], visible?: Visible['pipelines']): Promise<Map<string, Named>>
  /**
   * The names in literal calls of one source. Reads each version from the store once, with at most limits.sourceReadsAtOnce
   * concurrent reads per process. Rejects if the store does. A missing or oversized source has no references.
   */
  in(source: Source): Promise<Named> | Named
}

export function makeSourceReferences(deps: { db: Queryable; objects: ObjectStore }): SourceReferences {
  const { db, objects } = deps
  const cache = new LRUCache<string, Named>({
    max: SOURCE_REFERENCES_CACHED,
    maxSize: SOURCE_REFERENCES_BYTES,
    sizeCalculation: sizeOf,
  })
  const reading = new Map<string, Promise<Named>>()
  const withReadSlot = semaphore(limits.sourceReadsAtOnce)

  function referencesOf(source: Source): Promise<Named> | Named {
    if (source.version !== null && source.pinned === null) return NOTHING
    const id = idOf(source)
    const cached = cache.get(id)
    if (cached !== undefined) return cached
    const pendingRead = reading.get(id)
    if (pendingRead !== undefined) return pendingRead
    const read = withReadSlot(() => parsed(source))
      .then((references) => {
        cache.set(id, references)
        return references
      })
      .finally(() => reading.delete(id))
    reading.set(id, read)
    return read
  }

  async function parsed({ pinned, type, ...ref }: Source): Promise<Named> {
    const name = sourceFileOf(type)
    try {
      const object = await objects.text(prefixOf(ref) + name, pinned ?? undefined, REFERENCES_SOURCE_BYTES)
      // A permanently removed source has no references.
      return object === null ? NOTHING : readBy([{ name, text: object.text }], ref)
    } catch (error) {
      if (error instanceof ObjectTooLarge) return NOTHING
      throw error
    }
  }

  return {
    in: referencesOf,
    async of(tables, visible) {
      const rows = await sourcesOf(db, tables, visible)
      return new Map(
        await Promise.all(rows.map(async ({ table, ...row }) => [table, await referencesOf(row)] as const)),
      )
    },
  }
}

const NOTHING: Named = { tables: [], zones: [] }

/**
 * A draft is cached by its revision, so the store is not asked whether the draft has changed. A write whose process died before
 * it raised the revision was never acknowledged. Such a write stays unseen until the next write.
 */
const idOf = ({ pipelineId, type, version, pinned, draftRevision }: Source) =>
  version === null ? `${pipelineId}/${type}#${draftRevision}` : `${pipelineId}/${type}@${pinned}`

/** Estimated bytes in memory: at most two bytes per character, and the overhead of each text and entry. */
const sizeOf = ({ tables, zones }: Named, id: string) =>
  [id, ...tables, ...zones].reduce((sum, text) => sum + 2 * text.length + 64, 256)

/** A semaphore: runs at most `places` tasks at once, the others wait in order. */
function semaphore(slots: number) {
  const waiting: (() => void)[] = []
  let free = slots
  return async <T>(task: () => Promise<T>): Promise<T> => {
    if (free > 0) free -= 1
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      return await task()
    } finally {
      const next = waiting.shift()
      if (next === undefined) free += 1
      else next()
    }
  }
}
