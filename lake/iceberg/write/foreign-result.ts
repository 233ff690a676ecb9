// A file that is read with a wrong separator, quote or header looks like another table. Its columns would be added to the table,
// and the columns of the table would stay empty.

import { type TableName, tableKey } from '../../../ground/names.ts'
import { AuthorError } from '../../pipeline/author-error.ts'
import { byName } from '../format/fields.ts'
import { currentSchema, type TableMetadata } from '../format/metadata.ts'
import type { Column } from '../format/types.ts'
import type { WriteRules } from './result-write.ts'

/** No column of the result is a column of its table. */
class ForeignResult extends AuthorError {
  override readonly name = 'ForeignResult'
}

export interface Result {
  name: TableName
  /** Null: the table does not exist yet. */
  table: TableMetadata | null
  rules: Pick<WriteRules, 'mergeStrategy' | 'onSchemaChange' | 'scdValidFrom' | 'scdValidTo'>
  columns: readonly Column[]
  /** Names of the landing files that the result may come from. */
  files: readonly string[]
}

const FILES_NAMED = 3

/**
 * Why a result with rows belongs to another table. Null: it has a column of its table. A full refresh replaces the columns, so
 * its columns matter only if they come from landing files.
 */
export function foreignResult({ name, table, rules, columns, files }: Result): ForeignResult | null {
  if (table === null || (rules.mergeStrategy === 'full_refresh' && files.length === 0)) return null
  const own = currentSchema(table).fields.filter((field) => !isHistoryColumn(field, rules))
  const result = byName(columns)
  if (own.length === 0 || own.some((field) => result.has(field.name.toLowerCase()))) return null
  const more = files.length > FILES_NAMED ? ` and ${files.length - FILES_NAMED} more` : ''
  const from = files.length === 0 ? '' : ` from ${files.slice(0, FILES_NAMED).join(', ')}${more}`
  return new ForeignResult(
    `no column of table ${tableKey(name)} got a value: the table has ${listed(own)}, the result${from} has ${listed(columns)}: correct the file or how it is read (header, quote, delim); to replace all columns, delete the table first`,
  )
}

/** Whether `scd2` writes the column itself. */
export function isHistoryColumn(
  { name }: { name: string },
  { mergeStrategy, scdValidFrom, scdValidTo }: Result['rules'],
): boolean {
  const own = [scdValidFrom, scdValidTo].map((column) => column.toLowerCase())
  return mergeStrategy === 'scd2' && own.includes(name.toLowerCase())
}

const listed = (columns: readonly { name: string }[]) =>
  columns.map(({ name }) => JSON.stringify(name)).join(', ')
