import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { TableName } from '../../../ground/names.ts'
import { NO_SPARK, type PipelineConfig, parseConfig, type TextFile } from '../../../lake/pipeline/config.ts'
import { NameError, parseTableName, parseZoneName } from '../../../lake/pipeline/names.ts'
import { parseTest, testNameOf } from '../../../lake/pipeline/quality.ts'
import { lineCounter, type Position, sqlReferences } from '../../../lake/pipeline/references.ts'
import { type SourceMap, sourceMapOf } from '../../../lake/pipeline/source-map.ts'
import { newWorkBudget, TemplateError } from '../../../lake/pipeline/template.ts'
import type { WorkBudget } from '../../../lake/pipeline/template-engine.ts'
import type { FileReport, PublishInput, ValidationReport } from '../../../lake/pipeline/validate.ts'
import { quoteLiteral } from '../../../lake/quote.ts'
import { EngineEnded } from '../../engine/engine-process.ts'
import { refusalOfQuery } from '../../spark/query-check.ts'
import { limits } from '../core/limits.ts'
import { type EngineLease, EnginesBusy } from '../engine/engine-lease.ts'
import { type AnswerOf, EngineFault } from '../engine/engine-messages.ts'
import { type Dialect, sparkDialect, tableExpression } from '../engine/sql-names.ts'
import type { TemplateProcess } from '../engine/template-process.ts'
import type { WrittenQuery } from '../interpreter/messages.ts'
import { type Draft, Inputs } from '../session/inputs.ts'
import { landingIn } from '../session/landing.ts'
import type { RefusedText } from '../session/read-text.ts'
import type { CheckEngine } from './check-engine.ts'
import { type FindTables, hasBarePath, readerFor, slipsIn } from './slips.ts'
import { faultsOfView } from './view-check.ts'

// Before a draft is published, the engine's parser checks its rendered templates. Names are bound in views only, because tables may
// be created later.

type Found = Pick<FileReport, 'errors' | 'warnings'>
type Parse = (sql: string) => Promise<AnswerOf<'parse'>>

interface CheckInput {
  input: PublishInput
  /** The queries in the source of a Python pipeline. */
  queries: readonly WrittenQuery[]
  report: ValidationReport
  engine: CheckEngine
}

/** Adds the findings of the engine's parser about a draft's SQL to a report. Throws the signal's reason. */
export type CheckSql = (check: CheckInput, signal: AbortSignal) => Promise<ValidationReport>

/** Makes the function that checks SQL, in the engine process of the check. */
export function makeSqlCheck(hasSpark: boolean): CheckSql {
  return async ({ input, queries, report: given, engine }, caller) => {
    const timeout = AbortSignal.timeout(limits.sqlCheckMs)
    const signal = AbortSignal.any([caller, timeout])
    const checked = { input, config: configOf(input), work: newWorkBudget(), engine, signal }
    const all = sqlFilesOf(input)
    const ofSpark = all.filter((file) => isSpark(file, checked.config))
    const files = all.filter((file) => !ofSpark.includes(file))
    let report = given
    let left = [...all.map(({ path }) => path), ...(queries.length > 0 ? [PYTHON] : [])]
    try {
      report = withFound(report, await sparkFindings(ofSpark, { ...checked, hasSpark }))
      left = left.filter((path) => !ofSpark.some((file) => file.path === path))
      if (left.length === 0) return report
      const lease = await engine.lease(signal)
      const number = await openEmpty(lease, signal)
      const parse: Parse = (sql) => lease.call({ kind: 'parse', number, sql }, signal)
      const ofPython = await checkQueries(queries, input, parse)
      const found = await foundIn(files, { ...checked, parse })
      const faults = await faultsOfView(input, checked.config, { engine: lease, signal })
      const ofSource = found.get(SQL_SOURCE)
      // A text that does not parse cannot be bound, either.
      if (ofSource?.errors.length === 0) ofSource.errors.push(...faults)
      return withFound(report, found.set(PYTHON, ofPython))
    } catch (error) {
      caller.throwIfAborted()
      const isElsewhere =
        error instanceof EngineEnded || error instanceof EngineFault || error instanceof EnginesBusy
      if (!(error instanceof Error) || (!timeout.aborted && !isElsewhere)) throw error
      const reason = timeout.aborted
        ? `the check did not finish within ${limits.sqlCheckMs / 1_000} s`
        : error.message
      const unchecked = { errors: [], warnings: [`SQL not checked: ${reason}`] }
      return withFound(report, new Map(left.map((path) => [path, unchecked])))
    }
  }
}

