import { LRUCache } from 'lru-cache'
import type { TableName } from '../../ground/names.ts'
import { readYaml, YAML_ALIASES } from '../../lake/pipeline/yaml.ts'
import type { ObjectStore } from '../objects/port.ts'

/** The content of the `.meta.yaml` next to a pipeline's files, which describes its table. */
export interface MetaFile {
  description: string | null
  owner: string | null
  columns: Record<string, string>
}

const NO_META: MetaFile = { description: null, owner: null, columns: {} }

/** Enough for more than a thousand columns. Parsing a longer file would block other requests. */
const BYTES_MAX = 65_536
/**
 * Limits of the cache of parsed files, by count and by bytes of their sources. A list reads the files of all its tables each
 * time.
 */
const CACHED_FILES_MAX = 10_000
const CACHED_BYTES_MAX = 16_777_216

/** Reads the newest version. A missing, oversized or invalid file counts as empty: a bad description never hides a table. */
export async function readMetaFile(
  objects: ObjectStore,
  { namespace, layer, name }: TableName,
): Promise<MetaFile> {
  const key = `${namespace}/pipelines/${layer}/${name}/.meta.yaml`
  const info = await objects.head(key)
  if (info === null || info.size > BYTES_MAX) return NO_META
  const cache = cacheOf(objects)
  const id = `${key} ${info.versionId}`
  const cached = cache.get(id)
  if (cached !== undefined) return cached
  const file = await objects.text(key, info.versionId, BYTES_MAX)
  if (file === null) return NO_META
  const meta = parseMetaFile(file.text)
  if (info.versionId !== '') cache.set(id, meta, { size: info.size + 1 })
  return meta
}

/** Parses a text of at most 64 KB; never throws. */
function parseMetaFile(text: string): MetaFile {
  const value = readText(text)
  if (!isMap(value)) return NO_META
  const columns = isMap(value.columns) ? value.columns : {}
  return {
    description: textOf(value.description),
    owner: textOf(value.owner),
    columns: Object.fromEntries(
      Object.entries(columns).flatMap(([column, entry]) => {
        const description = textOf(isMap(entry) ? entry.description : entry)
        return description === null ? [] : [[column, description]]
      }),
    ),
  }
}

function readText(text: string): unknown {
  const document = readYaml(text)
  if (document.errors.length > 0) return null
  try {
    return document.toJS({ maxAliasCount: YAML_ALIASES })
  } catch {
    // An alias has no anchor, or aliases expand too often.
    return null
  }
}

/** Caches of parsed files by object store. A version of an object never changes, so each version is parsed once. */
const caches = new WeakMap<ObjectStore, LRUCache<string, MetaFile>>()

function cacheOf(objects: ObjectStore) {
  const cache = caches.get(objects) ?? new LRUCache({ max: CACHED_FILES_MAX, maxSize: CACHED_BYTES_MAX })
  caches.set(objects, cache)
  return cache
}

const isMap = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const textOf = (value: unknown): string | null =>
  typeof value === 'string' && value.trim() !== '' ? value : null
