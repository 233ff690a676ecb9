// The texts of values for people, in the form that the API gives to cells of a query.

import { Buffer } from 'node:buffer'
import { civilDate, decimalText, isoTime, isoTimestamp, shortFloat } from '../../engine/json-values.ts'
import { type BoundValue, boundValueFrom } from './bounds.ts'
import { partitionType } from './manifest-schema.ts'
import { decimalOf, type IcebergType } from './types.ts'

/** Digits of a second's fraction in times and timestamps. */
const MICROS = 6

/** The text of a decoded value. */
export function valueText(type: string, value: BoundValue): string {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  const decimal = decimalOf(type)
  if (decimal) return decimalText(BigInt(value), decimal.scale)
  switch (type) {
    case 'float':
      return String(shortFloat(Number(value)) ?? value)
    case 'date':
      return civilDate(Number(value)) ?? String(value)
    case 'time':
      return isoTime(Number(value), MICROS)
    case 'timestamp':
      return isoTimestamp(BigInt(value), MICROS) ?? String(value)
    case 'timestamptz': {
      const text = isoTimestamp(BigInt(value), MICROS)
      return text === null ? String(value) : `${text}Z`
    }
    default:
      return String(value)
  }
}

/** The text of a partition value in a manifest: `2024`, `2024-03`, `2024-03-31`, `2024-03-31T22`, or a value of the column. */
export function partitionText(transform: string, source: IcebergType | undefined, value: BoundValue): string {
  try {
    switch (transform) {
      case 'year':
        return startOfMonth(Number(value) * 12).slice(0, -'-01-01T00:00:00.000Z'.length)
      case 'month':
        return startOfMonth(Number(value)).slice(0, -'-01T00:00:00.000Z'.length)
      case 'hour': {
        const text = isoTimestamp(BigInt(Number(value)) * 3_600n, 0)
        return text === null ? String(value) : text.slice(0, -':00:00'.length)
      }
      default: {
        const type = partitionType(transform, source)
        return valueText(type, boundValueFrom(type, value))
      }
    }
  } catch {
    // Another engine stored a value of another type, or the source column is unknown.
    return value instanceof Uint8Array ? Buffer.from(value).toString('base64') : String(value)
  }
}

/** @throws RangeError beyond the years of the clock */
const startOfMonth = (month: number): string => new Date(Date.UTC(1970, month)).toISOString()
