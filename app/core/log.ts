// One line per event, for people or for machines. The supervisor adds time and name when it forwards lines.

export type Fields = Record<string, unknown>

export interface Log {
  info(message: string, fields?: Fields): void
  warn(message: string, fields?: Fields): void
  error(message: string, fields?: Fields): void
  /** The same log under a longer name, such as `api dispatcher`. */
  named(name: string): Log
}

type LogFormat = 'text' | 'json'

/** Writes a line, which includes its newline. An urgent line must be written immediately. */
type WriteLine = (line: string, isUrgent: boolean) => unknown

/** Writes to standard output. An error in `fields` is written as its stack, or as its message without a stack. */
export function makeLog(
  name: string,
  format: LogFormat,
  write: WriteLine = (line) => process.stdout.write(line),
): Log {
  const line = (level: string) => (message: string, fields?: Fields) => {
    const plain = fields === undefined ? {} : plainFields(fields)
    write(
      format === 'json'
        ? `${JSON.stringify({ level, name, message, ...plain })}\n`
        : `${level === 'info' ? '' : `${level} `}${oneEntry(message + textFields(plain))}\n`,
      level !== 'info',
    )
  }
  return {
    info: line('info'),
    warn: line('warn'),
    error: line('error'),
    named: (inner) => makeLog(`${name} ${inner}`, format, write),
  }
}

/**
 * Joins the lines of one turn of the event loop into one write, because each write costs as much as answering a request.
 * Warnings and errors are written at once, together with the lines that wait. `flush` is for the end of the process.
 */
export function batchLines(write: (lines: string) => unknown): { write: WriteLine; flush(): void } {
  let waiting = ''
  function flush() {
    if (waiting === '') return
    const lines = waiting
    waiting = ''
    write(lines)
  }
  return {
    flush,
    write(line, isUrgent) {
      if (waiting === '' && !isUrgent) setImmediate(flush)
      waiting += line
      if (isUrgent) flush()
    },
  }
}

const plainFields = (fields: Fields) =>
  Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [
      key,
      value instanceof Error
        ? (value.stack ?? value.message)
        : typeof value === 'bigint'
          ? String(value)
          : value,
    ]),
  )

const textFields = (fields: Fields) =>
  Object.entries(fields)
    .map(([key, value]) => ` ${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join('')

/**
 * Text of others must not look like an entry of ours, nor move the cursor of a terminal. Further lines are therefore indented,
 * which entries never are, and other control characters are escaped.
 */
const oneEntry = (text: string) =>
  CONTROL.test(text) ? text.replaceAll(/\r?\n/g, '\n    ').replaceAll(OTHER_CONTROL, escaped) : text

const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`

const CONTROL = /[\p{Cc}\u2028\u2029]/u
const OTHER_CONTROL = /[^\P{Cc}\n]|[\u2028\u2029]/gu
