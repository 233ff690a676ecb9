import { Cron } from 'croner'
import { TextField } from '../../design/controls.tsx'
import { absoluteUtc } from '../../design/format.ts'

const FIELDS = 5

/** The next due time of an expression, in ISO 8601; null: it is not valid or never due. */
function nextOf(expression: string): string | null {
  if (expression.trim().split(/\s+/).length !== FIELDS) return null
  try {
    return new Cron(expression, { timezone: 'UTC', paused: true }).nextRun()?.toISOString() ?? null
  } catch {
    return null
  }
}

/** A cron expression, with its next due time while the person types. */
export function CronField({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const next = nextOf(value)
  return (
    <TextField
      label="Cron expression"
      required
      spellCheck={false}
      autoComplete="off"
      hint={
        <>
          Minute, hour, day, month, weekday. The times are in UTC.{' '}
          {next === null ? (
            'This text is no cron expression.'
          ) : (
            <>
              Next: <time dateTime={next}>{absoluteUtc(new Date(next))}</time>
            </>
          )}
        </>
      }
      value={value}
      onChange={(event) => onChange(event.target.value)}
    />
  )
}
