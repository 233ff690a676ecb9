import type { Line } from './use-log.ts'

// The runner writes these facts of an attempt as lines of the log, in this form.

export interface Outcome {
  /** For example `0.01 CPU s, 1.3 kB read`. */
  cost: string | null
  /** The SQL of the pipeline as it was executed; null for Python and before the rendering. */
  sql: string | null
  /** For example `default.bronze.orders: 2 rows in 1 file`. */
  reads: readonly string[]
}

const ATTEMPT = /^attempt \d+: /
const COST = 'cost: '
const SQL = 'rendered SQL:\n'
const READS = 'reads '

/** The facts of the latest attempt. */
export function outcomeOf(lines: readonly Line[]): Outcome {
  const start = lines.findLastIndex(({ message }) => ATTEMPT.test(message))
  const messages = lines.slice(Math.max(0, start)).map(({ message }) => message)
  const after = (prefix: string) =>
    messages.flatMap((message) => (message.startsWith(prefix) ? message.slice(prefix.length) : []))
  return { cost: after(COST).at(-1) ?? null, sql: after(SQL).at(-1) ?? null, reads: after(READS) }
}
