// Decides how the values of a result fit the types of its table. Some types always fit. The values of the others are checked by
// the cast that writes them, because a result is computed only once (docs/semantics/tables.md, "Schema changes").

import { AuthorError } from '../../pipeline/author-error.ts'
import { quoteIdentifier, quoteLiteral } from '../../quote.ts'
import { type DuckType, renderDuckType } from '../format/duckdb-type.ts'
import { normal } from '../format/fields.ts'
import {
  decimalOf,
  duckText,
  type IcebergType,
  type MapType,
  type NestedField,
  primitiveOf,
  type StructType,
  toDuckDb,
} from '../format/types.ts'

/** `exact`: each value that the cast and a cast back leave unchanged fits. `null`: only NULL fits. */
type Fit = 'always' | 'exact' | 'null'

/** How values of the stored type `from` fit a column of the type `to`. */
export function fitOf(from: string, to: string): Fit {
  if (isPromotable(from, to)) return 'always'
  if (from === 'date' && to === 'timestamp') return 'always'
  if (from === 'timestamp' && to === 'date') return 'exact'
  if (!isNumber(from) || !isNumber(to)) return 'null'
  const digits = digitsOf(from)
  if (digits === undefined) return 'exact'
  if (to === 'double') return digits.precision <= DOUBLE_DIGITS ? 'always' : 'exact'
  const decimal = decimalOf(to)
  const isWithin =
    decimal !== undefined &&
    digits.scale <= decimal.scale &&
    digits.precision - digits.scale <= decimal.precision - decimal.scale
  return isWithin ? 'always' : 'exact'
}

/** Whether every value of `from` is a value of `to` for every reader of the format. */
export function isPromotable(from: string, to: string): boolean {
  if (normal(from) === normal(to)) return true
  if (from === 'int') return to === 'long'
  if (from === 'float') return to === 'double'
  const narrow = decimalOf(from)
  const wide = decimalOf(to)
  return Boolean(narrow && wide && narrow.scale === wide.scale && narrow.precision <= wide.precision)
}

/** The digits that a decimal needs to hold every value of the type. */
export function digitsOf(type: string): { precision: number; scale: number } | undefined {
  if (type === 'int') return { precision: 10, scale: 0 }
  if (type === 'long') return { precision: 19, scale: 0 }
  return decimalOf(type)
}

/** A decimal number with this many digits survives the conversion to a double and back. */
const DOUBLE_DIGITS = 15

const isNumber = (type: string): boolean =>
  type === 'float' || type === 'double' || digitsOf(type) !== undefined

/** A column, or a field inside it, whose values may not fit the table. */
export interface Doubt {
  /** The path of the field: `a.b.element`. */
  readonly column: string
  readonly tableType: string
  readonly newType: string
}

/** Values of a column do not fit the type that the table has for it. */
export class IncompatibleColumn extends AuthorError {
  override readonly name = 'IncompatibleColumn'
}

/** The text about a column whose values do not fit its table, or may not fit. */
export const misfitText = (doubt: Doubt): string => `${typesText(doubt)}: ${REMEDY}`

const typesText = ({ column, tableType, newType }: Doubt): string =>
  `column ${JSON.stringify(column)} is ${tableType} in the table and ${newType} in the new rows`
const REMEDY = 'cast it to the type of the table, or use full_refresh to replace the schema'

/** Begins the message of the engine about a value that does not fit. */
const MARK = 'sluice_misfit: '
/** Characters of a value in an error. */
const VALUE_CHARACTERS = 100

/** The text about a value that does not fit, from a message of the engine; null: another error. */
export function misfitIn(message: string): string | null {
  // Other errors may quote the SQL that contains the mark.
  const start = `Invalid Input Error: ${MARK}`
  return message.startsWith(start) ? message.slice(start.length) : null
}

/**
 * SQL that checks `value` before its cast to the type of a field. It fails with the text of `misfitIn` for a value that does not fit.
 * Null: every value fits. `doubts` gets the fields whose values are checked.
 */
export function fittedSql(
  value: string,
  from: DuckType,
  { name, type }: Pick<NestedField, 'name' | 'type'>,
  doubts: Doubt[] = [],
): string | null {
  return new Fitting(doubts).fit(value, from, type, name)
}

class Fitting {
  /** Numbers the variables of nested lambdas. */
  #variables = 0

  constructor(private readonly doubts: Doubt[]) {}

