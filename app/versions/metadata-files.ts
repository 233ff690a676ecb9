import { LRUCache } from 'lru-cache'
import { keyIn, metadataLocation } from '../../lake/iceberg/format/location.ts'
import { parseMetadata, serializeMetadata, type TableMetadata } from '../../lake/iceberg/format/metadata.ts'
import { BadUpdate } from '../../lake/iceberg/format/wire.ts'
import type { NewId } from '../core/ids.ts'
import type { ObjectStore } from '../objects/port.ts'

/** Limit of the metadata cache. Metadata of a table is about 2 KB and grows by about 1 KB per snapshot. */
const CACHE_BYTES_MAX = 64 * 1_048_576
/** Metadata is parsed at once, and by every reader. A table of 10,000 columns with ten schemas has some 10 MB. */
const METADATA_CHARACTERS_MAX = 16 * 1_048_576

/** A character takes at most two bytes in memory, and about four more when it is parsed. */
const BYTES_PER_CHARACTER = 6

/** A file that a state names is not in the object store. */
export class MissingLakeFile extends Error {}

/** The content of a metadata file, which never changes. */
export class MetadataFile {
  readonly text: string
  #table: TableMetadata | undefined

  constructor(text: string, table?: TableMetadata) {
    this.text = text
    this.#table = table
  }

  static of(table: TableMetadata): MetadataFile {
    return new MetadataFile(serializeMetadata(table), table)
  }

  /** The metadata of a table, parsed once. Throws like `parseMetadata`. */
  get table(): TableMetadata {
    this.#table ??= parseMetadata(this.text)
    return this.#table
  }
}

export type MetadataFiles = ReturnType<typeof makeMetadataFiles>

/** A cached metadata file never becomes stale, because each file is written once under a unique name. */
export function makeMetadataFiles({ objects, newId }: { objects: ObjectStore; newId: NewId }) {
  const cache = new LRUCache<string, MetadataFile>({
    maxSize: CACHE_BYTES_MAX,
    sizeCalculation: ({ text }, location) => BYTES_PER_CHARACTER * (text.length + location.length),
  })
  return {
    /** Returns a metadata file. A missing file is a broken invariant and throws. */
    async read(location: string): Promise<MetadataFile> {
      const cached = cache.get(location)
      if (cached !== undefined) return cached
      const stored = await objects.text(keyIn(location))
      if (stored === null) throw new MissingLakeFile(`the metadata file ${location} is missing`)
      const file = new MetadataFile(stored.text)
      cache.set(location, file)
      return file
    },

    /**
     * Writes a new metadata file of a table and returns its location. `replaced` is the location of the previous metadata file.
     * Throws BadUpdate for a file that is too large.
     */
    async write(tableLocation: string, replaced: string | undefined, file: MetadataFile): Promise<string> {
      const { text } = file
      if (text.length > METADATA_CHARACTERS_MAX)
        throw new BadUpdate(
          `metadata: ${tableLocation} would have ${text.length} characters of metadata, more than ${METADATA_CHARACTERS_MAX}: remove snapshots, schemas or properties`,
        )
      const location = metadataLocation(tableLocation, versionAfter(replaced), newId())
      await objects.put(keyIn(location), new TextEncoder().encode(text))
      cache.set(location, file)
      return location
    },
  }
}

/** The version in the next file name, which counts commits: `00007-<unique>.metadata.json`. */
export function versionAfter(location: string | undefined): number {
  const number = location && /\/(\d+)-[^/]+$/.exec(location)?.[1]
  return number ? Number(number) + 1 : 0
}
