import { quoteLiteral } from '../../../lake/quote.ts'

// Dates such as `03/04/2026` have two meanings. A format must fit every value, and no other format may mean other days.

const WRITTEN = /^(\d{1,4})([-/. ])(\d{1,2})\2(\d{1,4})(?:([ T])(.+))?$/

/** How a time after a date can be written, and its format. */
const TIMES: readonly [RegExp, string][] = [
  [/^\d{1,2}:\d{2}$/, '%H:%M'],
  [/^\d{1,2}:\d{2}:\d{2}$/, '%H:%M:%S'],
  [/^\d{1,2}:\d{2}:\d{2}\.\d+$/, '%H:%M:%S.%f'],
  [/^\d{1,2}:\d{2} [AP]M$/i, '%I:%M %p'],
  [/^\d{1,2}:\d{2}:\d{2} [AP]M$/i, '%I:%M:%S %p'],
]

/** The formats that a date or time could have. Empty: it is neither. */
export function formatsOf(value: string): string[] {
  const [, first = '', sign = '', , last = '', blank = '', time = ''] = WRITTEN.exec(value.trim()) ?? []
  if (first === '') return []
  const clock = time === '' ? '' : TIMES.find(([pattern]) => pattern.test(time))?.[1]
  if (clock === undefined) return []
  const orders =
    first.length === 4
      ? ['%Y %m %d']
      : last.length === 4
        ? ['%d %m %Y', '%m %d %Y']
        : ['%d %m %y', '%m %d %y', '%y %m %d']
  return orders.map((order) => order.replaceAll(' ', sign) + blank + clock)
}

/** SQL of the number of values that each format fits. */
export const fitsSql = (value: string, formats: readonly string[]): string[] =>
  formats.map((format) => `count(try_strptime(${value}, ${quoteLiteral(format)}))`)

/** SQL that is true for a value that means another time in one of the formats. */
export const differsSql = (value: string, formats: readonly string[]): string => {
  const [first = '', ...others] = formats.map((format) => `try_strptime(${value}, ${quoteLiteral(format)})`)
  return others.map((other) => `${other} <> ${first}`).join(' OR ') || 'false'
}
