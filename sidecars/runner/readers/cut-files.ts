import { closeSync, openSync, readSync, statSync } from 'node:fs'
import { landingName } from './csv-fault.ts'
import { refusal } from './reader.ts'

// Files without their end that DuckDB reads as if they were complete. It refuses all other cut files itself.

/** The longest line that DuckDB reads. */
const LINE_BYTES = 2_097_152
const BLANKS_BYTES = 4_096
const QUOTE = 0x22
/** Bytes that can stand before the first quote of a CSV value. */
const BEFORE_VALUE = Buffer.from('\n\r,;|\t')

/** Refuses a JSON array without its end. DuckDB reads the values before the last comma. */
export function refuseCutArray(file: string, head: Buffer): void {
  const begin = head
    .toString('latin1')
    .replace(/^\u00ef\u00bb\u00bf/, '')
    .trimStart()
  if (!begin.startsWith('[')) return
  const end = tailOf(file, BLANKS_BYTES).toString('latin1').trimEnd()
  if (end !== '' && !end.endsWith(']'))
    throw refusal(`${landingName(file)} is cut: the array of JSON has no end: upload the file again`)
}

/** True for a file whose last quote opens a value, if its values have quotes. */
export function mayEndInQuote(file: string): boolean {
  const tail = tailOf(file, LINE_BYTES)
  const last = tail.lastIndexOf(QUOTE)
  return last === 0 || (last > 0 && BEFORE_VALUE.includes(tail.subarray(last - 1, last)))
}

export const openQuote = (file: string): Error =>
  refusal(
    `${landingName(file)} ends within a quote: upload the file again, or write quote='' if quotes are a part of its values`,
  )

/** The last bytes of a file. */
function tailOf(path: string, length: number): Buffer {
  const { size } = statSync(path)
  const bytes = Buffer.alloc(Math.min(size, length))
  const file = openSync(path, 'r')
  try {
    return bytes.subarray(0, readSync(file, bytes, 0, bytes.length, size - bytes.length))
  } finally {
    closeSync(file)
  }
}
