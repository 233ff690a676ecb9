import { shown } from '../../../lake/pipeline/names.ts'

// The engine explains a bad CSV file in twenty lines, most of them settings. People need file, line, column and reason.

/** The engine's CSV error in one line, with the remedy; null for any other error. */
export function csvFault(message: string): string | null {
  const sniffed = /Error when sniffing file "([^"\n]+)"/.exec(message)?.[1]
  if (sniffed !== undefined)
    return `${landingName(sniffed)}: the format of this CSV file is not recognized: give delim and quote to read_csv, or correct the file`
  const line = /\bCSV Error on Line: (\d+)/.exec(message)?.[1]
  if (line === undefined) return null
  const file = /^ {2}file = (.+)$/m.exec(message)?.[1]
  const location = `${file === undefined ? 'the CSV file' : landingName(file)} line ${line}`
  return `${location}${reasonOf(message)}`
}

const CONVERSION =
  /Error when converting column "((?:[^"\n]|"")*)"\. Could not convert string "([\s\S]*?)" to '([^'\n]+)'/
const COLUMNS = /Expected Number of Columns: (\d+) Found: (\d+)/
const ROW = /^Original Line: (.*)$/m

function reasonOf(message: string): string {
  const [, column, value, type] = CONVERSION.exec(message) ?? []
  if (column !== undefined)
    return `, column ${shown(column)}: ${shown(value)} is not of type ${type}: correct the file, or read the column as text (types={'${column.replaceAll("'", "''")}': 'VARCHAR'})`
  const [, expected, found] = COLUMNS.exec(message) ?? []
  if (expected !== undefined)
    return `: ${found} columns instead of ${expected} in ${shown(ROW.exec(message)?.[1] ?? '')}: correct the row, or skip such rows (ignore_errors=true)`
  if (/\bInvalid unicode\b/.test(message))
    return ": text that is not UTF-8: save the file as UTF-8, or name its encoding (encoding='latin-1')"
  const longest = /Maximum line size of (\d+) bytes exceeded/.exec(message)?.[1]
  if (longest !== undefined)
    return `: the line is longer than ${longest} bytes: correct the file, or give max_line_size to read_csv`
  const [, reason = 'the row cannot be read'] = /^Original Line: .*\n+([^\n]+)/m.exec(message) ?? []
  return `: ${reason}: correct the row, or skip such rows (ignore_errors=true)`
}

/** The path as people know it. Files of Python pipelines have a longer local path. */
export const landingName = (path: string): string =>
  /\blanding\/[^/]+\/[^/]+$/.exec(path)?.[0] ?? path.split('/').at(-1) ?? path
