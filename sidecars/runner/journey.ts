import { randomUUID } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { TableMetadata } from '../../lake/iceberg/metadata.ts'
import { quoteName } from '../../lake/iceberg/sql.ts'
import { type PipelineConfig, parseConfig, problemText, supportedNow } from '../../lake/pipeline/config.ts'
import { LAYERS, type TableName, tableKey } from '../../lake/pipeline/names.ts'
import {
  type Asked,
  collectTemplate,
  renderTemplate,
  type TemplateVariables,
} from '../../lake/pipeline/template.ts'
import type { LakeAccess, SubmitPipelineRequest } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { AttemptFailure, type Work } from './attempts.ts'
import type { EngineLease, EnginePool } from './engine-pool.ts'
import { Inputs, openLandings, openTables, tablesAsked, zonesAsked } from './inputs.ts'
import { type LakeSession, openInstance, type TableInput, tableExpression } from './lake-session.ts'
import { fetchPipelineFiles, type PipelineFiles } from './pipeline-files.ts'
import { askedByTests, runTests, tally } from './quality-gate.ts'
import {
  commitResult,
  type Mode,
  type StoredResult,
  storeResult,
  type WrittenResult,
  writeResult,
} from './table-write.ts'
import { counted, type Rendered, reasonOf, since, sized } from './wording.ts'

// One attempt from its pinned files to its facts: render, execute, commit once to the branch, judge the branch.

export interface JourneyOptions {
  openLake(lake: LakeAccess, signal: AbortSignal): Promise<LakeSession>
  pool: EnginePool
  /** Each attempt has a directory of its own in it, for as long as it runs. */
  directory: string
}

/** Makes the function that executes attempts. It throws AttemptFailure, and the signal's reason. */
export function makeJourney({ openLake, pool, directory: root }: JourneyOptions) {
  return async function execute(work: Work): Promise<void> {
    const { request, signal } = work
    const directory = join(root, randomUUID())
    const journey = new Journey(work, directory)
    // All are under way at once; whichever fails, the others are undone below.
    const opened = openLake(lakeOf(request), signal)
    const taken = pool.take(signal)
    const made = mkdir(directory, { recursive: true })
    try {
      const [lake, engine] = await Promise.all([opened, taken, made])
      await journey.go(lake, engine)
    } catch (error) {
      signal.throwIfAborted()
      const reason = error instanceof AttemptFailure ? error.message : reasonOf(error, journey.rendered)
      if (reason === null) throw error
      // Where the work was done is nobody's business.
      throw new AttemptFailure(reason.replaceAll(`${directory}/`, ''), { cause: error })
    } finally {
      const [lake, engine] = await Promise.allSettled([opened, taken])
      if (engine.status === 'fulfilled') await engine.value.release()
      if (lake.status === 'fulfilled') lake.value.close()
      await rm(directory, { recursive: true, force: true })
    }
  }
}

/** The table an attempt writes, as it is before: null, if it does not exist. */
interface Target {
  name: TableName
  table: TableMetadata | null
  mode: Mode
}

interface Means {
  lake: LakeSession
  engine: EngineLease
}

class Journey {
  /** Set while what the engine says is about the pipeline's SQL. */
  rendered: Rendered | undefined
  readonly #work: Work
  readonly #directory: string

  constructor(work: Work, directory: string) {
    this.#work = work
    this.#directory = directory
  }

