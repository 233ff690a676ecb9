// Texts for numbers and times. The language is English, as everywhere in the product.

const NUMBER = new Intl.NumberFormat('en')
const DATE = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'medium' })
const TIME = new Intl.DateTimeFormat('en', {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
  hourCycle: 'h23',
})
const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' })

export const count = (value: number): string => NUMBER.format(value)

/** `1 row`, `1,234 rows`. */
export const counted = (value: number, noun: string): string =>
  `${count(value)} ${noun}${value === 1 ? '' : 's'}`

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']

/** Decimal units, for example `14.2 MB`. */
export function bytes(value: number): string {
  let [size, unit] = [value, 0]
  while (size >= 1_000 && unit < UNITS.length - 1) {
    size /= 1_000
    unit += 1
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${UNITS[unit]}`
}

/** Milliseconds as `85 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`
  const seconds = ms / 1_000
  if (seconds < 60) return `${seconds.toFixed(1)} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`
}

const STEPS: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ['second', 60],
  ['minute', 60],
  ['hour', 24],
  ['day', 30],
  ['month', 12],
]

/** `3 min. ago`, `in 2 hr.` */
export function relative(at: Date, now: Date): string {
  let value = (at.getTime() - now.getTime()) / 1_000
  for (const [unit, size] of STEPS) {
    if (Math.abs(value) < size) return RELATIVE.format(Math.round(value), unit)
    value /= size
  }
  return RELATIVE.format(Math.round(value), 'year')
}

export const absolute = (at: Date): string => DATE.format(at)

const UTC = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' })
/** The time in UTC, not in the zone of the browser. The text names the zone. */
export const absoluteUtc = (at: Date): string => `${UTC.format(at)} UTC`

/** `07:41:03.250`, in the zone of the browser like all times. */
export const timeOfDay = (at: Date): string => TIME.format(at)

const HOUR = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
/** `07:00`. */
export const hourOf = (at: Date): string => HOUR.format(at)
