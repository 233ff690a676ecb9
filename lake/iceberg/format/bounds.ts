// Converts lower and upper bounds of columns between DuckDB's text and Iceberg's single-value binary form. Source:
// https://iceberg.apache.org/spec/#binary-single-value-serialization

import { Buffer } from 'node:buffer'
import { decimalOf } from './types.ts'

/** Dates are days since the epoch, times and timestamps are microseconds, decimals are unscaled integers, UUIDs are texts. */
export type BoundValue = boolean | number | bigint | string | Uint8Array

/** Strings are cut to this many code points and binaries to this many bytes, like the metrics mode `truncate(16)`. */
const BOUND_LENGTH_LIMIT = 16

/** An infinite date or timestamp, which no Iceberg type can hold. */
export class InfiniteValue extends Error {
  override readonly name = 'InfiniteValue'
}

/**
 * Encodes the bounds of a column from the texts of DuckDB's COPY statistics. An upper bound that does not exist (above the
 * greatest string) is left out.
 * @throws InfiniteValue
 */
export function boundsFromText(
  type: string,
  min: string,
  max: string,
): { lower?: Uint8Array; upper?: Uint8Array } {
  const lower = lowerBound(type, valueFromText(type, min))
  const upper = upperBound(type, valueFromText(type, max))
  return {
    lower: encodeBound(type, lower),
    ...(upper !== undefined && { upper: encodeBound(type, upper) }),
  }
}

/** Parses a value from DuckDB's statistics. @throws InfiniteValue, SyntaxError */
export function valueFromText(type: string, text: string): BoundValue {
  const decimal = decimalOf(type)
  if (decimal) return unscaled(text, decimal.scale)
  switch (type) {
    case 'boolean':
      return text === '1' || text === 'true'
    case 'int':
      return Number(text)
    case 'long':
      return BigInt(text)
    case 'float':
      return Math.fround(doubleFromText(text))
    case 'double':
      return doubleFromText(text)
    case 'date':
      return daysFromText(text)
    case 'time':
      return microsOfDay(text)
    case 'timestamp':
    case 'timestamptz':
      return microsFromText(text)
    case 'string':
      return text
    case 'uuid':
      return text.toLowerCase()
    case 'binary':
      return Buffer.from(text, 'hex')
    default:
      throw new SyntaxError(`a column of type ${type} has no bounds`)
  }
}

/** Encodes one value in Iceberg's single-value binary form. */
export function encodeBound(type: string, value: BoundValue): Uint8Array {
  if (typeof value === 'boolean') return Uint8Array.of(value ? 1 : 0)
  if (value instanceof Uint8Array) return value
  if (typeof value === 'string') {
    return type === 'uuid' ? Buffer.from(value.replaceAll('-', ''), 'hex') : new TextEncoder().encode(value)
  }
  if (decimalOf(type)) return minimalTwosComplement(BigInt(value))
  const view = new DataView(new ArrayBuffer(BYTES[type] ?? 8))
  if (type === 'float') view.setFloat32(0, Number(value), true)
  else if (type === 'double') view.setFloat64(0, Number(value), true)
  else if (view.byteLength === 4) view.setInt32(0, Number(value), true)
  else view.setBigInt64(0, BigInt(value), true)
  return new Uint8Array(view.buffer)
}

const BYTES: Readonly<Record<string, number>> = { int: 4, date: 4, float: 4 }

/** Decodes a bound. A bound written before a promotion (int -> long, float -> double) is decoded as the wider type. */
export function decodeBound(type: string, bytes: Uint8Array): BoundValue {
  if (decimalOf(type)) return fromTwosComplement(bytes)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const isShort = bytes.byteLength === 4
  switch (type) {
    case 'boolean':
      return bytes[0] !== 0
    case 'int':
    case 'date':
      return view.getInt32(0, true)
    case 'long':
      return isShort ? BigInt(view.getInt32(0, true)) : view.getBigInt64(0, true)
    case 'time':
    case 'timestamp':
    case 'timestamptz':
      return view.getBigInt64(0, true)
    case 'float':
      return view.getFloat32(0, true)
    case 'double':
      return isShort ? view.getFloat32(0, true) : view.getFloat64(0, true)
    case 'string':
      return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    case 'uuid':
      return Buffer.from(bytes)
        .toString('hex')
        .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
    default:
      return bytes
  }
}

/** Another writer may have cut a text inside a character. Then the bound is unknown. */
export function decoded(type: string, bytes: Uint8Array): BoundValue | undefined {
  try {
    return decodeBound(type, bytes)
  } catch {
    return undefined
  }
}

/** Converts a value to this type from a manifest's partition tuple, or from an earlier, narrower type. */
export function boundValueFrom(type: string, value: BoundValue): BoundValue {
  if (value instanceof Uint8Array) return type === 'binary' ? value : decodeBound(type, value)
  if (decimalOf(type)) return BigInt(value)
  if (isWide(type) && (typeof value === 'number' || typeof value === 'bigint')) return BigInt(value)
  return value
}

const isWide = (type: string): boolean =>
  type === 'long' || type === 'time' || type === 'timestamp' || type === 'timestamptz'

/** Compares two values of one type: texts by code point, binaries by byte. */
export function compareBounds(a: BoundValue, b: BoundValue): number {
  if (typeof a === 'string' && typeof b === 'string') return Buffer.compare(Buffer.from(a), Buffer.from(b))
  if (a instanceof Uint8Array && b instanceof Uint8Array) return Buffer.compare(a, b)
  return a < b ? -1 : a > b ? 1 : 0
}