  async go(lake: LakeSession, engine: EngineLease): Promise<void> {
    const { request, facts, signal, enter } = this.#work
    const started = performance.now()
    const means = { lake, engine }

    enter('rendering')
    const name = targetOf(request)
    const [files, table] = await Promise.all([
      fetchPipelineFiles(request, lake.gateway),
      lake.catalog.load(name),
    ])
    const config = this.#configure(files)
    const target: Target = {
      name,
      table,
      mode: config.mergeStrategy === 'append_only' ? 'append' : 'replace',
    }
    const variables = await this.#variables(config, files, target, means)
    const source = { file: files.source.path, source: files.source.text }
    const asked = collectTemplate(source, variables)
    const inputs = await this.#resolve(asked, files, variables, target, lake)
    if (this.#hasNothingLeft(asked, inputs)) return
    const sql = renderTemplate(source, variables, inputs)
    this.rendered = { ...source, sql }
    this.#say(`rendered ${source.file} in ${since(started)}`)

    enter('executing')
    const executing = performance.now()
    const instance = await this.#open(engine, inputs.found([asked], name))
    const written = await writeResult(
      { sql, ...target },
      { engine, instance, directory: this.#directory },
      signal,
    )
    this.rendered = undefined
    facts.rowsWritten = written.rowCount
    this.#say(
      `${counted(written.rowCount, 'row')}, ${sized(written.sizeBytes)} of Parquet in ${since(executing)}`,
    )
    const stored = await this.#store(written, target, inputs, lake)
    const judged = inputs.tables.get(tableKey(name)) ? files.tests : []
    const [commit, testInstance] = await Promise.all([
      stored && this.#commit(stored, written, target, lake),
      judged.length > 0 ? this.#open(engine, inputs.found()) : null,
    ])
    facts.testedCommit = commit ?? ''

    if (testInstance !== null) {
      enter('testing')
      const testing = performance.now()
      const write = this.#work.log.write.bind(this.#work.log)
      const judging = { variables, resolver: inputs, engine, instance: testInstance, signal, write }
      facts.tests = await runTests({ tests: judged, ...judging })
      this.#say(`${tally(facts.tests)} in ${since(testing)}`)
    }
    this.#say(`attempt ${request.attempt} done in ${since(started)}`)
  }

  /** Throws AttemptFailure for a configuration that is wrong or cannot be run yet. */
  #configure({ source, config: file }: PipelineFiles): PipelineConfig {
    const { facts, log, request } = this.#work
    const { config, errors, warnings } = parseConfig({ config: file, source })
    facts.archiveLandingZones = config.archiveLandingZones
    facts.maxRetries = config.maxRetries
    facts.retryDelaySeconds = config.retryDelaySeconds
    for (const warning of warnings) log.write('warn', problemText(warning))
    const type = request.type === 'python' ? 'python' : 'sql'
    const problems = errors.length > 0 ? errors.map(problemText) : supportedNow(config, type)
    if (problems.length > 0) throw new AttemptFailure(problems.join('; '))
    return config
  }