/** The templates among the files. Quality tests are SQL in every pipeline. */
const sqlFilesOf = ({ pipeline, files }: PublishInput): TextFile[] =>
  files.filter(
    ({ path }) => (path === SQL_SOURCE && pipeline.type === 'sql') || testNameOf(path) !== undefined,
  )

/** Whether a file of the draft is Spark SQL. */
function isSpark(file: TextFile, { engine }: PipelineConfig): boolean {
  const test = testNameOf(file.path)
  return (test === undefined ? engine : parseTest(test, file).test.engine) === 'spark'
}

/** Shared by the checks of all files of a draft. */
interface Checked {
  input: PublishInput
  config: PipelineConfig
  work: WorkBudget
  engine: TemplateProcess
  signal: AbortSignal
}

/** Spark SQL is parsed by its own engine in a run. Only its effects and its engine are checked here. */
async function sparkFindings(
  files: readonly TextFile[],
  { input: { pipeline }, config, hasSpark, ...means }: Checked & { hasSpark: boolean },
): Promise<Map<string, Found>> {
  const dialect = sparkDialect({ root: 's3://lake/', namespace: pipeline.namespace })
  const found = new Map<string, Found>()
  for (const file of files) {
    await nextTurn()
    const variables = {
      strategy: config.mergeStrategy,
      this: '',
      runStartedAt: RUN_STARTED_AT,
      watermarkValue: null,
    }
    const inputs = new Inputs({
      namespace: pipeline.namespace,
      own: pipeline,
      variables,
      landing: landingIn('/'),
      ...means,
    })
    const draft = await draftOf(inputs, file, dialect)
    const refusal = draft instanceof TemplateError ? null : refusalOfQuery(draft.sql)
    const errors = [...(hasSpark ? [] : [NO_SPARK]), ...(refusal === null ? [] : [refusal])]
    found.set(file.path, { errors, warnings: unchecked(draft, means.work) })
  }
  return found
}

/** Opens an instance that sees no table and no file. */
async function openEmpty(engine: EngineLease, signal: AbortSignal): Promise<number> {
  const number = await engine.instance()
  const tempDirectory = join(engine.directory, `spill-${number}`)
  await engine.call(
    { kind: 'open', number, tempDirectory, allowedDirectories: [], allowedPaths: [], tables: [] },
    signal,
  )
  return number
}

async function foundIn(
  files: readonly TextFile[],
  checked: Checked & { parse: Parse },
): Promise<Map<string, Found>> {
  const found = new Map<string, Found>()
  for (const file of files) found.set(file.path, await checkFile(file, checked))
  return found
}

function configOf({ pipeline, files }: PublishInput): PipelineConfig {
  const path = pipeline.type === 'python' ? 'pipeline.py' : 'pipeline.sql'
  const named = (name: string) => files.find((file) => file.path === name)
  return parseConfig({ config: named('config.yaml'), source: named(path) }).config
}

/**
 * Watermarks that a template can see: none in a first run, a text in later runs. A number as text is valid SQL with and without
 * quotes.
 */
const WATERMARKS = [null, '0']

/** Checks each text that the template renders to, for the first run and for later runs. */
async function checkFile(
  file: TextFile,
  { input: { pipeline, known }, config, parse, ...means }: Checked & { parse: Parse },
): Promise<Found> {
  const errors = new Set<string>()
  const warnings = new Set<string>()
  const texts = new Set<string>()
  for (const watermarkValue of WATERMARKS) {
    const variables = {
      strategy: config.mergeStrategy,
      this: tableExpression(pipeline),
      runStartedAt: RUN_STARTED_AT,
      watermarkValue,
      watermarkType: 'BIGINT',
    }
    const inputs = new Inputs({
      namespace: pipeline.namespace,
      variables,
      landing: landingIn('/'),
      ...means,
    })
    const draft = await draftOf(inputs, file)
    for (const warning of unchecked(draft, means.work)) warnings.add(warning)
    if (draft instanceof TemplateError || texts.has(draft.sql)) continue
    texts.add(draft.sql)
    const text = await inputs.textOf(draft, pipeline)
    const { fault, tables } = await parse(text.sql)
    // Making a source map renders the template again, so each text gets at most one map.
    let map: SourceMap | undefined
    const render = async (source: string) => (await inputs.draft({ file: file.path, source })).sql
    const locationOf = async (at: number | undefined) => {
      if (at === undefined) return ''
      map ??= await sourceMapOf(file.text, draft.sql, render)
      return `${placeOf(at, map, draft)}: `
    }
    if (fault === null)
      for (const { at, message } of await slipsIn(tables, text, among(known?.tables, pipeline.namespace)))
        warnings.add((await locationOf(at)) + message)
    else errors.add((await barePath(file, text, parse)) ?? (await locationOf(fault.at)) + fault.message)
  }
  return { errors: [...errors], warnings: [...warnings] }
}

