import { Type as t } from '@sinclair/typebox'
import { documentedAs } from '../core/documented.ts'
import { OpenBranch } from '../core/lake-version.ts'
import { limits } from '../core/limits.ts'
import { AnyObject, literals } from '../core/names.ts'
import { numberText } from '../core/pagination.ts'
import { Column } from '../query/schema.ts'
import { LogEntry } from '../runs/schema.ts'

/** Preview limits (spec: Limits): default number of rows, and number of sample files. */
export const PIPELINE_PREVIEW_ROWS = 100
const PREVIEW_SAMPLE_FILES = 100

const rows = `default ${PIPELINE_PREVIEW_ROWS}, maximum ${limits.previewRowsMax}`

export const PipelinePreviewQuery = t.Object({
  limit: t.Optional(
    numberText({
      minimum: 0,
      maximum: limits.previewRowsMax,
      description: `Maximum number of rows in the response; ${rows}`,
      examples: [PIPELINE_PREVIEW_ROWS],
    }),
  ),
})

export const PreviewPipeline = t.Optional(
  t.Object(
    {
      limit: t.Optional(
        t.Integer({
          description: `Maximum number of rows in the response; overrides the query parameter; ${rows}`,
          examples: [PIPELINE_PREVIEW_ROWS],
        }),
      ),
      code: t.Optional(
        t.String({
          minLength: 1,
          description: 'Source code to execute instead of the source file; its annotations apply',
          examples: ["select * from {{ ref('bronze.flights') }}"],
        }),
      ),
      sample_files: t.Optional(
        t.Array(t.String(), {
          maxItems: PREVIEW_SAMPLE_FILES,
          description:
            'Paths of landing files or samples of the namespace; `landing_zone()` of their zone then reads only these files',
          examples: [['default/landing/flights/_samples/flights.csv']],
        }),
      ),
      branch: t.Optional(OpenBranch),
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
        description: 'One array of values per row, in the order of `columns`',
        examples: [[[1, 'a']]],
      }),
    ),
    total_row_count: t.Integer({ description: 'Number of rows of the result without `limit`' }),
    phases: t.Array(Phase),
    explain_output: t.String({
      description: 'Operators of the executed plan, with the rows and the time of each',
    }),
    memory_peak_bytes: t.Integer({
      description: 'Peak memory of the buffers of the engine during the execution, in bytes',
    }),
    logs: t.Array(LogEntry),
    warnings: t.Array(t.String()),
  },
  { title: 'PipelinePreview' },
)
export type PipelinePreview = typeof PipelinePreview.static
