import { join } from 'node:path'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import { currentSchema, type TableMetadata } from '../../../lake/iceberg/format/metadata.ts'
import type { TableChange, WriteRules } from '../../../lake/iceberg/write/strategy.ts'
import {
  type ParsedConfig,
  type PipelineConfig,
  parseConfig,
  problemText,
  type TextFile,
} from '../../../lake/pipeline/config.ts'
import { LAYERS, type TableName, tableKey } from '../../../lake/pipeline/names.ts'
import type { Template, TemplateVariables } from '../../../lake/pipeline/template.ts'
import type { LakeAccess, SubmitPipelineRequest } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { EngineEnded } from '../../engine/engine-process.ts'
import { explained, findIn, type ParsedIn, type RefusedText } from '../author/slips.ts'
import { counted, type Rendered, reasonOf, since, sized } from '../author/wording.ts'
import { type OpenedInstance, openForTexts } from '../engine/kept-instance.ts'
import { pythonDraft } from '../python/draft.ts'
import { InterpreterEnded } from '../python/interpreter.ts'
import { type InterpreterLease, NoPython } from '../python/interpreters.ts'
import { type PythonLimits, runPython } from '../python/run.ts'
import { type DraftedTest, draftsOf, draftTests, runTests, tally } from '../write/quality-gate.ts'
import { commitResult, type StoredResult, storeResult, writeResult } from '../write/table-write.ts'
import { watermarkOf } from '../write/watermark.ts'
import { AttemptFailure, AttemptLostEngine, type Execute, type TestResult, type Work } from './attempts.ts'
import { type Draft, Inputs } from './inputs.ts'
import { openInstance, type TableInput, tableExpression, viewOf } from './lake-session.ts'
import type { LandingOptions } from './landing.ts'
import { withinOutput } from './output-limit.ts'
import { fetchPipelineFiles, type PipelineFiles } from './pipeline-files.ts'
import { openWorkplace, type Workplace, type WorkplaceOptions } from './workplace.ts'

// One attempt from its pinned files to its facts: render, execute, commit once to the branch, judge the branch.

export interface JourneyOptions extends WorkplaceOptions {
  /** Files that the result of one attempt may write, in bytes; left out, any number. */
  outputBytes?: number
}

/** Makes the function that executes attempts. It throws AttemptFailure, and the signal's reason. */
export function makeJourney(options: JourneyOptions): Execute {
  return async function execute(work: Work) {
    const needsPython = work.request.type === 'python'
    const place = await openWorkplace(options, lakeOf(work.request), work.signal, { needsPython }).catch(
      (error: unknown) => {
        work.signal.throwIfAborted()
        const isAboutPython = error instanceof NoPython || error instanceof InterpreterEnded
        throw isAboutPython ? new AttemptFailure(`python: ${error.message}`, { cause: error }) : error
      },
    )
    const journey = new Journey(work, place, options)
    try {
      await journey.go()
    } catch (error) {
      await place.clear()
      work.signal.throwIfAborted()
      const reason = error instanceof AttemptFailure ? error.message : reasonOf(error, journey.rendered)
      if (reason === null) throw error
      const Failure =
        error instanceof EngineEnded && error.end !== 'ordered' ? AttemptLostEngine : AttemptFailure
      // Where the work was done is nobody's business.
      throw new Failure(reason.replaceAll(`${place.directory}/`, ''), { cause: error })
    }
    return { gone: place.clear() }
  }
}

/** The table an attempt writes, as it is before: null, if it does not exist. */
interface Target {
  name: TableName
  table: TableMetadata | null
  rules: WriteRules
  /** ISO 8601. */
  runStartedAt: string
}

interface PythonGiven {
  instance: number
  config: PipelineConfig
  variables: TemplateVariables
  inputs: Inputs
  template: Template
  own: TableName
  table: TableMetadata | null
}

class Journey {
  /** Set while what the engine says is about the pipeline's SQL. */
  rendered: Rendered | undefined
  readonly #work: Work
  readonly #place: Workplace
  readonly #pythonLimits: PythonLimits
  readonly #outputBytes: number

  constructor(
    work: Work,
    place: Workplace,
    { pythonLimits, outputBytes = Number.POSITIVE_INFINITY }: JourneyOptions,
  ) {
    this.#work = work
    this.#place = place
    this.#pythonLimits = pythonLimits
    this.#outputBytes = outputBytes
  }

