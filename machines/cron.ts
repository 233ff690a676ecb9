// Cron texts: five fields, UTC. croner accepts more than the specification does (nicknames, dates, L, W, #, ?), so the
// fields and their characters are checked first, and a text whose time never comes is refused.
import { Cron } from 'croner'

/** Why a text is no cron of ours. */
export class BadCron extends Error {}

const FIELDS = ['minute', 'hour', 'day of month', 'month', 'weekday'] as const
/** Letters only where names are allowed. */
const CHARACTERS = [
  /^[\d*,/-]+$/,
  /^[\d*,/-]+$/,
  /^[\d*,/-]+$/,
  /^[\da-z*,/-]+$/i,
  /^[\da-z*,/-]+$/i,
] as const
const LENGTH_MAX = 200
/** Parsed texts kept: schedules share few. */
const KEPT_MAX = 1_000
const kept = new Map<string, Cron>()

/** Throws BadCron naming the field or the reason. */
export function checkCron(text: string, now: Date): void {
  parse(text)
  if (nextAfter(text, now) === null) throw new BadCron(`'${text}' names a time that never comes`)
}

/** The first time after `after`, or null when there is none any more. Throws BadCron. */
export const nextAfter = (text: string, after: Date): Date | null => parse(text).nextRun(after)

function parse(text: string): Cron {
  const known = kept.get(text)
  if (known !== undefined) return known
  if (text.length > LENGTH_MAX) throw new BadCron(`longer than ${LENGTH_MAX} characters`)
  const fields = text.trim().split(/\s+/)
  if (fields.length !== FIELDS.length)
    throw new BadCron(
      `'${text}' has ${text.trim() === '' ? 0 : fields.length} fields; a cron has five: ${FIELDS.join(', ')}`,
    )
  fields.forEach((field, at) => {
    if (!CHARACTERS[at]?.test(field)) throw new BadCron(`${FIELDS[at]} '${field}' is not understood`)
  })
  let cron: Cron
  try {
    cron = new Cron(fields.join(' '), { mode: '5-part', timezone: 'UTC', paused: true })
  } catch (error) {
    throw new BadCron(
      `'${text}' is not understood: ${error instanceof Error ? error.message.replace(/^CronPattern: /, '') : error}`,
    )
  }
  if (kept.size >= KEPT_MAX) kept.clear()
  kept.set(text, cron)
  return cron
}