const PYTHON = 'pipeline.py'
const SQL_SOURCE = 'pipeline.sql'

/** All findings are warnings, because only execution shows whether a query is reached. */
async function checkQueries(
  queries: readonly WrittenQuery[],
  { pipeline, known }: PublishInput,
  parse: Parse,
): Promise<Found> {
  const warnings = new Set<string>()
  for (const query of queries) {
    const text = textOf(query, pipeline)
    if (text === null) continue
    const locationOf = (at = 0) => {
      const { line } = lineCounter(text.sql)(at)
      return `line ${query.isInPlace ? query.line + line - 1 : query.line}: `
    }
    const { fault, tables } = await parse(text.sql)
    if (fault === null)
      for (const { at, message } of await slipsIn(tables, text, among(known?.tables, pipeline.namespace)))
        warnings.add(locationOf(at) + message)
    else {
      const [zone = ''] = text.zones.values()
      const isPath = await hasBarePath(text, parse)
      warnings.add(locationOf(fault.at) + (isPath ? readerFor(zone, 'python') : `sql(): ${fault.message}`))
    }
  }
  return { errors: [], warnings: [...warnings] }
}

/** Null: a name in the query is invalid, and that is reported already. */
function textOf({ pieces }: WrittenQuery, own: TableName): RefusedText | null {
  const tables = [own]
  const zones = new Map<string, string>()
  const render = (inserted: (path: string) => string) =>
    pieces.map(({ kind, value }) => {
      if (kind === 'text') return value
      if (kind === 'this') return tableExpression(own)
      if (kind === 'landing_zone') {
        const path = `/landing/${parseZoneName(value)}/*`
        zones.set(path, value)
        return inserted(path)
      }
      const table = parseTableName(value, own.namespace)
      tables.push(table)
      return tableExpression(table)
    })
  try {
    const sql = render((path) => path).join('')
    const quotedSql = zones.size === 0 ? null : render(quoteLiteral).join('')
    return { language: 'python', namespace: own.namespace, tables, zones, sql, quotedSql }
  } catch (error) {
    if (error instanceof NameError) return null
    throw error
  }
}

const RUN_STARTED_AT = '1970-01-01T00:00:00.000Z'

async function draftOf(
  inputs: Inputs,
  { path, text }: TextFile,
  dialect?: Dialect,
): Promise<Draft | TemplateError> {
  try {
    return await inputs.draft({ file: path, source: text }, { dialect })
  } catch (error) {
    if (error instanceof TemplateError) return error
    throw error
  }
}

/** The error of a template is reported already, unless the check itself has used up the work of all templates. */
const unchecked = (draft: Draft | TemplateError, { left }: WorkBudget): string[] =>
  draft instanceof TemplateError && left <= 0n ? [`SQL not checked: ${draft.text}`] : []

/** The position in the author's file, or in the rendered SQL if the former is unknown. */
function placeOf(at: number, map: SourceMap, { sql }: Draft): string {
  const position = map(at)
  if (position !== null) return shownPlace(position)
  return `${shownPlace(lineCounter(sql)(at))} of the rendered SQL`
}

const shownPlace = ({ line, column }: Position) => `line ${line} column ${column}`

async function barePath({ text: source }: TextFile, text: RefusedText, parse: Parse): Promise<string | null> {
  if (!(await hasBarePath(text, parse))) return null
  const call = sqlReferences(source).calls.find((found) => found.function === 'landing_zone')
  const [zone = ''] = text.zones.values()
  const message = readerFor(zone, text.language)
  return call === undefined ? message : `${shownPlace(call)}: ${message}`
}

/** Searches the known tables, whose keys are `ns.layer.name`. */
const among =
  (tables: ReadonlySet<string> | undefined, namespace: string): FindTables =>
  async (name) =>
    [...(tables ?? [])]
      .map((key) => key.split('.'))
      .filter(([ns, , table]) => ns === namespace && table === name)
      .map(([, layer, table]) => `${layer}.${table}`)

function withFound(report: ValidationReport, found: ReadonlyMap<string, Found>): ValidationReport {
  const files = report.files.map((file) => {
    const findings = found.get(file.path)
    if (findings === undefined) return file
    const errors = [...file.errors, ...findings.errors]
    return { ...file, valid: errors.length === 0, errors, warnings: [...file.warnings, ...findings.warnings] }
  })
  return { valid: files.every(({ valid }) => valid), files }
}
