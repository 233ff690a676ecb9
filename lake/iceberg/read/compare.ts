// Compares the columns and the rows of two states of a table. Columns are matched by field id. A column that one state lacks is
// NULL there. Rows are compared as multisets: a changed row is a removed and an added row.
import { quoteIdentifier, quoteLiteral } from '../../quote.ts'
import { sameFields } from '../format/fields.ts'
import {
  decimalOf,
  duckText,
  type IcebergType,
  type NestedField,
  type Schema,
  toDuckDb,
} from '../format/types.ts'
import { sqlType } from '../sql/sql.ts'
import type { ReadableFile } from './table-sql.ts'

/** A column of at least one state. */
interface ComparedColumn {
  /** The name in the answer, unique without regard to case: the newer name, or that of the removed column. */
  readonly name: string
  /** Both states are compared with this type. */
  readonly type: IcebergType
  /** The values of the states are converted to the type, because none of the two types holds the values of both. */
  readonly isConverted?: true
  readonly before: NestedField | null
  readonly after: NestedField | null
}

/**
 * The columns of both states: first those of `after` in their order, then the removed ones. Null: the state does not exist. Ids of
 * two tables that had the same name say nothing about each other.
 */
export function comparedColumns(
  before: Schema | null,
  after: Schema | null,
  isSameTable = true,
): ComparedColumn[] {
  const old = [...(before?.fields ?? [])]
  const take = (isMatch: (field: NestedField) => boolean): NestedField | null => {
    const index = old.findIndex(isMatch)
    return index === -1 ? null : (old.splice(index, 1)[0] ?? null)
  }
  const now = after?.fields ?? []
  const byId = now.map((field) => (isSameTable ? take(({ id }) => id === field.id) : null))
  // A column that was dropped and added again has a new id. So has one whose type Iceberg cannot change.
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
        ...(other === null ? { type: field.type } : commonType(other.type, field.type)),
        before: other,
        after: field,
      }
    }),
    ...old.map(
      (field): ComparedColumn => ({ name: unique(field.name), type: field.type, before: field, after: null }),
    ),
  ]
}

/** Values of nested types are compared only with values of the same type. */
const isSameColumn = (a: NestedField, b: NestedField) =>
  a.name.toLowerCase() === b.name.toLowerCase() &&
  ((typeof a.type === 'string' && typeof b.type === 'string') ||
    duckText(toDuckDb(a.type)) === duckText(toDuckDb(b.type)))

const DECIMAL_DIGITS_MAX = 38
const DIGITS: ReadonlyMap<unknown, { precision: number; scale: number }> = new Map([
  ['int', { precision: 10, scale: 0 }],
  ['long', { precision: 19, scale: 0 }],
])

/** The type that holds the values of both: one of the two, a wider decimal, or text. Nested types are read as the newer one. */
function commonType(before: IcebergType, after: IcebergType): Pick<ComparedColumn, 'type' | 'isConverted'> {
  if (typeof before !== 'string' || typeof after !== 'string' || before === after) return { type: after }
  const areIn = (types: ReadonlySet<string>) => types.has(before) && types.has(after)
  if (areIn(WHOLE)) return { type: 'long' }
  if (areIn(FLOATING)) return { type: 'double' }
  if (areIn(DAYS)) return { type: 'timestamp', isConverted: true }
  const [old, now] = [before, after].map((type) => decimalOf(type) ?? DIGITS.get(type))
  if (!old || !now) return { type: 'string', isConverted: true }
  const scale = Math.max(old.scale, now.scale)
  const precision = scale + Math.max(old.precision - old.scale, now.precision - now.scale)
  if (precision > DECIMAL_DIGITS_MAX) return { type: 'string', isConverted: true }
  const type: IcebergType = `decimal(${precision}, ${scale})`
  // A decimal of the same scale is read with more digits.
  const isWidened = old.scale === now.scale && !WHOLE.has(before) && !WHOLE.has(after)
  return isWidened ? { type } : { type, isConverted: true }
}

const WHOLE: ReadonlySet<string> = new Set(['int', 'long'])
const FLOATING: ReadonlySet<string> = new Set(['float', 'double'])
const DAYS: ReadonlySet<string> = new Set(['date', 'timestamp'])

/** Whether rows of files that both states have are equal in both: no column was removed, and types were at most widened. */
export const keepsRows = (columns: readonly ComparedColumn[]): boolean =>
  columns.every(({ before, after }) => after !== null && (before === null || before.id === after.id))

interface SchemaChange {
  added: { name: string; type: string }[]
  removed: { name: string; type: string }[]
  /** `from` and `to` are types; `renamed_from` is null when only the type has changed. */
  changed: { name: string; from: string; to: string; renamed_from: string | null }[]
}

/**
 * The difference of two schemas. A renamed column and a column with another type are changed. In another table of the same name,
 * a column is another one unless its name is the same.
 */
export function schemaChange(before: Schema | null, after: Schema | null, isSameTable = true): SchemaChange {
  const named = ({ name, type }: NestedField) => ({ name, type: duckText(toDuckDb(type)) })
  const columns = comparedColumns(before, after, isSameTable)
  return {
    added: columns.flatMap(({ before: old, after: now }) => (old === null && now ? [named(now)] : [])),
    removed: columns.flatMap(({ before: old, after: now }) => (now === null && old ? [named(old)] : [])),
    changed: columns.flatMap(({ before: earlier, after: field }) => {
      if (earlier === null || field === null) return []
      const isRenamed = earlier.name !== field.name
      const [one, other] = [earlier, field].map((each) => ({ ...each, id: field.id, required: false }))
      if (!isRenamed && one && other && sameFields([one], [other])) return []
      const [from, to] = [named(earlier).type, named(field).type]
      return [{ name: field.name, from, to, renamed_from: isRenamed ? earlier.name : null }]
    }),
  }
}

/** The fields with which the files of a state are read. */
export const fieldsOfState = (columns: readonly ComparedColumn[], state: 'before' | 'after'): Schema => ({
  type: 'struct',
  'schema-id': 0,
  fields: columns.flatMap(({ type, isConverted, [state]: field }) =>
    field === null ? [] : [isConverted ? field : { ...field, type }],
  ),
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
      .map((column, i) => `${comparedValue(column, column[state])} AS c${i}`)
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

/** The value of a column in a state, with the type of the comparison. */
function comparedValue({ type, isConverted }: ComparedColumn, field: NestedField | null): string {
  if (field === null) return `CAST(NULL AS ${sqlType(type)})`
  const value = `s.${quoteIdentifier(field.name)}`
  if (isConverted === undefined) return value
  const text = `CAST(${value} AS ${sqlType(type)})`
  if (type !== 'string') return text
  // Equal numbers have equal texts: 1.0 and 1.50 are 1 and 1.5.
  if (FLOATING.has(String(field.type)) || (decimalOf(String(field.type))?.scale ?? 0) > 0)
    return `regexp_replace(${text}, '(\\.[0-9]*[1-9])0+$|\\.0*$', '\\1')`
  return text
}

interface RowQueries {
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
