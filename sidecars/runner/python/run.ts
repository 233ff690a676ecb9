import { chmod, chown, copyFile, link, lstat, mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TableName, tableKey } from '../../../ground/names.ts'
import { currentSchema, type TableMetadata } from '../../../lake/iceberg/format/metadata.ts'
import { movedTo, pathsOf, readTable } from '../../../lake/iceberg/read/table-sql.ts'
import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import { MERGE_STRATEGIES, type PipelineConfig } from '../../../lake/pipeline/config.ts'
import { NameError, parseTableName, zoneSelection } from '../../../lake/pipeline/names.ts'
import type { Template, TemplateVariables } from '../../../lake/pipeline/template.ts'
import { quoteIdentifier, quoteLiteral } from '../../../lake/quote.ts'
import { since, sized } from '../../core/amounts.ts'
import { changesUser } from '../../sandbox/ladder.ts'
import { explained, findIn } from '../author/slips.ts'
import { sqlWords } from '../author/wording.ts'
import { limits } from '../core/limits.ts'
import { EngineFault, type SqlParameters } from '../engine/engine-messages.ts'
import { tableExpression } from '../engine/sql-names.ts'
import { CPU_USED_UP, InterpreterEnded } from '../interpreter/interpreter.ts'
import type { InterpreterLease, PythonLimits } from '../interpreter/interpreters.ts'
import type { Call, Job, Result } from '../interpreter/messages.ts'
import type { Level } from '../session/attempt-log.ts'
import type { AttemptResources } from '../session/attempt-resources.ts'
import { type Inputs, noFiles } from '../session/inputs.ts'
import type { TableInput } from '../session/lake-session.ts'
import type { LandingOptions } from '../session/landing.ts'
import { lookedAt } from '../session/look.ts'
import { openInputs, withReads } from '../session/table-inputs.ts'
import {
  type RelationColumn,
  type ResultSql,
  relationColumn,
  selectForJson,
  selectForParquet,
  selectFromJson,
  selectFromParquet,
  selectNothing,
} from './value-sql.ts'

// One run of `pipeline.py`. The runner finds its inputs, and the engine computes its queries. Its result becomes one SELECT,
// which is written like that of any other pipeline.

interface PythonRun {
  resources: Pick<AttemptResources, 'lake' | 'engine'>
  lease: InterpreterLease
  limits: PythonLimits
  /** An open instance that can read the run's directory, and that shows the tables found so far. */
  instance: number
  inputs: Inputs
  /** The table that the run writes. */
  own: TableName
  template: Template
  config: PipelineConfig
  variables: TemplateVariables
  /** The table before the run; null: it does not exist. */
  table: TableMetadata | null
  landing: LandingOptions
  log: {
    write(level: Level, message: string): void
    /** Warns the author about the pipeline as a whole. */
    warn(message: string): void
    /** Counts lines that the interpreter left out. */
    drop(lines: number): void
  }
  /** Called for each selection of landing files that the source does not name in quotes, before the source gets its path. */
  onZone(selection: string): void
  signal: AbortSignal
}

interface PythonResult {
  /** A SELECT that returns the result. */
  sql: string
  /** Name of the source, with the line that set the result if known. Errors of the SELECT name it. */
  path: string
}

/** Runs the pipeline and logs its warnings. Throws AuthorError, EngineEnded, and the signal's reason. */
export async function runPython(run: PythonRun): Promise<PythonResult> {
  const { lease, log, template } = run
  const started = performance.now()
  const { step, python } = lease.sandbox
  log.write('info', `${template.file} runs on Python ${python.version}, sandbox: ${step}`)
  if (step === 'none') log.warn('no sandbox (SANDBOX=off): the pipeline has all rights of the runner')
  const result = await interpret(run)
  const { sql, warnings } = await sqlOf(result, run)
  for (const warning of warnings) log.warn(warning)
  log.write('info', `ran ${template.file} in ${since(started)}`)
  return { sql, path: placeOf(result.line) }
}

