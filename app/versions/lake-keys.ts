import { layerOf, type TableName } from '../../ground/names.ts'
import { LAKE_PREFIX } from '../../lake/iceberg/format/location.ts'

// Files that an attempt writes are in `_lake/<namespace>/<layer>/<name>-<8 digits>/{data,metadata}/`. The catalog writes
// `commits/` beside them. Names may contain hyphens. So the digits and the next separator distinguish `a-b-12345678`, a directory
// of table `a-b`, from a directory of `a`.
const DIRECTORY = /^[0-9a-f]{8}$/
const FILE = /^[0-9a-f]{8}\/(data|metadata)\/[\w.=-]+$/

export const isTableDirectory = (table: TableName, key: string) => DIRECTORY.test(afterName(table, key))
export const isTableFile = (table: TableName, key: string) => FILE.test(afterName(table, key))

/** The rest of the key after the table's name and hyphen; empty for a key of another table. */
function afterName({ namespace, layer, name }: TableName, key: string): string {
  const start = `${LAKE_PREFIX}${namespace}/${layer}/${name}-`
  return key.startsWith(start) ? key.slice(start.length) : ''
}

const METADATA_FILE = /^_lake\/([^/]+)\/([^/]+)\/([^/]+)-[0-9a-f]{8}\/commits\/[\w.-]+\.metadata\.json$/

/** The table in whose directory the catalog wrote a metadata file; null for another key. */
export function tableOfMetadataFile(key: string): TableName | null {
  const [, namespace, layerName, name] = METADATA_FILE.exec(key) ?? []
  const layer = layerOf(layerName)
  return namespace === undefined || name === undefined || layer === undefined
    ? null
    : { namespace, layer, name }
}
