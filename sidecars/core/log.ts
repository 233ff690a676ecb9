// Writes one line per event to standard output, with the request that the event belongs to. The supervisor adds time and name
// when it forwards lines.
import { traceFields } from '../../ground/telemetry/trace.ts'

type Fields = Record<string, string | number | boolean>

export interface Log {
  info(message: string, fields?: Fields): void
  warn(message: string, fields?: Fields): void
  error(message: string, fields?: Fields): void
}

export function makeLog(
  name: string,
  format: 'text' | 'json',
  write: (line: string) => void = (line) => process.stdout.write(line),
): Log {
  const line =
    (level: 'info' | 'warn' | 'error') =>
    (message: string, ownFields: Fields = {}) => {
      const fields = { ...ownFields, ...traceFields() }
      write(
        format === 'json'
          ? `${JSON.stringify({ level, name, message, ...fields })}\n`
          : `${level === 'info' ? '' : `${level} `}${oneEntry(message + textOf(fields))}\n`,
      )
    }
  return { info: line('info'), warn: line('warn'), error: line('error') }
}

const textOf = (fields: Fields) =>
  Object.entries(fields)
    .map(([key, value]) => ` ${key}=${value}`)
    .join('')

/** Formats a text as the log of the API does: later lines are indented, other control characters are escaped. */
const oneEntry = (text: string) =>
  text
    .replaceAll(/\r?\n/g, '\n    ')
    .replaceAll(
      /[^\P{Cc}\n]|[\u2028\u2029]/gu,
      (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
    )

/** The message of any thrown value. */
export const messageOf = (thrown: unknown): string =>
  thrown instanceof Error ? thrown.message || thrown.name : String(thrown)
