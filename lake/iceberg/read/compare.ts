// Compares the columns and the rows of two states of a table. Columns are matched by field id. A column that one state lacks is
// NULL there. Rows are compared as multisets: a changed row is a removed and an added row.
import { quoteIdentifier, quoteLiteral } from '../../quote.ts'
import {
  decimalOf,
  duckText,
  type IcebergType,
  type NestedField,
  type Schema,
  toDuckDb,
} from '../format/types.ts'
import { sqlType } from '../sql.ts'
import { sameFields } from '../write/evolution.ts'
import type { ReadableFile } from './table-sql.ts'

/** A column of at least one state. */
export interface ComparedColumn {
  /** The name in the answer, unique without regard to case: the newer name, or that of the removed column. */
  readonly name: string
  /** Both states are read with this type. */
  readonly type: IcebergType
  readonly before: NestedField | null
  readonly after: NestedField | null
}

/** The columns of both states: first those of `after` in their order, then the removed ones. Null: the state does not exist. */
export function comparedColumns(before: Schema | null, after: Schema | null): ComparedColumn[] {
  const old = [...(before?.fields ?? [])]
  const take = (isMatch: (field: NestedField) => boolean): NestedField | null => {
    const index = old.findIndex(isMatch)
    return index === -1 ? null : (old.splice(index, 1)[0] ?? null)
  }
  const now = after?.fields ?? []
  const byId = now.map((field) => take(({ id }) => id === field.id))
  // A column that was dropped and added again has a new id.
  const matched = now.map((field, i) => byId[i] ?? take((other) => isSameColumn(other, field)))
  const names = new Set<string>()
  const unique = (name: string): string => {
    let found = name
    for (let n = 1; names.has(found.toLowerCase()); n += 1) found = `${name}_${n}`
    names.add(found.toLowerCase())
    return found
  }
  return [
    ...now.map((field, i): ComparedColumn => {
      const other = matched[i] ?? null
      return {
        name: unique(field.name),
        type: other === null ? field.type : widerOf(other.type, field.type),
        before: other,
        after: field,
      }
    }),
    ...old.map(
      (field): ComparedColumn => ({ name: unique(field.name), type: field.type, before: field, after: null }),
    ),
  ]
}

const isSameColumn = (a: NestedField, b: NestedField) =>
  a.name.toLowerCase() === b.name.toLowerCase() && duckText(toDuckDb(a.type)) === duckText(toDuckDb(b.type))

/** The type that holds the values of both. Nested types are read as the newer one. */
function widerOf(before: IcebergType, after: IcebergType): IcebergType {
  const [old, now] = [decimalOf(String(before)), decimalOf(String(after))]
  if (old && now) return old.precision > now.precision ? before : after
  return (before === 'long' && after === 'int') || (before === 'double' && after === 'float') ? before : after
}

/** Whether rows of files that both states have are equal in both: no column was removed, and types were at most widened. */
export const keepsRows = (columns: readonly ComparedColumn[]): boolean =>
  columns.every(({ before, after }) => after !== null && (before === null || before.id === after.id))

export interface SchemaChange {
  added: { name: string; type: string }[]
  removed: { name: string; type: string }[]
  /** `from` and `to` are types; `renamed_from` is null when only the type has changed. */
  changed: { name: string; from: string; to: string; renamed_from: string | null }[]
}

/** The difference of two schemas by field id. A renamed column and a column with another type are changed. */
export function schemaChange(before: Schema | null, after: Schema | null): SchemaChange {
  const named = ({ name, type }: NestedField) => ({ name, type: duckText(toDuckDb(type)) })
  const old = new Map((before?.fields ?? []).map((field) => [field.id, field]))
  const now = new Map((after?.fields ?? []).map((field) => [field.id, field]))
  return {
    added: [...now.values()].filter(({ id }) => !old.has(id)).map(named),
    removed: [...old.values()].filter(({ id }) => !now.has(id)).map(named),
    changed: [...now.values()].flatMap((field) => {
      const earlier = old.get(field.id)
      if (earlier === undefined) return []
      const isRenamed = earlier.name !== field.name
      if (!isRenamed && sameFields([{ ...earlier, required: false }], [{ ...field, required: false }]))
        return []
      const [from, to] = [named(earlier).type, named(field).type]
      return [{ name: field.name, from, to, renamed_from: isRenamed ? earlier.name : null }]
    }),
  }
}

/** The fields with which the files of a state are read. */
export const fieldsOfState = (columns: readonly ComparedColumn[], state: 'before' | 'after'): Schema => ({
  type: 'struct',
  'schema-id': 0,
  fields: columns.flatMap(({ type, [state]: field }) => (field === null ? [] : [{ ...field, type }])),
})

/** The files of each state that may hold differing rows. */
export function differingFiles<File extends ReadableFile>(
  before: readonly File[],
  after: readonly File[],
  columns: readonly ComparedColumn[],
): [before: readonly File[], after: readonly File[]] {
  if (!keepsRows(columns)) return [before, after]
  const only = (own: readonly File[], other: readonly File[]) => {
    const others = new Set(other.map(contentOf))
    return own.filter((file) => !others.has(contentOf(file)))
  }
  return [only(before, after), only(after, before)]
}

