import { type TableName, tableKey } from '../../../ground/names.ts'
import type { TableMetadata } from '../../../lake/iceberg/format/metadata.ts'
import type { PipelineConfig } from '../../../lake/pipeline/config.ts'
import { partsOfSelection } from '../../../lake/pipeline/names.ts'
import type { Template, TemplateVariables } from '../../../lake/pipeline/template.ts'
import type { PreviewPipelineRequest } from '../../../proto/gen/sluice/query/v1/query_pb.ts'
import { sparkDialect } from '../engine/sql-names.ts'
import { pythonDraft } from '../python/draft.ts'
import type { AttemptResources } from '../session/attempt-resources.ts'
import { type Draft, Inputs, readBySpark } from '../session/inputs.ts'
import type { LandingOptions } from '../session/landing.ts'
import { variablesOf } from '../write/watermark.ts'
import { accessOf, PreviewReport, previewedTable, sourcesOf } from './preview-report.ts'

/** A preview whose inputs are on this machine. Only its execution is left. */
export interface PreparedPreview {
  request: PreviewPipelineRequest
  resources: AttemptResources
  signal: AbortSignal
  report: PreviewReport
  template: Template
  config: PipelineConfig
  variables: TemplateVariables
  /** The table that a run of the pipeline would write. */
  own: TableName
  /** Null: `own` does not exist. */
  table: TableMetadata | null
  inputs: Inputs
  draft: Draft
  landing: LandingOptions
}

/** Reads configuration and template, and opens the tables and landing zones that the source names. */
export async function prepare(
  request: PreviewPipelineRequest,
  resources: AttemptResources,
  signal: AbortSignal,
): Promise<PreparedPreview> {
  const { lake } = resources
  const report = new PreviewReport(request)
  const isPython = request.type === 'python'
  const sources = sourcesOf(request, isPython ? 'pipeline.py' : 'pipeline.sql')
  const template = { file: sources.source.path, source: sources.source.text }
  const config = report.configure(sources)
  const own = previewedTable(request)
  const table = await lake.catalog.load(own)
  const written = { config, name: own, table, runStartedAt: new Date().toISOString() }
  const warn = (message: string) => report.warn(message)
  const variables = await variablesOf({ ...written, texts: [template.source], warn }, resources, signal)
  const { namespace } = own
  const inputs = new Inputs({
    namespace,
    own,
    variables,
    landing: resources.landing,
    engine: resources.engine,
    signal,
  })
  const isSpark = config.engine === 'spark'
  const draft = isPython
    ? pythonDraft(template, namespace)
    : await inputs.draft(template, isSpark ? { dialect: sparkDialect({ root: lake.root, namespace }) } : {})
  const readsOwn = /\b(?:this|watermark_value)\b/.test(template.source)
  const landing = {
    namespace,
    frozen: request.samples,
    access: accessOf(request),
    gateway: lake.gateway,
  }
  const tables = [...draft.tables, ...(readsOwn ? [own] : [])]
  const known = new Map([[tableKey(own), table]])
  await Promise.all([
    inputs.openTables(tables, lake, known, isSpark ? lake.describe : lake.open),
    isSpark ? inputs.findLandings(draft.zones, landing) : inputs.openLandings(draft.zones, landing),
  ])
  report.reads(inputs, draft)
  if (isSpark && draft.zones.length > 0) report.warn(readBySpark(draft.zones))
  const sql = isPython ? null : await inputs.sqlOf(draft)
  report.ended('template_render', performance.now() - report.started, {
    file: template.file,
    characters: (sql ?? template.source).length,
    tables: draft.tables.map(tableKey),
    landing_zones: [...new Set(draft.zones.map((selection) => partsOfSelection(selection).zone))],
  })
  return {
    request,
    resources,
    signal,
    report,
    template,
    config,
    variables,
    own,
    table,
    inputs,
    draft: sql === null ? draft : { ...draft, sql },
    landing,
  }
}
