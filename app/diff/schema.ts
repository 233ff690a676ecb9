import { Type as t } from '@sinclair/typebox'
import { documentedAs } from '../core/documented.ts'
import { BranchName, REF_NAME } from '../core/lake-version.ts'
import {
  AnyObject,
  Layer,
  literals,
  NamespaceName,
  nullable,
  PipelineName,
  PipelinePath,
} from '../core/names.ts'
import { numberText, PageQuery } from '../core/pagination.ts'
import { Column } from '../query/schema.ts'

/** Default and maximum number of rows in each list of a table's diff. */
export const DIFF_ROWS = { fallback: 50, max: 1_000 }

const Against = t.Optional(
  t.String({ pattern: REF_NAME, description: 'main or an open branch; default main', examples: ['main'] }),
)
export const DiffQuery = t.Composite([t.Object({ against: Against }), PageQuery])
export type DiffQuery = typeof DiffQuery.static
export const RowDiffQuery = t.Object({
  against: Against,
  limit: t.Optional(
    numberText({
      minimum: 0,
      maximum: DIFF_ROWS.max,
      description: `Rows in each list; default ${DIFF_ROWS.fallback}, at most ${DIFF_ROWS.max}`,
      examples: [DIFF_ROWS.fallback],
    }),
  ),
})
export type RowDiffQuery = typeof RowDiffQuery.static
export const RunRowsQuery = t.Pick(RowDiffQuery, ['limit'])
export const RowDiffPath = t.Composite([t.Object({ branch: BranchName }), PipelinePath])

const SchemaChange = t.Object(
  {
    added: t.Array(Column),
    removed: t.Array(Column),
    changed: t.Array(
      t.Object(
        {
          name: t.String(),
          from: t.String({ description: 'The earlier type' }),
          to: t.String({ description: 'The later type' }),
          renamed_from: nullable(t.String({ description: 'The earlier name of a renamed column' })),
        },
        { title: 'ChangedColumn' },
      ),
    ),
  },
  { title: 'SchemaChange' },
)

export const TableDiff = t.Object(
  {
    namespace: NamespaceName,
    layer: Layer,
    name: PipelineName,
    change: literals(['added', 'removed', 'changed'], { title: 'TableChange' }),
    rows_before: t.Integer(),
    rows_after: t.Integer(),
    rows_added: nullable(
      t.Integer({
        description: 'Inserted and changed rows; null when counting takes too much time or memory',
      }),
    ),
    rows_removed: nullable(
      t.Integer({
        description: 'Removed and changed rows; null when counting takes too much time or memory',
      }),
    ),
    conflict: t.Boolean({ description: 'Main changed the table since the base' }),
    schema: SchemaChange,
  },
  { title: 'TableDiff' },
)
export type TableDiff = typeof TableDiff.static

export const Diff = t.Object(
  {
    from: t.String({ examples: ['main'] }),
    to: t.String({ examples: ['late-flights'] }),
    tables: t.Array(TableDiff),
    total: t.Integer(),
  },
  { title: 'Diff' },
)
export type Diff = typeof Diff.static

/** Rows of the engine are not validated, as in the answer of a query. */
const Rows = documentedAs(t.Array(t.Unknown()), t.Array(AnyObject))

export const RowDiff = t.Object(
  {
    columns: t.Array(Column),
    added: Rows,
    removed: Rows,
    changed: documentedAs(
      t.Array(t.Unknown()),
      t.Array(t.Object({ before: AnyObject, after: AnyObject }, { title: 'ChangedRow' }), {
        description: 'Rows of one unique key; empty without a unique key',
      }),
    ),
    truncated: t.Boolean({ description: 'Whether a list has more rows than the response' }),
  },
  { title: 'RowDiff' },
)
export type RowDiff = typeof RowDiff.static