/** Identifies the rows of a data file without its deleted rows. */
const contentOf = ({ location, deletes }: ReadableFile): string =>
  JSON.stringify([location, ...(deletes?.files ?? []).map(({ id }) => id)])

export interface Comparison {
  readonly columns: readonly ComparedColumn[]
  /** Table expressions of the rows that may differ, with the columns of `fieldsOfState`. */
  readonly before: string
  readonly after: string
}

/** A query with one row: `rows_added` and `rows_removed`. */
export const countsSql = (comparison: Comparison): string => `
  SELECT CAST(coalesce(sum(greatest(d, 0)), 0) AS BIGINT) AS rows_added,
    CAST(coalesce(sum(greatest(-d, 0)), 0) AS BIGINT) AS rows_removed
  FROM ${differenceSql(comparison)}`

/** A query with one text, which is the same for equal changes: numbers of added and removed rows, and sums of their hashes. */
export function fingerprintSql(comparison: Comparison): string {
  const names = comparison.columns.map((_, i) => `c${i}`).join(', ')
  const sums = (sign: '' | '-') => `
    CAST(coalesce(sum(greatest(${sign}d, 0)), 0) AS VARCHAR),
    CAST(coalesce(sum(greatest(${sign}d, 0) * CAST(hash(${names}) AS HUGEINT)), 0) AS VARCHAR)`
  return `SELECT concat_ws(' ', ${sums('')}, ${sums('-')}) AS rows FROM ${differenceSql(comparison)}`
}

/** The differing rows with their number of copies `d`: positive for added rows. Columns are named c0, c1 and so on. */
function differenceSql({ columns, before, after }: Comparison): string {
  const side = (state: 'before' | 'after', relation: string, sign: string) =>
    `SELECT ${columns
      .map(({ type, [state]: field }, i) =>
        field === null
          ? `CAST(NULL AS ${sqlType(type)}) AS c${i}`
          : `s.${quoteIdentifier(field.name)} AS c${i}`,
      )
      .join(', ')}, ${sign} AS side FROM ${relation} s`
  const names = columns.map((_, i) => `c${i}`).join(', ')
  // A state that does not exist has no columns to select.
  const sides = [
    ...(columns.some((column) => column.after !== null) ? [side('after', after, '1')] : []),
    ...(columns.some((column) => column.before !== null) ? [side('before', before, '-1')] : []),
  ]
  return `(SELECT ${names}, CAST(sum(side) AS BIGINT) AS d
    FROM (${sides.join(' UNION ALL ')})
    GROUP BY ${names} HAVING sum(side) <> 0)`
}

export interface RowQueries {
  readonly added: string
  readonly removed: string
  readonly changed: string
}

/** A value in the type of its own state, so that a diff writes it as a query of that state does. */
function shownSql(column: ComparedColumn, state: 'before' | 'after', value: string): string {
  const own = column[state]?.type ?? column.type
  return typeof own !== 'string' || own === column.type ? value : `CAST(${value} AS ${sqlType(own)})`
}

/**
 * Queries for at most `limit` copies of each differing row. With a key, an added and a removed row of one key are a changed row,
 * if the key has no other differing row. A key column that a state lacks pairs no row.
 */
export function rowsSql(comparison: Comparison, key: readonly string[], limit: number): RowQueries {
  const { columns } = comparison
  const indexes = key.map((name) =>
    columns.findIndex(
      ({ before, after }) => before !== null && after?.name.toLowerCase() === name.toLowerCase(),
    ),
  )
  const isKeyed = key.length > 0 && !indexes.includes(-1)
  const keys = indexes.map((i) => `c${i}`)
  const keyed = `WITH keyed AS MATERIALIZED (SELECT *, ${
    isKeyed
      ? `sum(greatest(d, 0)) OVER (PARTITION BY ${keys.join(', ')}) = 1
         AND sum(greatest(-d, 0)) OVER (PARTITION BY ${keys.join(', ')}) = 1`
      : 'false'
  } AS is_pair FROM ${differenceSql(comparison)})`
  const shown = (state: 'before' | 'after') =>
    columns
      .map((column, i) => `${shownSql(column, state, `c${i}`)} AS ${quoteIdentifier(column.name)}`)
      .join(', ')
  const copies = (state: 'before' | 'after', sign: string) => `${keyed}
    SELECT ${shown(state)} FROM (
      SELECT *, unnest(range(least(${sign}d, ${limit}))) AS copy FROM keyed WHERE ${sign}d > 0 AND NOT is_pair)`
  const row = (state: 'before' | 'after', alias: string) =>
    `{${columns
      .map((column, i) => `${quoteLiteral(column.name)}: ${shownSql(column, state, `${alias}.c${i}`)}`)
      .join(', ')}}`
  const isSameKey = keys.map((name) => `o.${name} IS NOT DISTINCT FROM n.${name}`).join(' AND ')
  return {
    added: copies('after', ''),
    removed: copies('before', '-'),
    changed: `${keyed} SELECT ${row('before', 'o')} AS before, ${row('after', 'n')} AS after
      FROM keyed o JOIN keyed n ON ${isKeyed ? isSameKey : 'false'}
      WHERE o.is_pair AND n.is_pair AND o.d < 0 AND n.d > 0`,
  }
}
