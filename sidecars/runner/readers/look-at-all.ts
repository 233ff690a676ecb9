import { EngineError } from '../../../lake/engine/error.ts'
import type { Engine } from '../../../lake/engine/instance.ts'
import { treeOn } from '../../../lake/engine/parser.ts'
import { shown } from '../../../lake/pipeline/names.ts'
import {
  argument,
  type Changes,
  callWith,
  canUnite,
  extended,
  isDetecting,
  ofFile,
  ofFiles,
  pathsArgument,
  type ReaderCall,
  readerCalls,
} from './calls.ts'
import { csvChanges } from './csv.ts'
import { csvFault, landingName } from './csv-fault.ts'
import { checkFiles } from './files.ts'
import { jsonArguments } from './json.ts'
import { jsonFault } from './json-fault.ts'
import { parquetArguments } from './parquet.ts'
import { isFatal, orNull, type Reader, refusal } from './reader.ts'

// DuckDB looks at a part of the files, and casts the rest. Here every call of a reader gets the types that keep all values.

/** Files that are read one by one to find the one that an error is about. */
const TRIED_FILES = 1_000

interface Note {
  level: 'info' | 'warn' | 'debug'
  text: string
}

interface LookOptions {
  /** The value of each parameter, as SQL. */
  parameters?: ReadonlyMap<string, string>
  /** The result becomes a new table. */
  isNewTable?: boolean
  /** The arguments that were found for calls and their files. */
  known: Map<string, Changes>
}

interface Looked {
  sql: string
  notes: Note[]
}

/**
 * Adds arguments to the calls of readers in a text. An argument of the author is never replaced, except that empty files are left
 * out of the paths. The lines of the text stay the same. Throws EngineError for files that no type keeps.
 */
export async function lookAtAll(
  engine: Engine,
  sql: string,
  { parameters, known, isNewTable = false }: LookOptions,
): Promise<Looked> {
  const calls = await readerCalls(treeOn(engine.connection), sql, parameters)
  const notes: Note[] = []
  let text = sql
  for (const call of calls) {
    const changes = await changesFor(call, { engine, notes, known, isNewTable }).catch((error: unknown) => {
      throw atLine(error, sql, call)
    })
    text = extended(text, call, changes)
  }
  return { sql: text, notes }
}

async function changesFor(
  call: ReaderCall,
  {
    engine,
    notes,
    known,
    isNewTable,
  }: { engine: Engine; notes: Note[]; isNewTable: boolean } & Pick<LookOptions, 'known'>,
): Promise<Changes> {
  const rows = async (query: string) =>
    (await engine.read(query))
      .getRowsJS()
      .map((row) => row.map((value) => (value === null ? null : String(value))))
  const paths = pathsArgument(call)
  if (paths === undefined) return UNCHANGED
  const listed = await orNull(rows(`SELECT file FROM glob(${paths}) ORDER BY file`))
  const files = (listed ?? []).flatMap(([file]) => file ?? [])
  if (files.length === 0) return UNCHANGED
  const key = JSON.stringify([callWith(call, {}), files])
  const found = known.get(key)
  if (found !== undefined) return found
  await checkFiles(call, files)
  const reader: Reader = {
    call,
    files,
    isNewTable,
    describe: (query) => engine.describe(`FROM ${query}`),
    rows,
    warn: (warning) => notes.push({ level: 'warn', text: warning }),
  }
  const looked = await orNull(changesBy(reader).catch((error) => throwWithFile(error, reader)))
  const changes = looked ?? { more: inFull(call), files: null }
  await warnOfIgnored(reader, changes)
  known.set(key, changes)
  const added = Object.entries(changes.more).map(([name, value]) => `${name}=${value}`)
  if (added.length > 0) {
    const called = `${call.name}(${shown(paths)})`
    notes.push({ level: 'info', text: `${called} looks at all values of its files (${lookedAt(call)})` })
    notes.push({ level: 'debug', text: `added to ${called}: ${added.join(', ')}` })
  }
  return changes
}

