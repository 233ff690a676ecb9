import { join } from 'node:path'
import type { Column } from '../../../lake/iceberg/format/types.ts'
import { pathsOf } from '../../../lake/iceberg/read/table-sql.ts'
import { addedFiles, type TableChange } from '../../../lake/iceberg/write/result-write.ts'
import { counted, since, sized } from '../../core/amounts.ts'
import { explained } from '../author/slips.ts'
import { type Rendered, withLocation } from '../author/wording.ts'
import type { InterpreterLease, PythonLimits } from '../interpreter/interpreters.ts'
import { runPython } from '../python/run.ts'
import { openInstance, viewOf } from '../session/lake-session.ts'
import { lookedAt } from '../session/look.ts'
import { type OpenedInstance, openForTexts } from '../session/shared-instance.ts'
import { ofDuckdb } from '../write/quality-gate.ts'
import { type WriteMeans, writeResult } from '../write/table-write.ts'
import { LandingReads } from './landing-reads.ts'
import { lacksMemory, NeedsLargerEngine, withinSpill } from './larger-engine.ts'
import { withinOutput } from './output-limit.ts'
import { inputsOf, parsedIn, type RenderedAttempt } from './render.ts'

export interface ExecuteOptions {
  pythonLimits: PythonLimits
  /** Bytes that the result of one attempt may write; no limit if omitted. */
  outputBytes?: number
  /** Spilled bytes at which a run with `engine: auto` moves to Spark; null or omitted: no limit. */
  autoSpillBytes?: number | null
}

interface Executed {
  /** The change to the table, with local data files. */
  change: TableChange
  /** The instance of the pipeline's SQL, which can also run its tests; null for Python. */
  opened: OpenedInstance | null
}

/** Executes the pipeline and writes its result to files. Throws AuthorError, and the errors of engines. */
export async function execute(attempt: RenderedAttempt, options: ExecuteOptions): Promise<Executed> {
  const opened = await openFor(attempt)
  const reads = new LandingReads(attempt)
  try {
    const executed = await executeIn(attempt, opened, reads, options)
    attempt.context.facts.landingFileIds.push(...reads.ids())
    return executed
  } finally {
    reads.close()
  }
}

async function executeIn(
  attempt: RenderedAttempt,
  opened: OpenedInstance,
  reads: LandingReads,
  options: ExecuteOptions,
): Promise<Executed> {
  const { context, resources, template, draft, inputs, target } = attempt
  const { log } = context
  if (resources.python !== null) {
    const interpreted = await interpret(attempt, resources.python, { ...opened, ...options, reads })
    const { sql, path: file } = interpreted
    // The runner wrote this SQL, so its line numbers do not refer to the author's file.
    const change = await write(attempt, sql, { ...opened, ...options }).catch((error: unknown) => {
      throw withLocation(error, { file, source: '', sql: '' })
    })
    return { change, opened: null }
  }
  const rendered: Rendered = { ...template, sql: draft.sql }
  const isAuto = attempt.config.engine === 'auto' && resources.sparkEngine !== null
  let columns: readonly Column[] | null = null
  const onColumns = (found: readonly Column[]) => {
    columns = found
  }
  const means = { ...opened, ...options, autoSpillBytes: isAuto ? options.autoSpillBytes : null, onColumns }
  const look = async () =>
    draft.zones.length === 0
      ? draft.sql
      : lookedAt(draft.sql, {
          ...parsedIn(attempt, opened.number),
          write: log.write.bind(log),
          isNewTable: target.table === null,
        })
  const change = await look()
    .then((sql) => write(attempt, sql, means))
    .catch(async (error: unknown) => {
      if (isAuto && columns !== null && lacksMemory(error)) throw new NeedsLargerEngine(error, columns)
      const text = await inputs.textOf(draft, target.name)
      throw withLocation(await explained(error, text, parsedIn(attempt, opened.number)), rendered)
    })
  return { change, opened }
}

/** Opens an instance that shows the inputs of the pipeline. It may also read the files that its tests will need. */
export async function openFor(attempt: RenderedAttempt): Promise<OpenedInstance> {
  const { context, resources, target, inputs, draft, tests } = attempt
  const { engine, directory, landing, python } = resources
  const before = inputs.table(target.name)
  const found = inputs.found()
  const tables = [...new Set([...inputsOf(attempt), ...(before ? [before] : [])])]
  // The spilled rows of a run with `engine: auto` are counted, so it gets an instance of its own.
  const isCounted = attempt.config.engine === 'auto'
  if (python === null && draft.zones.length === 0 && !isCounted) {
    const texts = [draft.sql, ...ofDuckdb(tests).map(({ sql }) => sql)]
    return openForTexts(engine, { texts, tables, found, own: target.name }, resources, context.signal)
  }
  const paths = found.flatMap(({ files }) => pathsOf(files))
  return { number: await openInstance(engine, tables, directory, context.signal, { paths, landing }), viewOf }
}

function interpret(
  attempt: RenderedAttempt,
  lease: InterpreterLease,
  { number: instance, pythonLimits, reads }: OpenedInstance & ExecuteOptions & { reads: LandingReads },
) {
  const { context, target } = attempt
  const { log, signal } = context
  return runPython({
    ...attempt,
    lease,
    limits: pythonLimits,
    instance,
    own: target.name,
    table: target.table,
    log: {
      write: log.write.bind(log),
      warn: (message) => log.write('warn', message),
      drop: log.drop.bind(log),
    },
    onZone: (selection) => reads.add(selection),
    signal,
  })
}

async function write(
  { context, resources, target, inputs }: RenderedAttempt,
  sql: string,
  {
    number: instance,
    outputBytes: bytes = Number.POSITIVE_INFINITY,
    autoSpillBytes = null,
    onColumns,
  }: OpenedInstance & ExecuteOptions & Pick<WriteMeans, 'onColumns'>,
): Promise<TableChange> {
  const { engine, directory, lake } = resources
  const { name, table, rules, runStartedAt: at } = target
  const { log, signal } = context
  const started = performance.now()
  const own = join(directory, 'written')
  const warn = (message: string) => log.write('warn', message)
  const files = inputs.landings().flatMap((zone) => inputs.landing(zone).map(({ filename }) => filename))
  const work = (within: AbortSignal) =>
    writeResult(
      { sql, name, table, rules, at, root: lake.root, files },
      { engine, instance, directory, own, lake, warn, onColumns },
      within,
    )
  const change = await withinOutput({ directory: own, bytes, signal }, (within) =>
    autoSpillBytes === null
      ? work(within)
      : withinSpill({ directory, written: own, bytes: autoSpillBytes, signal: within }, work),
  )
  log.write('info', `${summaryOf(change)} in ${since(started)}`)
  if (change.repeatedRows)
    log.write(
      'info',
      `${counted(change.repeatedRows, 'row')} of the result not stored: another row has the same unique_key`,
    )
  if (change.olderRows)
    warn(
      `scd2 ignores ${counted(change.olderRows, 'row')}: the open version of the key is newer by watermark_column`,
    )
  return change
}

/** For example `3 rows inserted or changed, 2 files replaced, 14.2 kB of Parquet`. */
function summaryOf(change: TableChange): string {
  const { operation, rowsWritten, replaced, deletes } = change
  const bytes = addedFiles(change).reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  const parquet = `${sized(bytes)} of Parquet`
  if (operation !== 'rewrite' && deletes.length === 0) return `${counted(rowsWritten, 'row')}, ${parquet}`
  return `${counted(rowsWritten, 'row')} inserted or changed, ${counted(replaced.length, 'file')} replaced, ${parquet}`
}
