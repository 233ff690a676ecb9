import { LAKE_PREFIX } from '../../lake/iceberg/format/location.ts'
import type { TableName } from '../../lake/pipeline/names.ts'

// A table's files are in `_lake/<namespace>/<layer>/<name>-<8 digits>/{data,metadata}/`. Names may contain hyphens: the
// digits and what follows them tell `a-b-12345678`, the directory of a table `a-b`, from one of `a`.
const DIRECTORY = /^[0-9a-f]{8}$/
const FILE = /^[0-9a-f]{8}\/(data|metadata)\/[\w.=-]+$/

export const isTableDirectory = (table: TableName, key: string) => DIRECTORY.test(afterName(table, key))
export const isTableFile = (table: TableName, key: string) => FILE.test(afterName(table, key))

/** What follows the name of the table; empty for a key of another one. */
function afterName({ namespace, layer, name }: TableName, key: string): string {
  const start = `${LAKE_PREFIX}${namespace}/${layer}/${name}-`
  return key.startsWith(start) ? key.slice(start.length) : ''
}
