// Cron expressions have five fields, in UTC. The library croner also accepts nicknames, seconds, dates, L, W, #, ? and +. The
// specification does not, so each field is checked before croner parses the expression. `checkCron` also refuses an expression
// that never matches a time.
import { Cron } from 'croner'

/** An invalid cron expression; the message names the reason. */
export class BadCron extends Error {}

interface Field {
  name: string
  min: number
  max: number
  /** The first name stands for `min`. For weekdays, 0 and 7 both mean Sunday. */
  names?: readonly string[]
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const WEEKDAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']
const FIELDS: readonly Field[] = [
  { name: 'minute', min: 0, max: 59 },
  { name: 'hour', min: 0, max: 23 },
  { name: 'day of month', min: 1, max: 31 },
  { name: 'month', min: 1, max: 12, names: MONTHS },
  { name: 'weekday', min: 0, max: 7, names: WEEKDAYS },
]
/** `*`, a value or a range, each with an optional step. `checkItem` refuses a step after a value. */
const ITEM = /^(?:(\*)|(\d{1,2}|[a-z]{3})(?:-(\d{1,2}|[a-z]{3}))?)(?:\/(\d{1,2}))?$/i
const LENGTH_MAX = 200
/** Parsed expressions in the cache: one for each minute of a day, plus a reserve. */
const CACHE_MAX = 2_000
const cachedCrons = new Map<string, Cron>()

/** Throws BadCron, which names the field or the reason. */
export function checkCron(text: string, now: Date): void {
  parse(text)
  if (nextAfter(text, now) === null)
    throw new BadCron(`'${text}' matches no future time: correct the day or the month`)
}

/** The first time after `after`, or null if the expression matches no later time. Throws BadCron. */
export const nextAfter = (text: string, after: Date): Date | null => parse(text).nextRun(after)

function parse(text: string): Cron {
  const cached = cachedCrons.get(text)
  if (cached !== undefined) return cached
  if (text.length > LENGTH_MAX) throw new BadCron(`longer than ${LENGTH_MAX} characters`)
  const fields = text.split(/[ \t]+/).filter((field) => field !== '')
  if (fields.length !== FIELDS.length)
    throw new BadCron(
      `'${text}' has ${fields.length} ${fields.length === 1 ? 'field' : 'fields'}; a cron expression has five: ${FIELDS.map(({ name }) => name).join(', ')}`,
    )
  for (const [at, field] of FIELDS.entries())
    for (const item of String(fields[at]).split(',')) checkItem(field, item)
  let cron: Cron
  try {
    cron = new Cron(fields.join(' '), { mode: '5-part', timezone: 'UTC', paused: true })
  } catch (error) {
    throw new BadCron(`'${text}' cannot be parsed: ${error instanceof Error ? error.message : error}`)
  }
  if (cachedCrons.size >= CACHE_MAX) cachedCrons.clear()
  cachedCrons.set(text, cron)
  return cron
}

function checkItem(field: Field, item: string) {
  const { name, min, max } = field
  const [, star, from, to, step] = ITEM.exec(item) ?? []
  const first = from === undefined ? min : numberOf(field, from)
  const last = to === undefined ? first : numberOf(field, to, { isEnd: true })
  if ((star ?? from) === undefined || first === null || last === null)
    throw new BadCron(`invalid ${name} '${item}': use *, a number, a range such as 1-5 or a step such as */5`)
  for (const value of [first, last])
    if (value < min || value > max) throw new BadCron(`${name} ${value} is not between ${min} and ${max}`)
  if (last < first)
    throw new BadCron(`${name} range '${item}' ends before it starts: swap its ends or list two ranges`)
  if (step === undefined) return
  if (star === undefined && to === undefined)
    throw new BadCron(`${name} '${item}': a step needs * or a range before it, such as */5`)
  if (Number(step) < 1 || Number(step) > max)
    throw new BadCron(`${name} '${item}': a step must be between 1 and ${max}`)
}

/** Null for a name that the field does not know. A range that ends on `sun` ends on 7. */
function numberOf({ names, min }: Field, text: string, { isEnd = false } = {}): number | null {
  if (/^\d/.test(text)) return Number(text)
  const at = names?.indexOf(text.toLowerCase()) ?? -1
  if (at === -1) return null
  return isEnd && min + at === 0 ? 7 : min + at
}
