import { isDiskFull } from '../../../lake/disk-floor.ts'
import { CatalogError } from '../../../lake/iceberg/read/client.ts'
import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import { EngineEnded } from '../../engine/engine-process.ts'
import { MissingLakeFile } from '../../objects/missing-file.ts'
import { HttpFailure } from '../../rpc/http.ts'
import { SparkLost } from '../../spark/failure.ts'
import { EngineFault } from '../engine/engine-messages.ts'
import { csvFault } from '../readers/csv-fault.ts'
import { jsonFault } from '../readers/json-fault.ts'

// The texts about a run for the author of its pipeline.

/** Rendered SQL and its template. Both are empty if the engine's lines do not refer to the author's text. */
export interface Rendered {
  file: string
  source: string
  sql: string
}

/**
 * Decides whether a failure is for the author of the pipeline, and returns its text. Null: the service is at fault. `rendered`
 * is the SQL that failed.
 */
export function reasonOf(error: unknown, rendered?: Rendered): string | null {
  if (error instanceof EngineFault) return rendered ? sqlReason(error, rendered) : plainMessage(error)
  if (error instanceof AuthorError)
    return rendered && error.where === undefined ? `${rendered.file}: ${error.text}` : error.message
  if (
    error instanceof EngineEnded ||
    error instanceof SparkLost ||
    error instanceof HttpFailure ||
    error instanceof MissingLakeFile
  )
    return error.message
  if (isDiskFull(error)) return DISK_FULL
  if (error instanceof CatalogError) return `catalog error: ${error.message}`
  if (error instanceof Error && error.name === 'TimeoutError')
    return 'no answer from the service in time: try again'
  return null
}

/** Adds the position in the author's file to an error of the engine or of the writer. Other errors stay unchanged. */
export function withLocation(error: unknown, rendered: Rendered): unknown {
  const isPlaceable = error instanceof EngineFault || error instanceof AuthorError
  const reason = isPlaceable ? reasonOf(error, rendered) : null
  return reason === null ? error : new AuthorError(reason, { where: '', cause: error })
}

/** The engine's message about a query for `sql()`, with the line within the query. Python names the line of the file. */
export function sqlWords(fault: EngineFault): string {
  const words = plainMessage(fault)
  return fault.line === undefined || fault.line === 1 ? words : `${words} (line ${fault.line} of the query)`
}

/** The engine's message without its excerpt of the SQL. The excerpt shows paths of this machine besides the author's text. */
const plainMessage = ({ kind, message }: EngineFault) =>
  csvFault(message) ??
  jsonFault(message) ??
  (kind === 'broken' ? `internal error of the engine: ${upTo(message, /\n/)}` : upTo(message, /\nLINE \d+:/))
    // The engine suggests its own functions with similar names.
    .replace(/(Function with name (?:ref|landing_zone) does not exist)![\s\S]*$/, '$1')
    // The engine suggests its own internal tables.
    .replace(/^(Catalog Error: Table with name [^\n]+ does not exist)!\nDid you mean [^\n]+/, '$1')
    .replace(PATHS, withoutPlace)
    .trim()

/** Text from a slash on, which may contain several paths. Each text is matched once, however many slashes it has. */
const PATHS = /\/[^'"\n]*/g
/** The path of a cached copy in a directory of the runner. */
const CACHED = /\/cache\/[0-9a-f]{64}/g

/** Names an unreadable file by its path in the lake, not by its local path. A cached copy becomes `a file of the lake`. */
function withoutPlace(paths: string): string {
  const lakePath = paths.slice(paths.lastIndexOf('/_lake/') + 1)
  const cached = [...lakePath.matchAll(CACHED)].at(-1)
  return cached === undefined
    ? lakePath
    : `a file of the lake${lakePath.slice(cached.index + cached[0].length)}`
}

/** The text before the first match. A pattern that matched the rest too would search from every position. */
function upTo(text: string, pattern: RegExp): string {
  const at = text.search(pattern)
  return at === -1 ? text : text.slice(0, at)
}

function sqlReason(fault: EngineFault, { file, source, sql }: Rendered): string {
  const { kind, line } = fault
  const words = plainMessage(fault)
  // The rest is advice for people who can change the engine's settings.
  if (kind === 'out_of_memory') {
    const resource = /max_temp_directory_size/.test(words) ? 'temporary disk' : 'memory'
    const details = upTo(words, /\n[ \t]*(?:Possible solutions:|This limit was set by)/).trim()
    return `${file}: the query needs more ${resource} than the engine may use: ${details}`
  }
  if (NO_SPACE.test(words)) return `${file}: ${DISK_FULL}`
  const messageWithHint = `${words}${hintFor(words)}`
  if (sql === '') return `${file}: ${messageWithHint}`
  const renderedLine = line ?? endOf(words, sql) ?? readerOf(words, sql)
  if (renderedLine === null) return `${file}: ${messageWithHint}`
  const templateLine = sourceLine(renderedLine, source, sql)
  return templateLine === null
    ? `${file} (line ${renderedLine} of the rendered SQL): ${messageWithHint}`
    : `${file} line ${templateLine}: ${messageWithHint}`
}

/** The engine quotes the operating system. */
const NO_SPACE = /No space left on device|Disk quota exceeded/
const DISK_FULL = 'the disk of the runner is full: free some space on it, or write fewer rows'

/** The last line of a text that ends too early, because the engine reports no line for that error. Null: another error. */
const endOf = (words: string, sql: string): number | null =>
  words.endsWith('syntax error at end of input') ? sql.trimEnd().split('\n').length : null

/** The only line that reads the landing zone of the file in the message. It replaces the missing line of the engine. */
function readerOf(words: string, sql: string): number | null {
  const [zone] = /\blanding\/[a-z0-9-]+\//.exec(words) ?? []
  if (zone === undefined) return null
  const [line, another] = sql.split('\n').flatMap((text, at) => (text.includes(zone) ? [at + 1] : []))
  return another === undefined ? (line ?? null) : null
}

/** A hint for the most frequent mistake, which the engine cannot recognize. */
function hintFor(words: string): string {
  const [, called] = /Function with name (ref|landing_zone) does not exist/.exec(words) ?? []
  return called === undefined ? '' : `: ${called}() belongs to the template: write {{ ${called}(...) }}`
}

/** The line of the template that became a line of the SQL; null if unknown. */
function sourceLine(line: number, source: string, sql: string): number | null {
  const before = source.split(/\r?\n/)
  const after = sql.split(/\r?\n/)
  const text = after[line - 1] ?? ''
  // If the number of lines is unchanged, a line stays in its place, unless the template has another plain text there.
  const there = before[line - 1] ?? ''
  if (before.length === after.length && (there === text || there.includes('{'))) return line
  const isOnce = (lines: readonly string[]) => lines.indexOf(text) === lines.lastIndexOf(text)
  const index = before.indexOf(text)
  return text.trim() !== '' && index >= 0 && isOnce(before) && isOnce(after) ? index + 1 : null
}