  async go(): Promise<void> {
    const { request, facts, enter } = this.#work
    const { lake, python } = this.#place
    const started = performance.now()

    enter('rendering')
    const name = targetOf(request)
    const [files, table] = await Promise.all([
      fetchPipelineFiles(request, lake.gateway),
      this.#tableBefore(name),
    ])
    const config = this.#configure(files)
    const startedAt = request.runStartedAt ? timestampDate(request.runStartedAt) : new Date()
    const target: Target = { name, table, rules: config, runStartedAt: startedAt.toISOString() }
    const variables = await this.#variables(config, files, target)
    const inputs = new Inputs({
      namespace: request.namespace,
      variables,
      landing: this.#place.landing,
    })
    const template = { file: files.source.path, source: files.source.text }
    const draft = python ? pythonDraft(template, request.namespace) : inputs.draft(template)
    const tests = draftTests(files.tests, inputs)
    await this.#find(inputs, draft, tests, target)
    if (this.#hasNothingLeft(draft, inputs)) return
    const sql = python ? '' : inputs.sqlOf(draft)
    if (python === null) this.#say(`rendered ${files.source.path} in ${since(started)}`)

    enter('executing')
    const texts = python ? null : [sql, ...draftsOf(tests).map((test) => test.sql)]
    const opened = await this.#openFor(draft, target, inputs, texts)
    const { number: instance } = opened
    const own = python
      ? await this.#runPython(python, { instance, config, variables, inputs, template, own: name, table })
      : { sql }
    const rendered = { ...template, ...own }
    const change = await this.#execute(rendered, instance, target, python ? null : inputs.textOf(draft, name))
    const stored = this.#store(change)
    // What is tested are the very files that are committed meanwhile. The engine has its work before we do ours.
    const [tested, commit] = await Promise.allSettled([
      this.#test(tests, stored, target, inputs, python ? null : opened),
      stored && this.#commit(stored, target),
    ])
    if (commit.status === 'rejected') throw commit.reason
    if (tested.status === 'rejected') throw tested.reason
    facts.rowsWritten = change.rowsWritten
    facts.testedCommit = commit.value ?? ''
    facts.tests = tested.value
    this.#say(`attempt ${request.attempt} done in ${since(started)}`)
  }

  /** The table that the attempt writes, as of its base: whoever announced the attempt may have said where that is. */
  async #tableBefore(name: TableName): Promise<TableMetadata | null> {
    const { lake } = this.#place
    const { tableMetadata } = this.#work.request
    if (tableMetadata === undefined) return lake.catalog.load(name)
    return tableMetadata === '' ? null : lake.metadataAt(tableMetadata)
  }

