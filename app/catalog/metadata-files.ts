import { LRUCache } from 'lru-cache'
import { keyIn, metadataLocation } from '../../lake/iceberg/format/location.ts'
import { BadUpdate } from '../../lake/iceberg/format/wire.ts'
import type { NewId } from '../core/ids.ts'
import type { ObjectStore } from '../objects/port.ts'

/** Limit of the metadata cache. Metadata of a table is about 2 KB and grows by about 1 KB per snapshot. */
const CACHE_BYTES_MAX = 64 * 1_048_576
/** Metadata is parsed at once, and by every reader. A table of 10,000 columns with ten schemas has some 10 MB. */
const METADATA_CHARACTERS_MAX = 16 * 1_048_576

/** A file that a state names is not in the object store. */
export class MissingLakeFile extends Error {}

export type MetadataFiles = ReturnType<typeof makeMetadataFiles>

/** A cached metadata file never becomes stale, because each file is written once under a unique name. */
export function makeMetadataFiles({ objects, newId }: { objects: ObjectStore; newId: NewId }) {
  // A character takes at most two bytes in memory.
  const cache = new LRUCache<string, string>({
    maxSize: CACHE_BYTES_MAX,
    sizeCalculation: (text, location) => 2 * (text.length + location.length),
  })
  return {
    /** Returns the text of a metadata file. A missing file is a broken invariant and throws. */
    async read(location: string): Promise<string> {
      const cached = cache.get(location)
      if (cached !== undefined) return cached
      const file = await objects.text(keyIn(location))
      if (file === null) throw new MissingLakeFile(`the metadata file ${location} is missing`)
      cache.set(location, file.text)
      return file.text
    },

    /**
     * Writes a new metadata file of a table and returns its location. `replaced` is the location of the previous metadata file.
     * Throws BadUpdate for a file that is too large.
     */
    async write(tableLocation: string, replaced: string | undefined, text: string): Promise<string> {
      if (text.length > METADATA_CHARACTERS_MAX)
        throw new BadUpdate(
          `metadata: ${tableLocation} would have ${text.length} characters of metadata, more than ${METADATA_CHARACTERS_MAX}: remove snapshots, schemas or properties`,
        )
      const location = metadataLocation(tableLocation, versionAfter(replaced), newId())
      await objects.put(keyIn(location), new TextEncoder().encode(text))
      cache.set(location, text)
      return location
    },
  }
}

/** The version in the next file name, which counts commits: `00007-<unique>.metadata.json`. */
export function versionAfter(location: string | undefined): number {
  const number = location && /\/(\d+)-[^/]+$/.exec(location)?.[1]
  return number ? Number(number) + 1 : 0
}
