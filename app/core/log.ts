// One line per event, for people or for machines. The supervisor adds time and name when it passes lines on.

export type Fields = Record<string, unknown>

export interface Log {
  info(message: string, fields?: Fields): void
  warn(message: string, fields?: Fields): void
  error(message: string, fields?: Fields): void
  /** The same log under a longer name, such as `api dispatcher`. */
  named(name: string): Log
}

export type LogFormat = 'text' | 'json'

/** Takes a line with its end. What is urgent must be out before anything else happens. */
export type WriteLine = (line: string, isUrgent: boolean) => unknown

/** Writes to standard output; `error` fields are reduced to their message and, for broken invariants, the stack. */
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
 * Lines of one turn of the event loop go out in one write: each write costs as much as answering a request. Warnings and
 * errors wait for nothing, and take what waits with them; `flush` is for the end of the process.
 */
export function linesTogether(write: (lines: string) => unknown): { write: WriteLine; flush(): void } {
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
 * What others have written must not look like an entry of ours, nor move the cursor of who reads: further lines are indented,
 * which ours never are, and other control characters are spelt out.
 */
const oneEntry = (text: string) =>
  CONTROL.test(text) ? text.replaceAll(/\r?\n/g, '\n    ').replaceAll(OTHER_CONTROL, escaped) : text

const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`

const CONTROL = /[\p{Cc}\u2028\u2029]/u
const OTHER_CONTROL = /[^\P{Cc}\n]|[\u2028\u2029]/gu