  fit(value: string, from: DuckType, to: IcebergType, column: string): string | null {
    if (typeof to === 'string') return this.#primitive(value, from, to, column)
    if (to.type === 'struct' && from.kind === 'struct') return this.#struct(value, from.fields, to, column)
    if (to.type === 'list' && from.kind === 'list') {
      const variable = `sluice_v${this.#variables++}`
      const element = this.fit(variable, from.element, to.element, `${column}.element`)
      if (element === null) return null
      const list = from.length === undefined ? value : cast(value, { ...from, length: undefined })
      return `list_transform(${list}, lambda ${variable}: ${element})`
    }
    if (to.type === 'map' && from.kind === 'map') return this.#map(value, from, to, column)
    // An empty JSON object is an empty map, whatever the table has for it.
    const empty =
      to.type === 'struct' && from.kind === 'map'
        ? `WHEN cardinality(${value}) = 0 THEN ${structOf(to, () => 'NULL')} `
        : ''
    return this.#only(value, from, to, column, empty)
  }

  #primitive(value: string, from: DuckType, to: string, column: string): string | null {
    if (from.kind !== 'scalar' && from.kind !== 'decimal') return this.#only(value, from, to, column)
    const fit = fitOf(primitiveOf(from), to)
    if (fit === 'always') return null
    const own = toDuckDb(to)
    const isExact =
      fit === 'exact'
        ? `WHEN TRY_CAST(TRY_CAST(${value} AS ${sql(own)}) AS ${sql(from)}) = ${value} THEN ${cast(value, own)} `
        : ''
    return this.#only(value, from, to, column, isExact)
  }

  #struct(
    value: string,
    fields: Extract<DuckType, { kind: 'struct' }>['fields'],
    to: StructType,
    column: string,
  ): string | null {
    const given = new Map(fields.map((field) => [field.name.toLowerCase(), field]))
    let isPlain = true
    const struct = structOf(to, (field) => {
      const own = given.get(field.name.toLowerCase())
      if (own === undefined) return 'NULL'
      const extracted = `struct_extract(${value}, ${quoteLiteral(own.name)})`
      const fitted = this.fit(extracted, own.type, field.type, `${column}.${field.name}`)
      if (fitted !== null) isPlain = false
      return fitted ?? extracted
    })
    return isPlain ? null : `CASE WHEN ${value} IS NULL THEN NULL ELSE ${struct} END`
  }

  #map(value: string, from: Extract<DuckType, { kind: 'map' }>, to: MapType, column: string): string | null {
    const own = toDuckDb(to)
    if (duckText(from.key) !== duckText(toDuckDb(to.key)))
      return this.#only(
        value,
        from,
        to,
        column,
        `WHEN cardinality(${value}) = 0 THEN CAST(MAP() AS ${sql(own)}) `,
      )
    const variable = `sluice_v${this.#variables++}`
    const inner = this.fit(`${variable}.value`, from.value, to.value, `${column}.value`)
    if (inner === null) return null
    const entries = `list_transform(map_entries(${value}), lambda ${variable}: {'key': ${variable}.key, 'value': ${inner}})`
    return `CASE WHEN ${value} IS NULL THEN NULL ELSE ${cast(`map_from_entries(${entries})`, own)} END`
  }

  /** NULL fits, and what `cases` accepts. All other values are errors. */
  #only(value: string, from: DuckType, to: IcebergType, column: string, cases = ''): string {
    const doubt = { column, tableType: duckText(toDuckDb(to)), newType: duckText(from) }
    this.doubts.push(doubt)
    const shown = `left(CAST(${value} AS VARCHAR), ${VALUE_CHARACTERS})`
    const message = [
      quoteLiteral(`${MARK}${typesText(doubt)}, where the value `),
      shown,
      quoteLiteral(` does not fit: ${REMEDY}`),
    ]
    return `CASE WHEN ${value} IS NULL THEN NULL ${cases}ELSE error(${message.join(' || ')}) END`
  }
}

const sql = (type: DuckType): string => renderDuckType(type, quoteIdentifier)

const cast = (value: string, type: DuckType): string => `CAST(${value} AS ${sql(type)})`

const structOf = (to: StructType, sqlOf: (field: NestedField) => string): string =>
  `struct_pack(${to.fields
    .map((field) => `${quoteIdentifier(field.name)} := ${cast(sqlOf(field), toDuckDb(field.type))}`)
    .join(', ')})`
