import { LRUCache } from 'lru-cache'
import { keyOf, metadataLocation } from '../../lake/iceberg/format/location.ts'
import type { NewId } from '../core/ids.ts'
import type { ObjectStore } from '../objects/port.ts'

/** Lake locations start with this wherever the objects are, so that tables survive moving the store. */
export const LAKE_ROOT = 'sluice://lake/'
/** Metadata that is kept in memory. A table's is 2 KB and grows by about 1 KB with each snapshot. */
const CACHE_BYTES_MAX = 64 * 1_048_576

export type MetadataFiles = ReturnType<typeof makeMetadataFiles>

/** Metadata files are written once under names of their own, so what has been read stays true. */
export function makeMetadataFiles({ objects, newId }: { objects: ObjectStore; newId: NewId }) {
  // A character takes at most two bytes in memory.
  const cache = new LRUCache<string, string>({
    maxSize: CACHE_BYTES_MAX,
    sizeCalculation: (text, location) => 2 * (text.length + location.length),
  })
  return {
    /** The text of a metadata file. A file that is not there is a broken invariant. */
    async read(location: string): Promise<string> {
      const cached = cache.get(location)
      if (cached !== undefined) return cached
      const file = await objects.text(keyOf(LAKE_ROOT, location))
      if (file === null) throw new Error(`the metadata file ${location} is missing`)
      cache.set(location, file.text)
      return file.text
    },

    /** Writes a new metadata file of a table and answers its location. `replaced`: the one it follows. */
    async write(tableLocation: string, replaced: string | undefined, text: string): Promise<string> {
      const location = metadataLocation(tableLocation, versionAfter(replaced), newId())
      await objects.put(keyOf(LAKE_ROOT, location), new TextEncoder().encode(text))
      cache.set(location, text)
      return location
    },
  }
}

/** File names count the commits: `00007-<unique>.metadata.json`. */
export function versionAfter(location: string | undefined): number {
  const number = location && /\/(\d+)-[^/]+$/.exec(location)?.[1]
  return number ? Number(number) + 1 : 0
}
