import { invalid } from './errors.ts'

/** Parses the time of a field. Without a zone the time is UTC, as every time of this API. */
export function instantOf(field: string, text: string): Date {
  const match = ISO_8601.exec(text)
  if (match === null) throw invalid(field, NOT_A_TIME)
  const [, day = '', time = '00:00', zone = 'Z'] = match
  const date = new Date(`${day}T${time}${zone.toUpperCase()}`)
  const isDay = new Date(`${day}T00:00Z`).toJSON()?.startsWith(day)
  if (!isDay || Number.isNaN(date.getTime())) throw invalid(field, NOT_A_TIME)
  const year = date.getUTCFullYear()
  if (year < 1 || year > 9_999) throw invalid(field, 'must be in the years 1 to 9999')
  return date
}

const NOT_A_TIME = 'must be an ISO 8601 time, such as 2026-03-01T06:45:00Z'
const ISO_8601 = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)([Zz]|[+-]\d{2}:?\d{2})?)?$/