/** Runs the interpreter until the source has set its result. */
async function interpret(run: PythonRun): Promise<Result> {
  const { lease, template, log, signal } = run
  const path = join(lease.directories.inputs, SOURCE)
  await writeFile(path, template.source, { mode: 0o644 })
  if (changesUser(lease.sandbox.step)) await openToAll(lease.directories.inputs)
  const timeout = AbortSignal.timeout(run.limits.seconds * 1_000)
  const service = new PythonService(run)
  let isFull = false
  const endWatch = lease.watchDisk(() => {
    isFull = true
    lease.interpreter.end('the directory of the run is full')
  })
  const clean = (text: string) => withoutPlaces(text, lease)
  const listener = {
    answer: (call: Call) => service.answer(call),
    log: (level: Level, message: string) => log.write(level, clean(message)),
    dropped: (lines: number) => log.drop(lines),
  }
  try {
    const outcome = await lease.interpreter.work(
      jobOf(run, path),
      listener,
      AbortSignal.any([signal, timeout]),
    )
    if ('failed' in outcome) {
      const { line, message } = outcome.failed
      throw new AuthorError(clean(message), { where: placeOf(line) })
    }
    if ('checked' in outcome) throw sourceError('protocol error: invalid message')
    return outcome.result
  } catch (error) {
    signal.throwIfAborted()
    if (service.failure !== null) throw service.failure
    if (isFull)
      throw sourceError(
        `the directory of the run exceeded ${sized(lease.disk.bytes)} (PYTHON_DISK_LIMIT) or ${lease.disk.files} files, or had a path that is too long`,
      )
    if (timeout.aborted) throw sourceError(`time limit of ${run.limits.seconds} s exceeded (PYTHON_TIMEOUT)`)
    if (error instanceof InterpreterEnded) throw sourceError(endingOf(error))
    throw error
  } finally {
    endWatch()
  }
}

const jobOf = ({ lease, variables, config, limits: pythonLimits }: PythonRun, source: string): Job => ({
  kind: 'run',
  source,
  variables: {
    config: configFor(config),
    this: variables.this,
    run_started_at: variables.runStartedAt,
    watermark_value: variables.watermarkValue,
    strategy: variables.strategy,
    strategies: MERGE_STRATEGIES,
  },
  logLimits: { lines: limits.logLines, bytes: limits.logBytes },
  memory: sized(pythonLimits.memoryBytes),
  disk: lease.sandbox.step === 'bubblewrap' ? sized(lease.disk.bytes) : null,
  isConfined: lease.sandbox.step !== 'none',
})

const SOURCE = 'pipeline.py'
/** Replaces paths of the run's directories by relative paths, as the interpreter sees them. */
const withoutPlaces = (text: string, { directories, directory }: InterpreterLease): string =>
  [directories.own, directory].reduce(
    (cleaned, path) => cleaned.replaceAll(`${path}/`, '').replaceAll(path, '.'),
    text,
  )

const placeOf = (line: number | null) => (line === null ? SOURCE : `${SOURCE} line ${line}`)
const sourceError = (text: string) => new AuthorError(text, { where: SOURCE })

const endingOf = ({ why }: InterpreterEnded): string =>
  why.startsWith(CPU_USED_UP) ? CPU_USED_UP : `the Python process ended: ${why}`

/** The configuration with the names of config.yaml. */
const configFor = (config: PipelineConfig): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(config).map(([name, value]) => [
      name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value,
    ]),
  )

/** Makes files readable for all users, because they were created with the umask of the service. */
async function openToAll(directory: string): Promise<void> {
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true }))
    await chmod(join(entry.parentPath, entry.name), entry.isDirectory() ? 0o755 : 0o644)
}

/** Answers the calls of a running pipeline. */
class PythonService {
  /** A failure of the service, not of the pipeline. */
  failure: unknown = null
  readonly #run: PythonRun
  readonly #relations = new Map<number, RelationColumn[]>()
  readonly #computedTables = new Map<string, TableName>()
  #fetched: string | null = null
  #files = 0

  constructor(run: PythonRun) {
    this.#run = run
  }

  async answer(call: Call): Promise<{ value: unknown } | { error: string }> {
    try {
      return { value: await this.#value(call) }
    } catch (error) {
      if (error instanceof EngineFault) return { error: sqlWords(error) }
      if (error instanceof NameError || error instanceof Missing) return { error: error.message }
      if (error instanceof AuthorError) return { error: error.text }
      this.failure ??= error
      this.#run.lease.interpreter.end('internal error of the runner')
      return { error: 'internal error' }
    }
  }

  #value(call: Call): Promise<unknown> {
    switch (call.method) {
      case 'ref':
        return this.#ref(call.name)
      case 'landing_zone':
        return this.#landingZone(call)
      case 'relate':
        return this.#relate(call)
      case 'fetch':
        return this.#fetch(call)
    }
  }

