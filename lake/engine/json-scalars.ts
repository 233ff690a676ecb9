import { type Data, DataType, type Decimal, Precision } from 'apache-arrow'
import type { JsonBytes } from './json-bytes.ts'
import { civilDate, decimalText, isoTime, isoTimestamp, shortFloat } from './json-values.ts'

type Write = (at: number) => void

export type WriteOf = (data: Data, out: JsonBytes) => Write

export function writerOf(type: DataType): WriteOf {
  if (DataType.isBool(type)) return writeBooleans
  if (DataType.isFloat(type)) return type.precision === Precision.SINGLE ? writeFloats : writeNumbers
  if (DataType.isInt(type)) return type.bitWidth === 64 ? writeWide(type.isSigned) : writeNumbers
  if (DataType.isDecimal(type))
    return type.precision <= DECIMAL_NUMBER_WIDTH ? writeDecimals(type) : writeWideDecimals(type)
  if (DataType.isDate(type)) return writeDates
  if (DataType.isTime(type)) {
    const digits = FRACTION_DIGITS[type.unit]
    return ({ values }, out) =>
      (at) =>
        writeQuoted(isoTime(Number(values[at]), digits), out)
  }
  if (DataType.isTimestamp(type)) return writeTimestamps(FRACTION_DIGITS[type.unit], type.timezone ? 'Z' : '')
  if (DataType.isNull(type)) return (_, out) => () => out.ascii('null')
  throw new TypeError(`unexpected Arrow type ${type} in a query result`)
}

const writeBooleans: WriteOf = ({ values }, out) => {
  return (at) => out.ascii(((values[at >> 3] >> (at & 7)) & 1) === 1 ? 'true' : 'false')
}

const writeNumbers: WriteOf = ({ values }, out) => {
  return (at) => out.number(values[at])
}

const writeFloats: WriteOf = ({ values }, out) => {
  return (at) => out.number(shortFloat(Number(values[at])) ?? Number.NaN)
}

/**
 * Reads 64-bit integers as two halves, because a bigint per value would cost more than all other work. A result outside the
 * safe integers is not exact.
 */
function numbersOf({ buffer, byteOffset, byteLength }: ArrayBufferView, isSigned = true) {
  const lower = new Uint32Array(buffer, byteOffset, byteLength / 4)
  const upper = isSigned ? new Int32Array(buffer, byteOffset, byteLength / 4) : lower
  return (at: number) => (upper[at * 2 + 1] ?? 0) * 2 ** 32 + (lower[at * 2] ?? 0)
}

function writeWide(isSigned: boolean): WriteOf {
  return ({ values }, out) => {
    const numberAt = numbersOf(values, isSigned)
    return (at) => {
      const number = numberAt(at)
      if (Number.isSafeInteger(number)) out.number(number)
      else writeQuoted(`${values[at]}`, out)
    }
  }
}

/** A DECIMAL up to this width is exact in a double. */
const DECIMAL_NUMBER_WIDTH = 15

const FRACTION_DIGITS_MAX = 6

/** Both numbers are exact, so their quotient is the double nearest to the decimal. */
function writeDecimals({ scale }: Decimal): WriteOf {
  const divisor = 10 ** scale
  return ({ values }, out) => {
    const numberAt = numbersOf(values)
    if (scale <= FRACTION_DIGITS_MAX) return (at) => out.fraction(numberAt(at * 2), scale)
    return (at) => out.number(numberAt(at * 2) / divisor)
  }
}

function writeWideDecimals({ scale }: Decimal): WriteOf {
  return ({ values }, out) => {
    const words: Uint32Array = values
    const wide = new BigInt64Array(words.buffer, words.byteOffset, words.length / 2)
    return (at) => {
      const low = BigInt.asUintN(64, wide[at * 2] ?? 0n)
      writeQuoted(decimalText(((wide[at * 2 + 1] ?? 0n) << 64n) | low, scale), out)
    }
  }
}

/** Digits of a second's fraction by `TimeUnit`. */
const FRACTION_DIGITS = [0, 3, 6, 9] as const

/** The size of the date cache. Rows of one table often have few different days. */
const CACHED_DATES_LIMIT = 4_096

/** Memoizes dates by day. */
function makeDates(): (day: number) => string | null {
  const cachedDates = new Map<number, string | null>()
  return (day) => {
    let date = cachedDates.get(day)
    if (date === undefined) {
      date = civilDate(day)
      if (cachedDates.size < CACHED_DATES_LIMIT) cachedDates.set(day, date)
    }
    return date
  }
}

function writeQuoted(text: string | null, out: JsonBytes): void {
  if (text === null) {
    out.ascii('null')
    return
  }
  out.byte(QUOTE)
  out.ascii(text)
  out.byte(QUOTE)
}

const writeDates: WriteOf = ({ values }, out) => {
  const dateOf = makeDates()
  return (at) => writeQuoted(dateOf(Number(values[at])), out)
}

function writeTimestamps(digits: number, zone: '' | 'Z'): WriteOf {
  const perSecond = 10 ** digits
  const perDay = 86_400 * perSecond
  return ({ values }, out) => {
    const dateOf = makeDates()
    const numberAt = numbersOf(values)
    return (at) => {
      const units = numberAt(at)
      if (!Number.isSafeInteger(units)) {
        const text = isoTimestamp(BigInt(values[at]), digits)
        writeQuoted(text === null ? null : text + zone, out)
        return
      }
      const day = Math.floor(units / perDay)
      const ofDay = units - day * perDay
      const seconds = Math.floor(ofDay / perSecond)
      out.byte(QUOTE)
      out.ascii(`${dateOf(day)}`)
      out.byte(LETTER_T)
      if (ofDay === seconds * perSecond) writeClock(seconds, out)
      else out.ascii(isoTime(ofDay, digits))
      out.ascii(zone)
      out.byte(QUOTE)
    }
  }
}

/** Writes the same text as `isoTime`. */
function writeClock(seconds: number, out: JsonBytes): void {
  const minutes = Math.floor(seconds / 60)
  const hours = Math.floor(minutes / 60)
  out.digits(hours, 2)
  out.byte(COLON)
  out.digits(minutes - hours * 60, 2)
  out.byte(COLON)
  out.digits(seconds - minutes * 60, 2)
}

export const [QUOTE, COMMA, COLON, LETTER_T] = [34, 44, 58, 84]