  /** Throws AttemptFailure for a configuration that is wrong or cannot be run yet. */
  #configure({ source, config: file }: PipelineFiles): PipelineConfig {
    const { facts, log } = this.#work
    const { config, errors, warnings } = configOf(source, file)
    facts.archiveLandingZones = config.archiveLandingZones
    facts.maxRetries = config.maxRetries
    facts.retryDelaySeconds = config.retryDelaySeconds
    for (const warning of warnings) log.write('warn', problemText(warning))
    if (errors.length > 0) throw new AttemptFailure(errors.map(problemText).join('; '))
    return config
  }

  async #variables(config: PipelineConfig, files: PipelineFiles, target: Target): Promise<TemplateVariables> {
    const asksWatermark = [files.source, ...files.tests.map(({ file }) => file)].some(({ text }) =>
      /\bwatermark_value\b/.test(text),
    )
    const watermark = asksWatermark
      ? await watermarkOf({ ...target, column: config.watermarkColumn }, this.#place, this.#work.signal)
      : null
    if (watermark?.warning) this.#work.log.write('warn', watermark.warning)
    return {
      strategy: config.mergeStrategy,
      this: tableExpression(target.name),
      runStartedAt: target.runStartedAt,
      watermarkValue: watermark?.value ?? null,
    }
  }

  /** Finds what the pipeline and its tests ask for, all of it at once. */
  async #find(
    inputs: Inputs,
    draft: Draft,
    tests: readonly DraftedTest[],
    { name, table, rules }: Target,
  ): Promise<void> {
    const { facts } = this.#work
    const { lake } = this.#place
    const drafts = [draft, ...draftsOf(tests)]
    // Of its own table a pipeline needs the files only where it says so; its tests read those that stay, too.
    const keepsFiles = rules.mergeStrategy !== 'full_refresh'
    const readsOwn = /\bthis\b/.test(draft.template.source) || (keepsFiles && tests.length > 0)
    const tables = [...drafts.flatMap((each) => each.tables), ...(readsOwn ? [name] : [])]
    await Promise.all([
      inputs.openTables(tables, lake, new Map([[tableKey(name), table]])),
      inputs.openLandings(
        drafts.flatMap((each) => each.zones),
        this.#landingOptions(),
      ),
    ])
    for (const table of inputsOf(draft, inputs))
      this.#say(
        `reads ${tableKey(table.name)}: ${counted(table.rowCount, 'row')} in ${counted(table.paths.length, 'file')}`,
      )
    for (const zone of draft.zones) {
      const files = inputs.landing(zone)
      const bytes = files.reduce((sum, { object }) => sum + Number(object?.sizeBytes ?? 0n), 0)
      this.#say(`reads landing zone ${zone}: ${counted(files.length, 'file')}, ${sized(bytes)}`)
      facts.landingFileIds.push(...files.map(({ id }) => id))
    }
  }

  /** An upload asked for this run, and the success of another one has taken its file meanwhile: nothing is left to do. */
  #hasNothingLeft({ zones }: Draft, inputs: Inputs): boolean {
    const empty = zones.find((zone) => inputs.landing(zone).length === 0)
    if (empty === undefined || !this.#work.request.emptyLandingIsSuccess) return false
    this.#say(`landing zone ${empty} has no files: an earlier run has archived them, nothing is changed`)
    return true
  }

  /** An instance that shows what the pipeline reads; it may read what the tests will be shown. `texts`: null, they come later. */
  async #openFor(
    draft: Draft,
    { name: own }: Target,
    inputs: Inputs,
    texts: readonly string[] | null,
  ): Promise<OpenedInstance> {
    const { engine, directory, landing } = this.#place
    const { signal } = this.#work
    const before = inputs.table(own)
    const found = inputs.found()
    const tables = [...new Set([...inputsOf(draft, inputs), ...(before ? [before] : [])])]
    if (texts !== null && draft.zones.length === 0)
      return openForTexts(engine, { texts, tables, found, own }, this.#place, signal)
    const paths = found.flatMap((table) => table.paths)
    return { number: await openInstance(engine, tables, directory, signal, { paths, landing }), viewOf }
  }

  /** Answers a SELECT of the pipeline's result. */
  async #runPython(lease: InterpreterLease, given: PythonGiven): Promise<Pick<Rendered, 'file' | 'sql'>> {
    const { request, log, facts, signal } = this.#work
    const { lake, engine } = this.#place
    const { inputs, table, template } = given
    const started = performance.now()
    const { step, python } = lease.sandbox
    this.#say(`${template.file} runs on Python ${python.version}, sandbox: ${step}`)
    if (step === 'none')
      log.write('warn', 'there is no sandbox (SANDBOX=off): the pipeline can do what the runner can')
    const { sql, warnings, place } = await runPython({
      lease,
      limits: this.#pythonLimits,
      engine,
      instance: given.instance,
      inputs,
      own: given.own,
      source: { file: template.file, text: template.source },
      config: given.config,
      variables: given.variables,
      schema: table && currentSchema(table),
      log,
      find: findIn(lake, request.namespace),
      findLate: {
        async table(name) {
          const metadata = await lake.catalog.load(name)
          return metadata && lake.open(name, metadata)
        },
        zone: async (zone) => {
          await inputs.openLandings([zone], this.#landingOptions())
          facts.landingFileIds.push(...inputs.landing(zone).map(({ id }) => id))
        },
      },
      signal,
    })
    for (const warning of warnings) log.write('warn', warning)
    this.#say(`ran ${template.file} in ${since(started)}`)
    return { file: place, sql }
  }

  #landingOptions(): LandingOptions {
    const { request } = this.#work
    const { gateway } = this.#place.lake
    return { namespace: request.namespace, frozen: request.landing, access: lakeOf(request), gateway }
  }

  /** `text`: the author's SQL; null for Python. */
  async #execute(
    rendered: Rendered,
    instance: number,
    target: Target,
    text: RefusedText | null,
  ): Promise<TableChange> {
    const { engine, directory, lake, python } = this.#place
    const started = performance.now()
    // Of a pipeline in Python the SQL is ours: it asks for the result that was set.
    this.rendered = python === null ? rendered : { ...rendered, sql: '' }
    const { name, table, rules, runStartedAt: at } = target
    const own = join(directory, 'written')
    const change = await withinOutput(
      { directory: own, bytes: this.#outputBytes, signal: this.#work.signal },
      (signal) =>
        writeResult(
          { sql: rendered.sql, name, table, rules, at },
          {
            engine,
            instance,
            directory,
            own,
            lake,
            warn: (message) => this.#work.log.write('warn', message),
          },
          signal,
        ),
    ).catch(async (error: unknown) => {
      throw text === null ? error : await explained(error, text, this.#parsedIn(instance))
    })
    this.rendered = undefined
    this.#say(`${whatChanges(change)} in ${since(started)}`)
    return change
  }

  #parsedIn(instance: number): ParsedIn {
    const { request, signal } = this.#work
    const { engine, lake } = this.#place
    return { engine, instance, find: findIn(lake, request.namespace), signal }
  }

  /** Null: nothing changes. */
  #store(change: TableChange): StoredResult | null {
    if (change.operation !== null) return storeResult(change, this.#place.lake)
    this.#say('no rows to write: the table stays as it is')
    return null
  }

  /** `own`: the instance of the pipeline's SQL, which has nothing of it left when the tests are shown their tables. */
  async #test(
    tests: readonly DraftedTest[],
    stored: StoredResult | null,
    { name }: Target,
    inputs: Inputs,
    own: OpenedInstance | null,
  ): Promise<TestResult[]> {
    const { log, signal, enter } = this.#work
    const { engine, directory } = this.#place
    if (tests.length === 0) return []
    if (stored !== null) {
      const paths = own === null ? await stored.placed : stored.change.files.map(({ path }) => path)
      inputs.setTable(onBranch(name, stored, inputs.table(name), paths))
    }
    if (inputs.table(name) === null) return []
    enter('testing')
    const started = performance.now()
    const shown = inputs.found()
    // An instance does one thing after the other: the first test need not wait for word of this.
    const ready =
      own !== null && engine.call({ kind: 'show', number: own.number, tables: shown.map(own.viewOf) }, signal)
    if (ready) ready.catch(() => {})
    const instance = own?.number ?? (await openInstance(engine, shown, directory, signal))
    const bench = { ...this.#parsedIn(instance), inputs, own: name, write: log.write.bind(log) }
    const results = await runTests(tests, bench)
    await ready
    this.#say(`${tally(results)} in ${since(started)}`)
    return results
  }

  async #commit(stored: StoredResult, { name, table }: Target): Promise<string> {
    const started = performance.now()
    const { runId } = this.#work.request
    const commit = await commitResult(stored, { name, table, runId }, this.#place.lake)
    this.#say(`committed to the run's branch in ${since(started)}`)
    return commit
  }

  #say(message: string): void {
    this.#work.log.write('info', message)
  }
}

