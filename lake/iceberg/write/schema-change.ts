// The rule for a result with other columns than its table (`on_schema_change`). `add` is the rule of the strategies
// themselves (evolution.ts). `fail` refuses every difference, and `ignore` keeps the columns of the table.

import { tableKey } from '../../../ground/names.ts'
import { AuthorError } from '../../pipeline/author-error.ts'
import { type DuckType, renderDuckType } from '../format/duckdb-type.ts'
import { byName } from '../format/fields.ts'
import { currentSchema } from '../format/metadata.ts'
import { type Column, columnsOf, duckText, type NestedField, storedTypes, toDuckDb } from '../format/types.ts'
import { isHistoryColumn, type Result } from './foreign-result.ts'

/** The result has other columns than its table, which `on_schema_change` forbids. */
class SchemaChanged extends AuthorError {
  override readonly name = 'SchemaChanged'
}

/** The differences between a result and its table. */
interface SchemaDifference {
  readonly added: readonly Column[]
  readonly removed: readonly Column[]
  /** Columns with another type than in the table, which is `tableType`. */
  readonly changed: readonly (Column & { readonly tableType: string })[]
}

/** Null: the pipeline has no rule for differences, the table does not exist yet, or there are none. */
export function schemaDifference({ table, rules, columns }: Result): SchemaDifference | null {
  if (table === null || rules.onSchemaChange === 'add') return null
  const own = currentSchema(table).fields.filter((field) => !isHistoryColumn(field, rules))
  const fields = byName(own)
  const result = storedTypes(columns)
  const present = byName(result)
  const isGiven = ({ name }: { name: string }) => present.has(name.toLowerCase())
  const difference = {
    added: described(result.filter(({ name }) => !fields.has(name.toLowerCase()))),
    removed: columnsOf({ ...currentSchema(table), fields: own.filter((field) => !isGiven(field)) }),
    changed: result.flatMap(({ name, type }) => {
      const field = fields.get(name.toLowerCase())
      return field && !isSameType(type, field) ? changedColumn(name, type, field) : []
    }),
  }
  return isEmpty(difference) ? null : difference
}

/** The columns that are written, and the warning or refusal of `on_schema_change`. */
interface SettledColumns {
  readonly columns: readonly Column[]
  readonly warning: string | null
  readonly refusal: SchemaChanged | null
}

/** Applies `on_schema_change` to a difference. */
export function settleSchema(
  { name, rules, columns }: Result,
  difference: SchemaDifference | null,
): SettledColumns {
  if (difference === null || isEmpty(difference)) return { columns, warning: null, refusal: null }
  const table = tableKey(name)
  if (rules.onSchemaChange === 'fail') {
    const refusal = new SchemaChanged(
      `on_schema_change: fail: the result differs from table ${table}: ${fullText(difference)}: correct the pipeline or its files, or set on_schema_change to add or ignore`,
    )
    return { columns, warning: null, refusal }
  }
  const added = new Set(difference.added.map((column) => column.name))
  const kept = columns.filter((column) => !added.has(column.name))
  const text = `on_schema_change: ignore: table ${table} keeps its columns: ${ignoredText(difference)}`
  return kept.length > 0
    ? { columns: kept, warning: text, refusal: null }
    : { columns, warning: null, refusal: new SchemaChanged(`${text}: no column is left to write`) }
}

/** The names and types of all differences: `added "x" INTEGER; removed "y" VARCHAR; changed "a" from INTEGER to VARCHAR`. */
const fullText = ({ added, removed, changed }: SchemaDifference): string =>
  joined(
    listed('added', added, ({ name, type }) => `${quoted(name)} ${type}`),
    listed('removed', removed, ({ name, type }) => `${quoted(name)} ${type}`),
    listed('changed', changed, ({ name, type, tableType }) => `${quoted(name)} from ${tableType} to ${type}`),
  )

const ignoredText = ({ added, removed, changed }: SchemaDifference): string =>
  joined(
    listed('not stored:', added, ({ name }) => quoted(name)),
    listed('NULL in new rows:', removed, ({ name }) => quoted(name)),
    listed(
      'written as the type of the table:',
      changed,
      ({ name, type, tableType }) => `${quoted(name)} (${type} as ${tableType})`,
    ),
  )

const quoted = (name: string): string => JSON.stringify(name)

const joined = (...texts: string[]): string => texts.filter((text) => text !== '').join('; ')

function listed<Item>(word: string, items: readonly Item[], text: (item: Item) => string): string {
  return items.length === 0 ? '' : `${word} ${items.map(text).join(', ')}`
}

const isEmpty = ({ added, removed, changed }: SchemaDifference): boolean =>
  added.length + removed.length + changed.length === 0

const described = (fields: readonly { name: string; type: DuckType }[]): Column[] =>
  fields.map(({ name, type }) => ({ name, type: duckText(type) }))

const changedColumn = (name: string, type: DuckType, field: NestedField) => ({
  name,
  type: duckText(type),
  tableType: duckText(toDuckDb(field.type)),
})

/** The order and the case of fields in structs make no other type, because values are stored by the names of their fields. */
const isSameType = (type: DuckType, field: NestedField): boolean =>
  renderDuckType(sorted(type), quoted) === renderDuckType(sorted(toDuckDb(field.type)), quoted)

function sorted(type: DuckType): DuckType {
  switch (type.kind) {
    case 'list':
      return { kind: 'list', element: sorted(type.element) }
    case 'map':
      return { kind: 'map', key: sorted(type.key), value: sorted(type.value) }
    case 'struct': {
      const fields = type.fields.map((field) => ({
        name: field.name.toLowerCase(),
        type: sorted(field.type),
      }))
      return { kind: 'struct', fields: fields.sort((a, b) => (a.name < b.name ? -1 : 1)) }
    }
    default:
      return type
  }
}
