// What the demo prints, as text: lines that stay within the width of the terminal and read the same in a file.

/** Of the first column, where the name of a step stands; everything that belongs to a step is indented by it. */
const NAME_WIDTH = 18
const INDENT = ' '.repeat(2 + NAME_WIDTH + 1)
const DURATION_WIDTH = 8
const WIDTH_MAX = 100

export const widthOf = (columns: number | undefined) => Math.min(columns ?? WIDTH_MAX, WIDTH_MAX)

export const durationText = (ms: number) =>
  ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`

/** `✓ name   what came of it   0.1 s`, with the durations of all steps below each other. */
export function stepLine({ name, result, ms }: { name: string; result: string; ms: number }, width: number) {
  const resultWidth = Math.max(width - INDENT.length - DURATION_WIDTH, result.length)
  return `✓ ${name.padEnd(NAME_WIDTH)} ${result.padEnd(resultWidth)}${durationText(ms).padStart(DURATION_WIDTH)}`
}

export interface LogLine {
  message: string
}

/**
 * One line a quality test, as the log of a run tells of it, and below one that failed the rows it shows, each cut to the
 * width.
 */
export function testLines(log: readonly LogLine[], severityOf: ReadonlyMap<string, string>, width: number) {
  const nameWidth = Math.max(0, ...[...severityOf.keys()].map((name) => name.length))
  return log.flatMap(({ message }) => {
    const [, name = '', told = ''] = /^test (\S+): (.*)$/s.exec(message) ?? []
    const severity = severityOf.get(name)
    if (severity === undefined) return []
    if (!/^(passed|failed)\b/.test(told)) return [cut(`${INDENT}    ${told}`, width)]
    const mark = told.startsWith('passed') ? '✓' : severity === 'warn' ? '!' : '✗'
    const outcome = told.replace(/ \(severity \w+\)/, '')
    return [cut(`${INDENT}${mark} ${name.padEnd(nameWidth)}  ${severity.padEnd(5)}  ${outcome}`, width)]
  })
}

/** A line that grows by one phase after the other, and goes on in the next line where the width ends. */
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
    /** How long the phase took; what is over in a moment is not worth its place. */
    took(ms: number) {
      if (ms >= 100) put(` ${(ms / 1_000).toFixed(1)} s`)
    },
    end() {
      if (column > 0) write('\n')
      column = 0
    },
  }
}

/** Columns side by side, the names above a rule. */
export function tableLines(names: readonly string[], rows: readonly Record<string, unknown>[]) {
  const cells = [names, ...rows.map((row) => names.map((name) => String(row[name])))]
  const widths = names.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)))
  const line = (row: readonly string[]) =>
    `  ${row.map((cell, column) => cell.padStart(widths[column] ?? 0)).join('  ')}`
  const [head = '', ...body] = cells.map(line)
  return [head, line(widths.map((width) => '─'.repeat(width))), ...body]
}

/** Values may hold line ends; one row stays one line. */
function cut(text: string, width: number) {
  const line = text.replace(/[\r\n\t]/g, ' ')
  return line.length <= width ? line : `${line.slice(0, width - 1)}…`
}
