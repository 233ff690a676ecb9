// Formats the output of the demo. Lines fit the width of the terminal and are also readable in a file.

/** Width of the first column, which holds the name of a step. Lines that belong to a step are indented by it. */
const NAME_WIDTH = 18
const INDENT = ' '.repeat(2 + NAME_WIDTH + 1)
const DURATION_WIDTH = 8
const WIDTH_MAX = 100

export const widthOf = (columns: number | undefined) => Math.min(columns ?? WIDTH_MAX, WIDTH_MAX)

export const durationText = (ms: number) =>
  ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`

/** Formats `✓ name   result   0.1 s`. The durations of all steps are right-aligned. */
export function stepLine({ name, result, ms }: { name: string; result: string; ms: number }, width: number) {
  const resultWidth = Math.max(width - INDENT.length - DURATION_WIDTH, result.length)
  return `✓ ${name.padEnd(NAME_WIDTH)} ${result.padEnd(resultWidth)}${durationText(ms).padStart(DURATION_WIDTH)}`
}

export interface LogLine {
  message: string
}

/**
 * Formats one line per quality test in the log of a run. The sample rows of a failed test follow, one line each. Every line is
 * cut to the width.
 */
export function testLines(log: readonly LogLine[], severityOf: ReadonlyMap<string, string>, width: number) {
  const nameWidth = Math.max(0, ...[...severityOf.keys()].map((name) => name.length))
  return log.flatMap(({ message }) => {
    const [, name = '', resultText = ''] = /^test (\S+): (.*)$/s.exec(message) ?? []
    const severity = severityOf.get(name)
    if (severity === undefined) return []
    if (!/^(passed|failed)\b/.test(resultText)) return [cut(`${INDENT}    ${resultText}`, width)]
    const mark = resultText.startsWith('passed') ? '✓' : severity === 'warn' ? '!' : '✗'
    const outcome = resultText.replace(/ \(severity \w+\)/, '')
    return [cut(`${INDENT}${mark} ${name.padEnd(nameWidth)}  ${severity.padEnd(5)}  ${outcome}`, width)]
  })
}

/** Writes the phases of a run one after the other in a line, and begins a new line where the width ends. */
export function makePhaseLine(write: (text: string) => void, width: number) {
  let column = 0
  const put = (text: string) => {
    write(text)
    column += text.length
  }
  return {
    next(phase: string, { isLast = false } = {}) {
      if (column === 0) return put(INDENT + phase)
      const step = ` → ${phase}`
      if (column + step.length + (isLast ? 0 : DURATION_WIDTH) <= width) return put(step)
      write('\n')
      column = 0
      put(`${INDENT}→ ${phase}`)
    },
    /** Appends the duration of the phase. Durations below 100 ms are omitted. */
    took(ms: number) {
      if (ms >= 100) put(` ${(ms / 1_000).toFixed(1)} s`)
    },
    end() {
      if (column > 0) write('\n')
      column = 0
    },
  }
}

/** Formats a table: the column names, a rule, and one line per row. */
export function tableLines(names: readonly string[], rows: readonly Record<string, unknown>[]) {
  const cells = [names, ...rows.map((row) => names.map((name) => String(row[name])))]
  const widths = names.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)))
  const line = (row: readonly string[]) =>
    `  ${row.map((cell, column) => cell.padStart(widths[column] ?? 0)).join('  ')}`
  const [head = '', ...body] = cells.map(line)
  return [head, line(widths.map((width) => '─'.repeat(width))), ...body]
}

/** Cuts a text to the width. Line ends and tabs in values become spaces, so that one row stays one line. */
function cut(text: string, width: number) {
  const line = text.replace(/[\r\n\t]/g, ' ')
  return line.length <= width ? line : `${line.slice(0, width - 1)}…`
}