  async #ref(text: string): Promise<string> {
    const { inputs, own, resources } = this.#run
    const name = parseTableName(text, own.namespace)
    const key = tableKey(name)
    if (inputs.table(name) === null && !this.#computedTables.has(key)) {
      const input = (await openInputs([name], resources.lake)).get(key)
      if (!input) throw new Missing(`table ${key} does not exist`)
      for (const each of withReads([input])) await this.#show(each)
    }
    return tableExpression(name)
  }

  /** The locked instance can read the run's directory, so the files are linked into it. Shows each table once. */
  async #show({ name, schema, files, view }: TableInput): Promise<void> {
    const { lease, resources, instance, inputs, signal } = this.#run
    const key = tableKey(name)
    if (inputs.found().some((shown) => tableKey(shown.name) === key) || this.#computedTables.has(key)) return
    const directory = join(lease.directory, 'late', String(this.#computedTables.size))
    await mkdir(directory, { recursive: true })
    const links = new Map(
      await Promise.all(
        pathsOf(files).map(async (path, index) => {
          const target = join(directory, `${index}.parquet`)
          await link(path, target).catch(() => copyFile(path, target))
          return [path, target] as const
        }),
      ),
    )
    const linked = movedTo(files, (path) => links.get(path) ?? path)
    const expression = tableExpression(name)
    const inSchema = quoteIdentifier(`${name.namespace}.${name.layer}`)
    const from = view ? `(\n${view.sql}\n)` : readTable(schema, linked)
    const sql = `CREATE SCHEMA IF NOT EXISTS ${inSchema}; CREATE VIEW ${expression} AS SELECT * FROM ${from}`
    await resources.engine.call({ kind: 'run', number: instance, sql }, signal).catch((error: unknown) => {
      throw view && error instanceof EngineFault && error.kind === 'binder'
        ? new Missing(`view ${key} cannot be read: ${sqlWords(error)}`)
        : error
    })
    this.#computedTables.set(key, name)
  }

  async #landingZone({ name, pattern }: Call & { method: 'landing_zone' }): Promise<string> {
    const { inputs, own, landing, lease } = this.#run
    const zone = zoneSelection(name, pattern)
    if (!inputs.knowsLanding(zone)) {
      await inputs.openLandings([zone], landing)
      if (inputs.landingPath(zone) !== null) this.#run.onZone(zone)
      if (changesUser(lease.sandbox.step)) await openToAll(lease.directories.inputs)
    }
    const path = inputs.landingPath(zone)
    if (path === null) throw new Missing(`landing zone ${name} does not exist in ${own.namespace}`)
    if (inputs.landing(zone).length === 0) throw new Missing(noFiles(zone))
    return path
  }

  async #relate({ sql, params }: Call & { method: 'relate' }): Promise<unknown> {
    const { resources, instance, signal } = this.#run
    refuseWatermark(sql, this.#run.variables.watermarkValue)
    const relation = this.#relations.size + 1
    if (relation > limits.pythonRelations)
      throw new Missing(`more than ${limits.pythonRelations} calls of sql() in one run: combine queries`)
    const name = relationName(relation)
    const described = await this.#looked(sql, params)
      .then((text) =>
        resources.engine.call({ kind: 'relate', number: instance, name, sql: text, params }, signal),
      )
      .catch((error) => this.#explained(error, sql))
    const columns = described.map(relationColumn)
    this.#relations.set(relation, columns)
    return { relation, columns }
  }

  async #looked(sql: string, params: SqlParameters): Promise<string> {
    const { resources, inputs, log } = this.#run
    if (inputs.landingPaths().size === 0) return sql
    const write = (level: Level, text: string) => (level === 'warn' ? log.warn(text) : log.write(level, text))
    return lookedAt(sql, { ...this.#run, engine: resources.engine, write }, params)
  }

  async #explained(error: unknown, sql: string): Promise<never> {
    const { resources, instance, signal, inputs, own } = this.#run
    const find = findIn(resources.lake, own.namespace)
    const zones = inputs.landingPaths()
    const quoted = [...zones.keys()].reduce((text, path) => text.replaceAll(path, quoteLiteral(path)), sql)
    const text = {
      language: 'python',
      namespace: own.namespace,
      tables: [own, ...inputs.found().map(({ name }) => name), ...this.#computedTables.values()],
      zones,
      sql,
      quotedSql: quoted === sql ? null : quoted,
    } as const
    throw await explained(error, text, { engine: resources.engine, instance, find, signal })
  }

  async #fetch({ relation, form }: Call & { method: 'fetch' }): Promise<{ path: string }> {
    const { resources, instance, lease, signal } = this.#run
    const columns = this.#relations.get(relation)
    if (columns === undefined) throw new Missing(`unknown relation ${relation}`)
    // The previous file has been read.
    if (this.#fetched !== null) await rm(this.#fetched, { force: true })
    this.#files += 1
    const path = join(lease.directories.inputs, `rows-${this.#files}.${form}`)
    const select = (form === 'json' ? selectForJson : selectForParquet)(relationName(relation), columns)
    const sql = `COPY (${select}) TO ${quoteLiteral(path)} (FORMAT ${form})`
    await resources.engine.call({ kind: 'run', number: instance, sql }, signal)
    if (changesUser(lease.sandbox.step)) await chmod(path, 0o644)
    this.#fetched = path
    return { path }
  }
}

/** Throws Missing if a query contains a watermark with a quote as it is, because the rest of the value would be SQL. */
function refuseWatermark(sql: string, watermark: string | null): void {
  // Shorter texts are parts of many queries.
  if (watermark !== null && watermark.length > 2 && watermark.includes("'") && sql.includes(watermark))
    throw new Missing(
      'watermark_value contains a quote, so it must not be part of the text of a query: sql("... > ?", [watermark_value])',
    )
}

/** A call that cannot be answered. The message is for the author. */
class Missing extends Error {}

const relationName = (relation: number) => `sluice_relation_${relation}`

/** The result as one SELECT. The interpreter is gone, so its files cannot change any more. */
async function sqlOf(result: Result, run: PythonRun): Promise<ResultSql> {
  const { config, table } = run
  const schema = table && currentSchema(table)
  const target = { schema: config.mergeStrategy === 'full_refresh' ? null : schema }
  switch (result.kind) {
    case 'relation':
      return { sql: `FROM ${quoteIdentifier(relationName(result.relation))}`, warnings: [] }
    case 'empty': {
      if (schema === null)
        throw new AuthorError(
          'result has no rows and no types, and the table does not exist yet: set result to the result of sql(), or add a row',
          { where: placeOf(result.line) },
        )
      const validityColumns = config.mergeStrategy === 'scd2' ? [config.scdValidFrom, config.scdValidTo] : []
      return { sql: selectNothing(schema, validityColumns), warnings: [] }
    }
    case 'json':
      return selectFromJson(result, await claimedFile('result.json', run), target)
    case 'parquet':
      return selectFromParquet(await claimedFile('result.parquet', run), result.nullColumns, target)
  }
}

/** Moves the file of the result out of the sandbox's reach, to this name, and then checks the file. */
async function claimedFile(file: string, { lease }: PythonRun): Promise<string> {
  const path = join(lease.directory, file)
  try {
    await rename(lease.directories.result, path)
  } catch {
    throw sourceError('the pipeline removed the file of its result')
  }
  const { nlink, size, isFile } = await lstat(path).then((found) => ({
    nlink: found.nlink,
    size: found.size,
    isFile: found.isFile(),
  }))
  if (!isFile || nlink !== 1) throw sourceError('the pipeline replaced the file of its result')
  if (size > limits.pythonFileBytes)
    throw sourceError(
      `the result has ${sized(size)}, but the limit is ${sized(limits.pythonFileBytes)}: return fewer rows or columns`,
    )
  // Engine processes of root have no rights over files of other users.
  if (changesUser(lease.sandbox.step)) {
    await chown(path, process.getuid?.() ?? 0, process.getgid?.() ?? 0)
    await chmod(path, 0o600)
  }
  return path
}
