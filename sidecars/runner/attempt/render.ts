import { timestampDate } from '@bufbuild/protobuf/wkt'
import { LAYERS, layerOf, type TableName, tableKey } from '../../../ground/names.ts'
import type { TableMetadata } from '../../../lake/iceberg/format/metadata.ts'
import type { WriteRules } from '../../../lake/iceberg/write/result-write.ts'
import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import { type PipelineConfig, parseConfig, problemText } from '../../../lake/pipeline/config.ts'
import type { Template, TemplateVariables } from '../../../lake/pipeline/template.ts'
import type { LakeAccess, SubmitPipelineRequest } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { since } from '../../core/amounts.ts'
import { readingTable } from '../../objects/missing-file.ts'
import { findIn, type ParsedIn } from '../author/slips.ts'
import { sparkDialect } from '../engine/sql-names.ts'
import { pythonDraft } from '../python/draft.ts'
import type { AttemptResources } from '../session/attempt-resources.ts'
import { type Draft, Inputs, noFiles, readBySpark, readsTable, readsZone } from '../session/inputs.ts'
import type { TableInput } from '../session/lake-session.ts'
import type { LandingOptions } from '../session/landing.ts'
import { fetchPipelineFiles, type PipelineFiles } from '../session/pipeline-files.ts'
import { withReads } from '../session/table-inputs.ts'
import { refusalOfView } from '../session/view-text.ts'
import { type DraftedTest, draftsOf, draftTests } from '../write/quality-gate.ts'
import { variablesOf } from '../write/watermark.ts'
import type { ExecutionContext } from './attempts.ts'

/** The table that an attempt writes. */
interface Target {
  name: TableName
  /** The table before the attempt; null: it does not exist. */
  table: TableMetadata | null
  rules: WriteRules
  /** ISO 8601. */
  runStartedAt: string
}

/** An attempt whose inputs are on this machine and whose SQL is rendered. */
export interface RenderedAttempt {
  context: ExecutionContext
  resources: AttemptResources
  target: Target
  config: PipelineConfig
  variables: TemplateVariables
  inputs: Inputs
  template: Template
  /** The `sql` of the draft is empty for Python. */
  draft: Draft
  tests: readonly DraftedTest[]
  landing: LandingOptions
}

/**
 * Fetches the files, renders the templates, and opens all tables and zones that they name. `isMoved`: Spark executes a pipeline
 * with `engine: auto`. Throws AuthorError.
 */
export async function render(
  context: ExecutionContext,
  resources: AttemptResources,
  isMoved = false,
): Promise<RenderedAttempt> {
  const { request, log } = context
  const started = performance.now()
  const name = targetOf(request)
  const [files, table] = await Promise.all([
    fetchPipelineFiles(request, resources.lake.gateway),
    tableBefore(name, context, resources),
  ])
  const config = configure(files, context)
  const startedAt = request.runStartedAt ? timestampDate(request.runStartedAt) : new Date()
  const target: Target = { name, table, rules: config, runStartedAt: startedAt.toISOString() }
  const texts = [files.source, ...files.tests.map(({ file }) => file)].map(({ text }) => text)
  const warn = (message: string) => log.write('warn', message)
  const variables = await variablesOf({ ...target, config, texts, warn }, resources, context.signal)
  const { namespace } = request
  const inputs = new Inputs({
    namespace,
    own: name,
    variables,
    landing: resources.landing,
    engine: resources.engine,
    signal: context.signal,
  })
  const spark = sparkDialect({ root: resources.lake.root, namespace })
  const template = { file: files.source.path, source: files.source.text }
  const draft = resources.python
    ? pythonDraft(template, namespace)
    : await inputs.draft(template, config.engine === 'spark' || isMoved ? { dialect: spark } : {})
  const refusal = config.materialized === 'view' ? refusalOfView(draft, name) : null
  if (refusal !== null) throw new AuthorError(refusal, { where: template.file })
  const tests = await draftTests(files.tests, inputs, spark)
  const landing = {
    namespace,
    frozen: request.landing,
    access: lakeOf(request),
    gateway: resources.lake.gateway,
  }
  const attempt = { context, resources, target, config, variables, inputs, template, draft, tests, landing }
  await open(attempt)
  if (resources.python !== null || isUploadArchived(attempt)) return attempt
  const sql = await inputs.sqlOf(draft)
  log.write('info', `rendered ${template.file} in ${since(started)}`)
  log.write('debug', `rendered SQL:\n${sql}`)
  return { ...attempt, draft: { ...draft, sql } }
}

