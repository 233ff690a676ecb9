/**
 * Copies of metadata files, manifest lists and manifests for a lake with another root. Data files keep their keys, so only
 * locations change. Position delete files name data files in their rows, so a copy of each takes its place. Everything else
 * stays as its writer stored it.
 */
import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import { type AvroRecord, mapAvro, readAvro } from './avro.ts'
import { nested, text } from './avro-record.ts'
import { type AvroSchema, BadAvro } from './avro-schema.ts'
import { encodeBound } from './bounds.ts'
import { FILE_PATH_ID } from './layout.ts'
import { LAKE_PREFIX, rootIn } from './location.ts'
import { exactLongs, fieldById } from './manifest-schema.ts'
import { type TableMetadata, UnsupportedTable } from './metadata.ts'

/** The same key below `root`. A text that is no location of a lake stays as it is. */
export const relocated = (root: string, location: string): string =>
  location.includes(`/${LAKE_PREFIX}`) ? root + location.slice(rootIn(location).length) : location

const SUFFIX = /(-r[0-9a-f]{8})?(\.metadata\.json|\.avro|\.parquet)?$/

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

/** A copy of a position delete file, with the first and the last location in its rows. */
export interface DeletesCopy extends Copy {
  first: string
  last: string
}

/** The names in a manifest of any writer. */
interface EntryNames {
  status: string
  file: string
  path: string
  fileSchema: AvroSchema
  content: string | undefined
  format: string | undefined
  offset: string | undefined
}

function entryNames(schema: AvroSchema): EntryNames {
  const fileSchema = fieldById(schema, 2)?.type ?? 'null'
  return {
    status: nameOf(schema, 0),
    file: nameOf(schema, 2),
    path: nameOf(fileSchema, 100),
    fileSchema,
    content: fieldById(fileSchema, 134)?.name,
    format: fieldById(fileSchema, 101)?.name,
    offset: fieldById(fileSchema, 144)?.name,
  }
}

/**
 * The live position delete files of a manifest that have another root. Deletion vectors name their data file in the manifest.
 * @throws BadAvro
 * @throws UnsupportedTable for a format that cannot be rewritten
 */
export function positionDeletesIn(bytes: Uint8Array, root: string): string[] {
  const { schema, records } = readAvro(bytes, exactLongs)
  const names = entryNames(JSON.parse(schema))
  const { status, file, path, content, format, offset } = names
  return records.flatMap((record) => {
    const entry = nested(record, file)
    const location = text(entry, path)
    const isVector = offset !== undefined && (entry[offset] ?? null) !== null
    if (content === undefined || entry[content] !== POSITION_DELETES || isVector) return []
    if (record[status] === DELETED || relocated(root, location) === location) return []
    if (format === undefined || text(entry, format).toUpperCase() !== 'PARQUET')
      throw new UnsupportedTable(`position deletes name data files by their location: ${location}`)
    return [location]
  })
}

/** `deletes` maps position delete files to their copies. A missing file keeps its key. @throws BadAvro */
export function relocatedManifest(
  bytes: Uint8Array,
  root: string,
  deletes: ReadonlyMap<string, DeletesCopy>,
): Uint8Array {
  return mapAvro(bytes, exactLongs, (schema) => {
    const { status, file, path, fileSchema } = entryNames(schema)
    const dataFile = fieldById(fileSchema, 143)?.name
    const factsOf = rewrittenFacts(fileSchema)
    return (record) => {
      const entry = nested(record, file)
      const location = text(entry, path)
      const referenced = dataFile === undefined ? null : entry[dataFile]
      const reference =
        dataFile !== undefined && typeof referenced === 'string'
          ? { [dataFile]: relocated(root, referenced) }
          : {}
      const copy = record[status] === DELETED ? undefined : deletes.get(location)
      const moved = copy === undefined ? { [path]: relocated(root, location) } : factsOf(copy)
      return { ...record, [file]: { ...entry, ...moved, ...reference } satisfies AvroRecord }
    }
  })
}

/** Metrics that describe the bytes of a rewritten file, by field id: sizes, counts, and offsets. All are optional. */
const METRICS = [108, 109, 110, 137, 132]

/** The values of a rewritten position delete file. Readers skip delete files by the bounds of their locations. */
function rewrittenFacts(fileSchema: AvroSchema): (copy: DeletesCopy) => AvroRecord {
  const [path, size] = [fieldById(fileSchema, 100)?.name, fieldById(fileSchema, 104)?.name]
  const unknown = METRICS.flatMap((id) => {
    const field = fieldById(fileSchema, id)
    return field !== undefined && isOptional(field.type) ? [[field.name, null]] : []
  })
  const bounds = (id: number, keyId: number, location: string) => {
    const field = fieldById(fileSchema, id)
    const pair = field && itemsOf(field.type)
    if (field === undefined || pair === undefined) return {}
    const value = Buffer.from(encodeBound('string', location))
    return { [field.name]: [{ [nameOf(pair, keyId)]: FILE_PATH_ID, [nameOf(pair, keyId + 1)]: value }] }
  }
  return ({ location, sizeBytes, first, last }) => ({
    ...Object.fromEntries(unknown),
    ...bounds(125, 126, first),
    ...bounds(128, 129, last),
    ...(path !== undefined && { [path]: location }),
    ...(size !== undefined && { [size]: BigInt(sizeBytes) }),
  })
}

const isOptional = (type: AvroSchema): boolean => Array.isArray(type) && type.includes('null')

function itemsOf(type: AvroSchema): AvroSchema | undefined {
  const branches: readonly AvroSchema[] = Array.isArray(type) ? type : [type]
  for (const branch of branches)
    if (typeof branch === 'object' && 'items' in branch) return branch.items as AvroSchema
  return undefined
}

function nameOf(schema: AvroSchema, id: number): string {
  const field = fieldById(schema, id)
  if (field === undefined) throw new BadAvro(`the Avro schema has no field with id ${id}`)
  return field.name
}
