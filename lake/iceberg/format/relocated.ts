/**
 * Copies of metadata files, manifest lists and manifests for a lake with another root. Data files keep their keys, so only
 * locations change. Everything else stays as its writer stored it.
 */
import { createHash } from 'node:crypto'
import { type AvroRecord, type AvroSchema, BadAvro, mapAvro } from './avro.ts'
import { nested, text } from './avro-record.ts'
import { LAKE_PREFIX, rootIn } from './location.ts'
import { exactLongs, fieldById } from './manifest-schema.ts'
import { type TableMetadata, UnsupportedTable } from './metadata.ts'

/** The same key below `root`. A text that is no location of a lake stays as it is. */
export const relocated = (root: string, location: string): string =>
  location.includes(`/${LAKE_PREFIX}`) ? root + location.slice(rootIn(location).length) : location

const SUFFIX = /(-r[0-9a-f]{8})?(\.metadata\.json|\.avro)$/

/**
 * The location of a copy for `root`. It depends only on the arguments, so a conversion that starts again writes the same
 * files. The copy of a copy does not get a longer name.
 */
export function copyLocation(root: string, location: string): string {
  const tag = createHash('sha256').update(root).digest('hex').slice(0, 8)
  return relocated(root, location).replace(SUFFIX, `-r${tag}$2`)
}

/** A file that was copied. */
export interface Copy {
  location: string
  sizeBytes: number
}

/** `lists` maps manifest lists to their copies. A missing list keeps its key. The metadata log names old files, so it ends. */
export function relocatedMetadata(
  metadata: TableMetadata,
  root: string,
  lists: ReadonlyMap<string, string>,
): TableMetadata {
  const { properties, snapshots } = metadata
  return {
    ...metadata,
    ...statisticsOf(metadata, root),
    location: relocated(root, metadata.location),
    properties: Object.fromEntries(
      Object.entries(properties).map(([name, value]) => [
        name,
        LOCATION_PROPERTIES.has(name) ? relocated(root, value) : value,
      ]),
    ),
    snapshots: snapshots.map((snapshot) => {
      const list = snapshot['manifest-list']
      return { ...snapshot, 'manifest-list': lists.get(list) ?? relocated(root, list) }
    }),
    'metadata-log': [],
  }
}

/** Table properties of Iceberg that hold a location. */
export const LOCATION_PROPERTIES: ReadonlySet<string> = new Set([
  'write.data.path',
  'write.metadata.path',
  'write.object-storage.path',
  'write.folder-storage.path',
])

/** The statistics files that other engines may have written. */
function statisticsOf(metadata: TableMetadata, root: string): Record<string, unknown> {
  const moved: Record<string, unknown> = {}
  for (const name of ['statistics', 'partition-statistics']) {
    const list: unknown = Reflect.get(metadata, name)
    if (!Array.isArray(list)) continue
    moved[name] = list.map((entry: { 'statistics-path': string }) => ({
      ...entry,
      'statistics-path': relocated(root, entry['statistics-path']),
    }))
  }
  return moved
}

/** `manifests` maps manifests to their copies. A missing manifest keeps its key. @throws BadAvro */
export function relocatedList(
  bytes: Uint8Array,
  root: string,
  manifests: ReadonlyMap<string, Copy>,
): Uint8Array {
  return mapAvro(bytes, exactLongs, (schema) => {
    const [path, length] = [nameOf(schema, 500), nameOf(schema, 501)]
    return (record) => {
      const location = text(record, path)
      const copy = manifests.get(location)
      return copy === undefined
        ? { ...record, [path]: relocated(root, location) }
        : { ...record, [path]: copy.location, [length]: BigInt(copy.sizeBytes) }
    }
  })
}

const DELETED = 2
const POSITION_DELETES = 1

/**
 * @throws BadAvro
 * @throws UnsupportedTable for position delete files, whose rows name data files by location
 */
export function relocatedManifest(bytes: Uint8Array, root: string): Uint8Array {
  return mapAvro(bytes, exactLongs, (schema) => {
    const [status, file] = [nameOf(schema, 0), nameOf(schema, 2)]
    const fileSchema = fieldById(schema, 2)?.type ?? 'null'
    const path = nameOf(fileSchema, 100)
    const content = fieldById(fileSchema, 134)?.name
    const dataFile = fieldById(fileSchema, 143)?.name
    const offset = fieldById(fileSchema, 144)?.name
    return (record) => {
      const entry = nested(record, file)
      const location = text(entry, path)
      const moved = relocated(root, location)
      const isDelete = content !== undefined && entry[content] === POSITION_DELETES
      const isVector = offset !== undefined && entry[offset] !== null
      const referenced = dataFile === undefined ? null : entry[dataFile]
      if (isDelete && !isVector && record[status] !== DELETED && moved !== location)
        throw new UnsupportedTable(`position deletes name data files by their location: ${location}`)
      const reference =
        dataFile !== undefined && typeof referenced === 'string'
          ? { [dataFile]: relocated(root, referenced) }
          : {}
      return { ...record, [file]: { ...entry, [path]: moved, ...reference } satisfies AvroRecord }
    }
  })
}

function nameOf(schema: AvroSchema, id: number): string {
  const field = fieldById(schema, id)
  if (field === undefined) throw new BadAvro(`the Avro schema has no field with id ${id}`)
  return field.name
}
