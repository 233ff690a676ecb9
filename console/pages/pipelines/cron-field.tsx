import { Cron } from 'croner'
import { Time } from '../../design/clock.tsx'
import { TextField } from '../../design/controls.tsx'

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
          Minute, hour, day, month, weekday; in UTC.{' '}
          {next === null ? (
            'This text is no cron expression.'
          ) : (
            <>
              Next: <Time at={next} exact />
            </>
          )}
        </>
      }
      value={value}
      onChange={(event) => onChange(event.target.value)}
    />
  )
}