/** True when an upload requested this run and another successful run has archived the file meanwhile. */
export function isUploadArchived({ context, draft, inputs }: RenderedAttempt): boolean {
  return context.request.emptyLandingIsSuccess && emptyZoneOf(draft, inputs) !== undefined
}

const emptyZoneOf = ({ zones }: Draft, inputs: Inputs) =>
  zones.find((zone) => inputs.landing(zone).length === 0)

/** The tables and views that the pipeline itself reads, without those of its tests. A view stands after its own inputs. */
export const inputsOf = ({ draft, inputs }: RenderedAttempt): TableInput[] =>
  withReads(draft.tables.flatMap((table) => inputs.table(table) ?? []))

/** Lets a refused text be parsed in an open instance, to explain its error. */
export const parsedIn = ({ context, resources }: RenderedAttempt, instance: number): ParsedIn => ({
  engine: resources.engine,
  instance,
  find: findIn(resources.lake, context.request.namespace),
  signal: context.signal,
})

/** Reads the table at the attempt's base. The request may name its metadata file; otherwise the catalog is read. */
async function tableBefore(
  name: TableName,
  { request }: ExecutionContext,
  { lake }: AttemptResources,
): Promise<TableMetadata | null> {
  const { tableMetadata } = request
  if (tableMetadata === undefined) return lake.catalog.load(name)
  return tableMetadata === '' ? null : readingTable(name, () => lake.metadataAt(tableMetadata))
}

function configure(
  { source, config: file }: PipelineFiles,
  { facts, log }: ExecutionContext,
): PipelineConfig {
  const { config, errors, warnings } = parseConfig({ config: file, source })
  facts.archiveLandingZones = config.archiveLandingZones
  facts.maxRetries = config.maxRetries
  facts.retryDelaySeconds = config.retryDelaySeconds
  facts.keepFailedHours = config.keepFailedHours
  for (const warning of warnings) log.write('warn', problemText(warning))
  if (errors.length > 0) throw new AuthorError(errors.map(problemText).join('; '), { where: '' })
  return config
}

/** Opens the tables and landing zones that the pipeline and its tests name, concurrently. */
async function open(attempt: RenderedAttempt): Promise<void> {
  const { context, resources, target, inputs, draft, tests, landing } = attempt
  const { request, log } = context
  const { name, table, rules } = target
  const all = [draft, ...draftsOf(tests)]
  const [local, remote] = (['duckdb', 'spark'] as const).map((engine) =>
    all.filter(({ dialect }) => dialect.engine === engine),
  ) as [Draft[], Draft[]]
  // A pipeline needs the files of its own table only if it names `this`. Its tests also read the files that stay.
  const keepsFiles = rules.mergeStrategy !== 'full_refresh'
  const readsOwn =
    draft.dialect.engine === 'duckdb' &&
    (/\bthis\b/.test(draft.template.source) || (keepsFiles && tests.length > 0))
  const tables = [...local.flatMap((each) => each.tables), ...(readsOwn ? [name] : [])]
  const known = new Map([[tableKey(name), table]])
  const { lake } = resources
  // First the descriptions: DuckDB may need the files of the same tables.
  await Promise.all([
    inputs.openTables(tablesOf(remote), lake, known, lake.describe),
    inputs.findLandings(zonesOf(remote), landing),
  ])
  await Promise.all([inputs.openTables(tables, lake, known), inputs.openLandings(zonesOf(local), landing)])
  for (const input of inputsOf(attempt)) log.write('info', readsTable(input))
  for (const zone of draft.zones) {
    const files = inputs.landing(zone)
    log.write('info', readsZone(zone, files))
  }
  if (draft.dialect.engine === 'spark' && draft.zones.length > 0) log.write('warn', readBySpark(draft.zones))
  const empty = emptyZoneOf(draft, inputs)
  if (empty !== undefined && request.emptyLandingIsSuccess)
    log.write('info', `${noFiles(empty)}: an earlier run has archived them, nothing is changed`)
}

const tablesOf = (drafts: readonly Draft[]) => drafts.flatMap(({ tables }) => tables)
const zonesOf = (drafts: readonly Draft[]) => drafts.flatMap(({ zones }) => zones)

function targetOf({ namespace, layer: text, pipelineName: name }: SubmitPipelineRequest): TableName {
  const layer = layerOf(text)
  if (layer === undefined)
    throw new AuthorError(`unknown layer '${text}': use ${LAYERS.join(', ')}`, { where: '' })
  return { namespace, layer, name }
}

export function lakeOf({ lake }: SubmitPipelineRequest): LakeAccess {
  if (lake === undefined) throw new AuthorError('lake is missing', { where: '' })
  return lake
}