/** A value that is at most every value of the column. Long values are cut. Zero becomes -0, which sorts before 0. */
export function lowerBound(type: string, value: BoundValue): BoundValue {
  if (type === 'string' && typeof value === 'string') return firstCodePoints(value)
  if (value instanceof Uint8Array) return value.subarray(0, BOUND_LENGTH_LIMIT)
  return value === 0 ? -0 : value
}

/** A value that is at least every value of the column: cut, then incremented. Undefined when no short value is greater. */
export function upperBound(type: string, value: BoundValue): BoundValue | undefined {
  if (type === 'string' && typeof value === 'string') {
    const cut = firstCodePoints(value)
    return cut === value ? value : incrementedText(cut)
  }
  if (value instanceof Uint8Array) {
    return value.length <= BOUND_LENGTH_LIMIT ? value : incrementedBytes(value.slice(0, BOUND_LENGTH_LIMIT))
  }
  return Object.is(value, -0) ? 0 : value
}

const firstCodePoints = (text: string): string =>
  text.length <= BOUND_LENGTH_LIMIT ? text : [...text].slice(0, BOUND_LENGTH_LIMIT).join('')

const LAST_CODE_POINT = 0x10ffff
const BEFORE_SURROGATES = 0xd7ff
const AFTER_SURROGATES = 0xe000

function incrementedText(text: string): string | undefined {
  const points = [...text].map((char) => char.codePointAt(0) ?? 0)
  const index = points.findLastIndex((point) => point < LAST_CODE_POINT)
  const point = points[index]
  if (point === undefined) return undefined
  const next = point === BEFORE_SURROGATES ? AFTER_SURROGATES : point + 1
  return String.fromCodePoint(...points.slice(0, index), next)
}

function incrementedBytes(bytes: Uint8Array): Uint8Array | undefined {
  const index = bytes.findLastIndex((byte) => byte < 0xff)
  const byte = bytes[index]
  if (byte === undefined) return undefined
  const next = bytes.slice(0, index + 1)
  next[index] = byte + 1
  return next
}

function minimalTwosComplement(value: bigint): Uint8Array {
  let length = 1
  while (BigInt.asIntN(length * 8, value) !== value) length += 1
  const bytes = new Uint8Array(length)
  for (let i = 0; i < length; i += 1)
    bytes[length - 1 - i] = Number(BigInt.asUintN(8, value >> BigInt(i * 8)))
  return bytes
}

function fromTwosComplement(bytes: Uint8Array): bigint {
  const unsigned = bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n)
  return BigInt.asIntN(bytes.length * 8, unsigned)
}

/** Converts `-.50` with scale 2 to -50. */
function unscaled(text: string, scale: number): bigint {
  const match = /^(-?)(\d*)(?:\.(\d+))?$/.exec(text)
  const [, sign = '', integerPart = '', fraction = ''] = match ?? []
  if (!match || fraction.length > scale) throw new SyntaxError(`not a decimal of scale ${scale}: ${text}`)
  const digits = BigInt(`${integerPart}${fraction.padEnd(scale, '0')}` || '0')
  return sign === '-' ? -digits : digits
}

function doubleFromText(text: string): number {
  if (text === 'inf') return Number.POSITIVE_INFINITY
  if (text === '-inf') return Number.NEGATIVE_INFINITY
  const value = Number(text)
  if (text === '' || Number.isNaN(value)) throw new SyntaxError(`not a number: ${text}`)
  return value
}

const DATE = /^(\d+)-(\d\d)-(\d\d)( \(BC\))?/

function daysFromText(text: string): number {
  if (text.endsWith('infinity')) throw new InfiniteValue(text)
  const match = DATE.exec(text)
  if (!match) throw new SyntaxError(`not a date: ${text}`)
  const [, year, month, day, era] = match
  return daysFromCivil(era ? 1 - Number(year) : Number(year), Number(month), Number(day))
}

/**
 * Days since 1970-01-01 in the proleptic Gregorian calendar. JavaScript's Date cannot hold all years. Years start in March, so
 * that the leap day is the last day of its year. 400 years have 146,097 days.
 */
function daysFromCivil(year: number, month: number, day: number): number {
  const shifted = month > 2 ? year : year - 1
  const era = Math.floor(shifted / 400)
  const yearOfEra = shifted - era * 400
  const dayOfYear = Math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1
  const dayOfEra = yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear
  return era * 146_097 + dayOfEra - 719_468
}

const CLOCK = /(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?/
const OFFSET = /([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?$/

function microsOfDay(text: string): bigint {
  const match = CLOCK.exec(text)
  if (!match) throw new SyntaxError(`not a time: ${text}`)
  const [, hours, minutes, seconds, fraction = ''] = match
  const totalSeconds = Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)
  return BigInt(totalSeconds) * 1_000_000n + BigInt(fraction.padEnd(6, '0'))
}

function microsFromText(text: string): bigint {
  const days = BigInt(daysFromText(text))
  const afterDate = text.replace(DATE, '')
  const [, sign, hours = '0', minutes = '0', seconds = '0'] = OFFSET.exec(afterDate) ?? []
  const offset = BigInt(Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)) * 1_000_000n
  return days * 86_400_000_000n + microsOfDay(afterDate) - (sign === '-' ? -offset : offset)
}
