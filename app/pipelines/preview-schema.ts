import { Type as t } from '@sinclair/typebox'
import { documentedAs } from '../core/documented.ts'
import { limits } from '../core/limits.ts'
import { AnyObject, literals } from '../core/names.ts'
import { numberText } from '../core/pagination.ts'
import { Column } from '../query/schema.ts'
import { LogEntry } from '../runs/schema.ts'

/** Preview limits (spec: Limits): default number of rows, and number of sample files. */
export const PIPELINE_PREVIEW_ROWS = 100
const PREVIEW_SAMPLE_FILES = 100

const rows = `default ${PIPELINE_PREVIEW_ROWS}, at most ${limits.previewRowsMax}`

export const PipelinePreviewQuery = t.Object({
  limit: t.Optional(
    numberText({
      minimum: 1,
      maximum: limits.previewRowsMax,
      description: `Rows; ${rows}`,
      examples: [PIPELINE_PREVIEW_ROWS],
    }),
  ),
})

export const PreviewPipeline = t.Optional(
  t.Object(
    {
      limit: t.Optional(
        t.Integer({
          description: `Rows, before that of the query; ${rows}`,
          examples: [PIPELINE_PREVIEW_ROWS],
        }),
      ),
      code: t.Optional(
        t.String({
          minLength: 1,
          description: 'Takes the place of the source file, with its annotations',
          examples: ["select * from {{ ref('bronze.flights') }}"],
        }),
      ),
      sample_files: t.Optional(
        t.Array(t.String(), {
          maxItems: PREVIEW_SAMPLE_FILES,
          description:
            'Paths of files of landing zones in the namespace, samples or others: `landing_zone()` covers these of its zone',
          examples: [['default/landing/flights/_samples/flights.csv']],
        }),
      ),
    },
    { title: 'PreviewPipeline' },
  ),
)
export type PreviewPipeline = typeof PreviewPipeline.static

const Phase = t.Object(
  {
    name: literals(['template_render', 'sql_execute', 'profiling'], { title: 'PreviewPhaseName' }),
    duration_ms: t.Integer(),
    metadata: AnyObject,
  },
  { title: 'PreviewPhase' },
)

export const PipelinePreview = t.Object(
  {
    columns: t.Array(Column),
    /** Rows are not validated, because the engine has produced them. */
    rows: documentedAs(
      t.Array(t.Unknown()),
      t.Array(t.Array(t.Unknown()), {
        description: 'Arrays, in the order of the columns',
        examples: [[[1, 'a']]],
      }),
    ),
    total_row_count: t.Integer({ description: 'Rows before the limit' }),
    phases: t.Array(Phase),
    explain_output: t.String({ description: 'The operators of the execution, with rows and time of each' }),
    memory_peak_bytes: t.Integer({ description: "Of the engine's buffers during the execution" }),
    logs: t.Array(LogEntry),
    warnings: t.Array(t.String()),
  },
  { title: 'PipelinePreview' },
)
export type PipelinePreview = typeof PipelinePreview.static
