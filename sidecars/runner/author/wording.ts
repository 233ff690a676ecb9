import { isDiskFull } from '../../../lake/disk-floor.ts'
import { CatalogError } from '../../../lake/iceberg/read/client.ts'
import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import { EngineEnded } from '../../engine/engine-process.ts'
import { HttpFailure } from '../../rpc/http.ts'
import { EngineFault } from '../engine/engine-messages.ts'
import { csvFault } from './csv-fault.ts'

// What a run says to the author of its pipeline.

/** Rendered SQL and the template it came from; '' where the engine's lines are none of the author's. */
export interface Rendered {
  file: string
  source: string
  sql: string
}

/**
 * Decides whether a failure is for the author of the pipeline, and puts it into words. Null: the service is at fault.
 * `rendered` is the SQL that the failure is about.
 */
export function reasonOf(error: unknown, rendered?: Rendered): string | null {
  if (error instanceof EngineFault) return rendered ? sqlReason(error, rendered) : wordsOf(error)
  if (error instanceof AuthorError)
    return rendered && error.where === undefined ? `${rendered.file}: ${error.text}` : error.message
  if (error instanceof EngineEnded || error instanceof HttpFailure) return error.message
  if (isDiskFull(error)) return DISK_FULL
  if (error instanceof CatalogError) return `the catalog: ${error.message}`
  if (error instanceof Error && error.name === 'TimeoutError') return 'the service does not answer'
  return null
}

/** Adds the place in the author's file to an error of the engine or of the writer. Other errors stay as they are. */
export function placed(error: unknown, rendered: Rendered): unknown {
  const isPlaceable = error instanceof EngineFault || error instanceof AuthorError
  const reason = isPlaceable ? reasonOf(error, rendered) : null
  return reason === null ? error : new AuthorError(reason, { where: '', cause: error })
}

/** What the engine says of a query given to `sql()`: its own line, because that of the file is somebody else's to say. */
export function sqlWords(fault: EngineFault): string {
  const words = wordsOf(fault)
  return fault.line === undefined || fault.line === 1 ? words : `${words} (line ${fault.line} of the query)`
}

/** The engine's words without its excerpt of the SQL, which shows paths of this machine as well as the author's text. */
const wordsOf = ({ kind, message }: EngineFault) =>
  csvFault(message) ??
  (kind === 'broken'
    ? `the engine cannot run this, it failed inside: ${upTo(message, /\n/)}`
    : upTo(message, /\nLINE \d+:/)
  )
    // Names of the engine's functions that sound like ours.
    .replace(/(Function with name (?:ref|landing_zone) does not exist)![\s\S]*$/, '$1')
    // The engine suggests its own internal tables.
    .replace(/^(Catalog Error: Table with name [^\n]+ does not exist)!\nDid you mean [^\n]+/, '$1')
    .replace(PATHS, withoutPlace)
    .trim()

/** What begins with a path and may hold more of them: looked at once, however many slashes it has. */
const PATHS = /\/[^'"\n]*/g
/** Where the runner keeps copies of files. */
const CACHED = /\/cache\/[0-9a-f]{64}/g

/** A file of the lake that cannot be read is named as the lake does, not by its place on this machine; or it is a copy of one. */
function withoutPlace(paths: string): string {
  const rest = paths.slice(paths.lastIndexOf('/_lake/') + 1)
  const cached = [...rest.matchAll(CACHED)].at(-1)
  return cached === undefined ? rest : `a file of the lake${rest.slice(cached.index + cached[0].length)}`
}

/** The text up to what is not said to people; patterns with an end would look for it from each place anew. */
function upTo(text: string, what: RegExp): string {
  const at = text.search(what)
  return at === -1 ? text : text.slice(0, at)
}

function sqlReason(fault: EngineFault, { file, source, sql }: Rendered): string {
  const { kind, line } = fault
  const words = wordsOf(fault)
  // What follows is advice for someone who can change the engine's settings.
  if (kind === 'out_of_memory') {
    const what = /max_temp_directory_size/.test(words) ? 'temporary disk' : 'memory'
    const which = upTo(words, /\n[ \t]*(?:Possible solutions:|This limit was set by)/).trim()
    return `${file}: the query needs more ${what} than its engine has: ${which}`
  }
  if (NO_SPACE.test(words)) return `${file}: ${DISK_FULL}`
  const said = `${words}${hintFor(words)}`
  if (sql === '') return `${file}: ${said}`
  const place = line ?? endOf(words, sql) ?? readerOf(words, sql)
  if (place === null) return `${file}: ${said}`
  const own = sourceLine(place, source, sql)
  return own === null
    ? `${file} (line ${place} of the rendered SQL): ${said}`
    : `${file} line ${own}: ${said}`
}

/** The engine quotes the system. */
const NO_SPACE = /No space left on device|Disk quota exceeded/
const DISK_FULL = 'the disk of the runner is full: free some space on it, or write fewer rows'

/** The last line of a text that ends too soon: the engine counts none for that. Null: it is something else. */
const endOf = (words: string, sql: string): number | null =>
  words.endsWith('syntax error at end of input') ? sql.trimEnd().split('\n').length : null

/** The one line that reads the landing zone of the file which the engine names, in place of a line. */
function readerOf(words: string, sql: string): number | null {
  const [zone] = /\blanding\/[a-z0-9-]+\//.exec(words) ?? []
  if (zone === undefined) return null
  const [line, another] = sql.split('\n').flatMap((text, at) => (text.includes(zone) ? [at + 1] : []))
  return another === undefined ? (line ?? null) : null
}

/** The commonest slip of all, which the engine knows nothing of. */
function hintFor(words: string): string {
  const [, called] = /Function with name (ref|landing_zone) does not exist/.exec(words) ?? []
  return called === undefined ? '' : `: ${called}() is of the template, write {{ ${called}(...) }}`
}

/** The line of the template that became a line of the SQL; null where nobody can say. */
function sourceLine(line: number, source: string, sql: string): number | null {
  const before = source.split(/\r?\n/)
  const after = sql.split(/\r?\n/)
  const text = after[line - 1] ?? ''
  // What was rendered into as many lines stands where it stood, unless it is plain text that stands elsewhere.
  const there = before[line - 1] ?? ''
  if (before.length === after.length && (there === text || there.includes('{'))) return line
  const isOnce = (lines: readonly string[]) => lines.indexOf(text) === lines.lastIndexOf(text)
  const place = before.indexOf(text)
  return text.trim() !== '' && place >= 0 && isOnce(before) && isOnce(after) ? place + 1 : null
}

const NUMBER = new Intl.NumberFormat('en-US')

/** `1 row`, `3,000 rows`. */
export const counted = (count: number | bigint, noun: string): string =>
  `${NUMBER.format(count)} ${noun}${Number(count) === 1 ? '' : 's'}`

export function sized(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`
  if (bytes < 1_000_000) return `${(bytes / 1_000).toFixed(1)} kB`
  return bytes < 1_000_000_000
    ? `${(bytes / 1_000_000).toFixed(1)} MB`
    : `${(bytes / 1_000_000_000).toFixed(2)} GB`
}

/** Milliseconds since `start` of `performance.now()`, as text. */
export function since(start: number): string {
  const ms = performance.now() - start
  return ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`
}
