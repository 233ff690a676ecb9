// Log lines are numbered attempt * 1,000,000 + line, so a line that is reported twice is stored once.
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { columnNames, recordset } from '../../../drizzle/rows.ts'
import { runLogs } from '../../../drizzle/schema/run.ts'
import type { Part } from '../../../drizzle/sql.ts'
import type { RunId } from '../../core/ids.ts'
import { limits } from '../../core/limits.ts'

export type LogLevel = (typeof runLogs.$inferSelect)['level']

export interface LogLine {
  runId: RunId
  seq: number
  at: Date
  level: LogLevel
  message: string
}

/** Range of numbers of one attempt's lines. The service's opening lines have the lowest numbers. */
export const ATTEMPT_LINES = 1_000_000
const RUNNER = 1_000
const AFTERWARDS = 900_000

/** Numbers of the runner's lines, and of the service's lines after them. */
export const seqOfRunner = (attempt: number, line: number) => attempt * ATTEMPT_LINES + RUNNER + line
export const seqAfter = (attempt: number, line: number) => attempt * ATTEMPT_LINES + AFTERWARDS + line

/** The runner's number of the last stored line of an attempt, or 0. */
export const runnerLine = (attempt: number, seq: number) =>
  Math.max(0, seq - attempt * ATTEMPT_LINES - RUNNER)

/**
 * Stores lines as part of another statement. Lines that already exist and lines of deleted runs are skipped. The log of a run
 * ends with the run, although a cancelled attempt sends lines until its runner has stopped.
 */
export const loggedPart = (tx: Sql | SqlTx, lines: readonly LogLine[]): Part[] =>
  lines.length === 0 ? [] : [tx`logged as (${insertLines(tx, lines)})`]

function insertLines(tx: Sql | SqlTx, lines: readonly LogLine[]) {
  const rows = lines.map((line) => ({ ...line, message: storableText(line.message) }))
  return tx`
    insert into run_log (${columnNames(tx, runLogs, LINE_COLUMNS)})
    select ${columnNames(tx, runLogs, LINE_COLUMNS, 'l.')}
    from ${recordset(tx, runLogs, LINE_COLUMNS, rows, 'l')}
    cross join lateral (
      select 1 from run where run.id = l.run_id
        and (run.status in ('pending', 'running') or l.seq % ${ATTEMPT_LINES}::int > ${AFTERWARDS}::int) limit 1) known
    order by l.run_id, l.seq
    on conflict (run_id, seq) do nothing`
}

const LINE_COLUMNS = ['runId', 'seq', 'at', 'level', 'message'] as const

/** Text that Postgres can store: without NUL and lone surrogates, cut at the maximum length. */
export function storableText(text: string): string {
  const isLong = text.length > limits.logMessageLength
  const shortened = isLong ? `${text.slice(0, limits.logMessageLength)} [cut]` : text
  return shortened.replaceAll('\u0000', '\uFFFD').toWellFormed()
}