/** Configurations by their text: a pipeline that runs often says the same each time, and YAML takes half a millisecond. */
const parsed = new Map<string, ParsedConfig>()
const PARSED_KEPT = 200
const PARSED_CHARACTERS = 65_536

function configOf(source: TextFile, config: TextFile | undefined): ParsedConfig {
  const key = JSON.stringify([source.path, source.text, config?.text])
  const known = parsed.get(key)
  if (known !== undefined) return known
  const found = parseConfig({ config, source })
  if (key.length > PARSED_CHARACTERS) return found
  if (parsed.size >= PARSED_KEPT) parsed.clear()
  parsed.set(key, found)
  return found
}

/** `3 rows inserted or changed, 2 files replaced, 14.2 kB of Parquet`. */
function whatChanges({ operation, rowsWritten, replaced, files }: TableChange): string {
  const bytes = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  const parquet = `${sized(bytes)} of Parquet`
  if (operation !== 'rewrite') return `${counted(rowsWritten, 'row')}, ${parquet}`
  return `${counted(rowsWritten, 'row')} inserted or changed, ${counted(replaced.length, 'file')} replaced, ${parquet}`
}

/** The table as the branch has it; `paths`: where the new files are on this machine. */
function onBranch(
  name: TableName,
  { change, files: added }: StoredResult,
  known: TableInput | null,
  paths: readonly string[],
): TableInput {
  const { operation, replaced, schema, files } = change
  const before = operation === 'overwrite' ? null : known
  const gone = new Set(replaced.map(({ file }) => file.location))
  const kept = (before?.locations ?? []).flatMap((location, i) =>
    gone.has(location) ? [] : [{ location, path: before?.paths[i] ?? '' }],
  )
  const rows = (all: readonly { recordCount: number }[]) => all.reduce((sum, one) => sum + one.recordCount, 0)
  return {
    name,
    schema: schema.schema,
    paths: [...kept.map(({ path }) => path), ...paths],
    locations: [...kept, ...added].map(({ location }) => location),
    rowCount: (before?.rowCount ?? 0) - rows(replaced.map(({ file }) => file)) + rows(files),
  }
}

const inputsOf = ({ tables }: Draft, inputs: Inputs): TableInput[] =>
  tables.flatMap((table) => inputs.table(table) ?? [])

function targetOf({ namespace, layer: text, pipelineName: name }: SubmitPipelineRequest): TableName {
  const layer = LAYERS.find((known) => known === text)
  if (layer === undefined) throw new AttemptFailure(`there is no layer ${text}`)
  return { namespace, layer, name }
}

function lakeOf({ lake }: SubmitPipelineRequest): LakeAccess {
  if (lake === undefined) throw new AttemptFailure('the request does not say where the lake is')
  return lake
}
