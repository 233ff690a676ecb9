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

/** Writes to standard output; `error` fields are reduced to their message and, for broken invariants, the stack. */
export function makeLog(
  name: string,
  format: LogFormat,
  write = (line: string) => process.stdout.write(line),
): Log {
  const line = (level: string) => (message: string, fields?: Fields) => {
    const plain = fields === undefined ? {} : plainFields(fields)
    write(
      format === 'json'
        ? `${JSON.stringify({ level, name, message, ...plain })}\n`
        : `${level === 'info' ? '' : `${level} `}${message}${textFields(plain)}\n`,
    )
  }
  return {
    info: line('info'),
    warn: line('warn'),
    error: line('error'),
    named: (inner) => makeLog(`${name} ${inner}`, format, write),
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
