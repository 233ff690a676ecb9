// Converts single values to their JSON form.

/** The shortest number that equals this 32-bit float: 0.1, not 0.10000000149011612. */
export function shortFloat(value: number): number | null {
  if (!Number.isFinite(value)) return null
  for (let digits = 6; digits < 9; digits += 1) {
    const short = Number(value.toPrecision(digits))
    if (Math.fround(short) === value) return short
  }
  return Number(value.toPrecision(9))
}

/** Writes `-12345` with scale 2 as `-123.45`. */
export function decimalText(unscaled: bigint, scale: number): string {
  const digits = (unscaled < 0n ? -unscaled : unscaled).toString().padStart(scale + 1, '0')
  const integerPart = digits.slice(0, digits.length - scale)
  const sign = unscaled < 0n ? '-' : ''
  return scale === 0 ? `${sign}${integerPart}` : `${sign}${integerPart}.${digits.slice(-scale)}`
}

/** The engine stores infinite dates as the limits of 32 bits. */
const INFINITE_DAYS = 2 ** 31 - 1

/** Converts days since 1970 to `2001-02-03`. Years outside 0 to 9999 have a sign and six digits. Infinite dates are null. */
export function civilDate(days: number): string | null {
  if (Math.abs(days) >= INFINITE_DAYS) return null
  // Counts in eras of 400 Gregorian years that start on 1 March, so that leap days come last.
  const shifted = days + 719_468
  const era = Math.floor(shifted / 146_097)
  const dayOfEra = shifted - era * 146_097
  const yearOfEra = Math.floor(
    (dayOfEra -
      Math.floor(dayOfEra / 1_460) +
      Math.floor(dayOfEra / 36_524) -
      Math.floor(dayOfEra / 146_096)) /
      365,
  )
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100))
  const monthFromMarch = Math.floor((5 * dayOfYear + 2) / 153)
  const day = dayOfYear - Math.floor((153 * monthFromMarch + 2) / 5) + 1
  const month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
  const year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
  return `${yearText(year)}-${padded(month)}-${padded(day)}`
}

const padded = (value: number): string => (value < 10 ? `0${value}` : `${value}`)

function yearText(year: number): string {
  if (year >= 0 && year <= 9_999) return String(year).padStart(4, '0')
  return `${year < 0 ? '-' : '+'}${String(Math.abs(year)).padStart(6, '0')}`
}

/** Converts a time of day in units of 10^-digits seconds to `03:04:05.25`, without trailing zeros in the fraction. */
export function isoTime(units: number, digits: number): string {
  const perSecond = 10 ** digits
  const seconds = Math.floor(units / perSecond)
  const clock = `${padded(Math.floor(seconds / 3_600))}:${padded(Math.floor(seconds / 60) % 60)}:${padded(seconds % 60)}`
  const fraction = units % perSecond
  return fraction === 0 ? clock : `${clock}.${String(fraction).padStart(digits, '0').replace(/0+$/, '')}`
}

/** The engine stores infinite timestamps as the limits of 64 bits, in every unit. */
const INFINITE_UNITS = 2n ** 63n - 1n

/** Converts units of 10^-digits seconds since 1970 to `2001-02-03T04:05:06.7`. Infinite timestamps are null. */
export function isoTimestamp(units: bigint, digits: number): string | null {
  if (units === INFINITE_UNITS || units === -INFINITE_UNITS) return null
  const perDay = 86_400n * 10n ** BigInt(digits)
  const ofDay = ((units % perDay) + perDay) % perDay
  const date = civilDate(Number((units - ofDay) / perDay))
  return date === null ? null : `${date}T${isoTime(Number(ofDay), digits)}`
}