/** Warns of the first row that an argument of the author leaves out. */
async function warnOfIgnored(reader: Reader, { more, files }: Changes): Promise<void> {
  const { call, rows, warn } = reader
  const ignoring = ['ignore_errors', 'store_rejects'].find(
    (name) => argument(call, name)?.toLowerCase() === 'true',
  )
  if (ignoring === undefined) return
  const strict = callWith(files === null ? call : ofFiles(call, files), {
    ...more,
    ignore_errors: null,
    store_rejects: null,
  })
  try {
    await rows(`SELECT max(hash(line)) FROM ${strict} line`)
  } catch (error) {
    if (!(error instanceof EngineError) || isFatal(error)) throw error
    const reason = csvFault(error.message) ?? jsonFault(error.message) ?? error.message.split('\n')[0] ?? ''
    // Without its argument, the call can fail for another reason: the engine finds another format.
    const isOfRow = reader.files.some((file) => reason.includes(landingName(file)))
    const first = isOfRow ? `, the first one for this reason: ${reason}` : ''
    warn(`rows are left out or empty, because of ${ignoring}=true${first}`)
  }
}

const UNCHANGED: Changes = { more: {}, files: null }

async function changesBy(reader: Reader): Promise<Changes> {
  switch (reader.call.kind) {
    case 'csv':
      return csvChanges(reader)
    case 'json':
    case 'json_objects':
      return { more: await jsonArguments(reader), files: null }
    case 'parquet':
      return { more: await parquetArguments(reader), files: null }
  }
}

const FULL: Readonly<Record<ReaderCall['kind'], Readonly<Record<string, string>>>> = {
  csv: { sample_size: '-1', union_by_name: 'true' },
  json: {
    sample_size: '-1',
    union_by_name: 'true',
    map_inference_threshold: '-1',
    maximum_sample_files: '-1',
  },
  json_objects: {},
  parquet: { union_by_name: 'true' },
}

/** The engine's own way to look at all values, for a call that cannot be examined: the call itself names the error. */
const inFull = (call: ReaderCall): Record<string, string> =>
  argument(call, 'columns') === undefined && isDetecting(call)
    ? Object.fromEntries(
        Object.entries(FULL[call.kind]).filter(
          ([name]) => argument(call, name) === undefined && (name !== 'union_by_name' || canUnite(call)),
        ),
      )
    : {}

const lookedAt = (call: ReaderCall) =>
  Object.entries(inFull(call))
    .map(([name, value]) => `${name}=${value}`)
    .join(', ')

/**
 * A row that the engine cannot read is an error of the file. With another sample, the engine would not name the row. Some errors of
 * the engine name no file: the file is the first one that cannot be read alone.
 */
async function throwWithFile(error: unknown, { call, files, rows }: Reader): Promise<never> {
  if (!(error instanceof EngineError) || isFatal(error) || error.cause === undefined) throw error
  const fault = csvFault(error.message)
  const isNamed = files.some((file) => error.message.includes(landingName(file)))
  if (fault !== null && isNamed) throw new EngineError(error.kind, error.message)
  // The author names an argument, a type or a column that does not exist.
  const isOfCall = fault === null && (error.kind === 'binder' || error.kind === 'syntax')
  if (isNamed || isOfCall) throw error
  const fails = async (file: string, more: Readonly<Record<string, string>> = {}) =>
    (await orNull(
      rows(`SELECT count(*) FROM ${callWith(ofFile(call, file), { filename: null, ...more })}`),
    )) === null
  for (const file of files.slice(0, TRIED_FILES)) {
    if (!(await fails(file))) continue
    const isLoose = call.kind === 'csv' && !(await fails(file, { strict_mode: 'false' }))
    const reason = fault ?? error.message.split('\n')[0]
    throw refusal(
      isLoose
        ? `${landingName(file)}: the lines end in different ways, or a quote is broken: correct the file, or write strict_mode=false`
        : `${landingName(file)} cannot be read: ${reason}`,
    )
  }
  throw error
}

/** The error at the line of the call. */
function atLine(error: unknown, sql: string, call: ReaderCall): unknown {
  if (!(error instanceof EngineError) || error.cause !== undefined) return error
  const line = sql.slice(0, call.start).split('\n').length
  return new EngineError(error.kind, error.message, line, { cause: error })
}
