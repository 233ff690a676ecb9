// Default values of columns, which format version 3 has. Source: https://iceberg.apache.org/spec/#default-values

import type { FormatVersion } from './metadata.ts'
import { type DefaultValue, decimalOf, type IcebergType, type NestedField, type StructType } from './types.ts'
import { BadUpdate } from './wire.ts'

/** Whether a column has a default value, so that an absent column of a new file would not mean null. */
export const hasDefault = (field: NestedField): boolean =>
  field['initial-default'] !== undefined || field['write-default'] !== undefined

/** Refuses default values that this implementation cannot read. @throws BadUpdate with the name of the column */
export function checkDefaults(schema: StructType, version: FormatVersion): void {
  for (const { path, field } of structFields(schema, [])) {
    if (!hasDefault(field)) continue
    const refuse = (reason: string): never => {
      throw new BadUpdate(`column ${JSON.stringify(path.join('.'))}: ${reason}`)
    }
    if (version < 3) refuse('default values need format version 3')
    if (path.length > 1) refuse('default values of nested columns are not supported')
    for (const value of [field['initial-default'], field['write-default']])
      if (value !== undefined && defaultText(field.type, value) === null)
        refuse(`the default value ${String(value)} is not a value of its type`)
  }
}

function* structFields(
  { fields }: StructType,
  path: readonly string[],
): Generator<{ path: string[]; field: NestedField }> {
  for (const field of fields) {
    const own = [...path, field.name]
    yield { path: own, field }
    yield* nestedFields(field.type, own)
  }
}

function* nestedFields(type: IcebergType, path: readonly string[]): ReturnType<typeof structFields> {
  if (typeof type === 'string') return
  if (type.type === 'struct') yield* structFields(type, path)
  else if (type.type === 'list') yield* nestedFields(type.element, [...path, 'element'])
  else {
    yield* nestedFields(type.key, [...path, 'key'])
    yield* nestedFields(type.value, [...path, 'value'])
  }
}

const DATE = '[+-]?\\d{4,6}-\\d\\d-\\d\\d'
const TIME = '\\d\\d:\\d\\d(:\\d\\d(\\.\\d{1,6})?)?'
const TEXTS: Readonly<Record<string, RegExp>> = {
  date: new RegExp(`^${DATE}$`),
  time: new RegExp(`^${TIME}$`),
  timestamp: new RegExp(`^${DATE}T${TIME}$`),
  timestamptz: new RegExp(`^${DATE}T${TIME}(\\+00:00|Z)$`),
  uuid: /^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$/,
  string: /^[^\0]*$/,
}
const INTEGER_BITS: Readonly<Record<string, number>> = { int: 32, long: 64 }

/** The text that the engine casts to the type; null for a value of another type. */
export function defaultText(type: IcebergType, value: DefaultValue): string | null {
  if (typeof type !== 'string') return null
  if (type === 'boolean') return typeof value === 'boolean' ? String(value) : null
  const bits = INTEGER_BITS[type]
  if (bits !== undefined) {
    const isInteger = typeof value === 'bigint' || Number.isInteger(value)
    return isInteger && BigInt.asIntN(bits, BigInt(value)) === BigInt(value) ? String(value) : null
  }
  if (type === 'float' || type === 'double')
    return typeof value === 'number' || typeof value === 'bigint' ? String(value) : null
  if (typeof value !== 'string') return null
  const decimal = decimalOf(type)
  if (decimal) return isDecimal(value, decimal) ? value : null
  if (type === 'binary' || type.startsWith('fixed['))
    return /^([0-9a-fA-F]{2})*$/.test(value) ? value.replace(/../g, '\\x$&') : null
  return TEXTS[type]?.test(value) ? value : null
}

function isDecimal(text: string, { precision, scale }: { precision: number; scale: number }): boolean {
  const [, whole = '', fraction = ''] = /^-?(\d+)(?:\.(\d+))?$/.exec(text) ?? []
  return whole !== '' && fraction.length <= scale && whole.replace(/^0+/, '').length <= precision - scale
}