  async #variables(
    config: PipelineConfig,
    files: PipelineFiles,
    target: Target,
    means: Means,
  ): Promise<TemplateVariables> {
    const { runStartedAt } = this.#work.request
    return {
      strategy: config.mergeStrategy,
      this: tableExpression(target.name),
      runStartedAt: (runStartedAt ? timestampDate(runStartedAt) : new Date()).toISOString(),
      watermarkValue: /\bwatermark_value\b/.test(files.source.text)
        ? await this.#watermark(config.watermarkColumn, target, means)
        : null,
    }
  }

  /** The text of the largest value on the branch, in an instance of its own: the pipeline's is locked to its input. */
  async #watermark(column: string, { name, table }: Target, { lake, engine }: Means): Promise<string | null> {
    if (column === '' || table === null) return null
    const own = await lake.open(name, table)
    const field = own.schema.fields.find((known) => known.name.toLowerCase() === column.toLowerCase())
    if (field === undefined) return null
    const instance = await this.#open(engine, [own])
    const sql = `SELECT max(${quoteName(field.name)}) FROM ${tableExpression(name)}`
    const { first } = await engine.call(
      { kind: 'judge', number: instance, sql, sampleRows: 0 },
      this.#work.signal,
    )
    return first
  }

  /** Finds what the pipeline and its tests ask for, all of it at once. */
  async #resolve(
    asked: Asked,
    files: PipelineFiles,
    variables: TemplateVariables,
    { name, table, mode }: Target,
    lake: LakeSession,
  ): Promise<Inputs> {
    const { request } = this.#work
    const { namespace } = request
    const everything = [asked, ...askedByTests(files.tests, variables)]
    const inputs = new Inputs(namespace)
    // Of its own table a pipeline needs the files only where it says so; after an append, its tests read the old ones too.
    const readsOwn = /\bthis\b/.test(files.source.text) || (mode === 'append' && files.tests.length > 0)
    const tables = tablesAsked(everything, namespace)
    const own = readsOwn && !tables.some((asked) => tableKey(asked) === tableKey(name)) ? [name] : []
    await Promise.all([
      openTables(inputs, [...tables, ...own], lake, new Map([[tableKey(name), table]])),
      openLandings(inputs, zonesAsked(everything), {
        frozen: request.landing,
        access: lakeOf(request),
        gateway: lake.gateway,
        directory: join(this.#directory, LANDING),
      }),
    ])
    this.#describe(asked, inputs)
    return inputs
  }

  #describe(asked: Asked, inputs: Inputs): void {
    for (const table of inputs.found([asked]))
      this.#say(
        `reads ${tableKey(table.name)}: ${counted(table.rowCount, 'row')} in ${counted(table.paths.length, 'file')}`,
      )
    for (const zone of zonesAsked([asked])) {
      const files = inputs.landings.get(zone)?.files ?? []
      const bytes = files.reduce((sum, { object }) => sum + Number(object?.sizeBytes ?? 0n), 0)
      this.#say(`reads landing zone ${zone}: ${counted(files.length, 'file')}, ${sized(bytes)}`)
      this.#work.facts.landingFileIds.push(...files.map(({ id }) => id))
    }
  }

  /** An upload asked for this run, and the success of another one has taken its file meanwhile: nothing is left to do. */
  #hasNothingLeft(asked: Asked, inputs: Inputs): boolean {
    const empty = zonesAsked([asked]).find((zone) => inputs.landings.get(zone)?.files.length === 0)
    if (empty === undefined || !this.#work.request.emptyLandingIsSuccess) return false
    this.#say(`landing zone ${empty} has no files: an earlier run has archived them, nothing is changed`)
    return true
  }

  /** An instance with these tables, locked. */
  #open(engine: EngineLease, tables: readonly TableInput[]): Promise<number> {
    return openInstance(engine, tables, this.#directory, this.#work.signal)
  }

  /** Puts the result into the lake and shows the tests the table as it will be. Null: nothing changes. */
  async #store(
    written: WrittenResult,
    { name, table, mode }: Target,
    inputs: Inputs,
    lake: LakeSession,
  ): Promise<StoredResult | null> {
    if (mode === 'append' && written.rowCount === 0) {
      this.#say('no rows to append: the table stays as it is')
      return null
    }
    const stored = await storeResult(written, { name, table }, lake)
    const before = mode === 'append' ? inputs.tables.get(tableKey(name)) : null
    inputs.tables.set(tableKey(name), {
      name,
      schema: written.schema.schema,
      paths: [...(before?.paths ?? []), ...stored.paths],
      rowCount: (before?.rowCount ?? 0) + written.rowCount,
    })
    return stored
  }

  async #commit(stored: StoredResult, { schema }: WrittenResult, { name, mode }: Target, lake: LakeSession) {
    const started = performance.now()
    const { runId } = this.#work.request
    const commit = await commitResult(stored, { name, mode, schema, runId }, lake)
    this.#say(`committed to the run's branch in ${since(started)}`)
    return commit
  }

  #say(message: string): void {
    this.#work.log.write('info', message)
  }
}

/** Landing zones become directories in this one. */
const LANDING = 'landing'

function targetOf({ namespace, layer: text, pipelineName: name }: SubmitPipelineRequest): TableName {
  const layer = LAYERS.find((known) => known === text)
  if (layer === undefined) throw new AttemptFailure(`there is no layer ${text}`)
  return { namespace, layer, name }
}

function lakeOf({ lake }: SubmitPipelineRequest): LakeAccess {
  if (lake === undefined) throw new AttemptFailure('the request does not say where the lake is')
  return lake
}
