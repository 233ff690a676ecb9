import { Type as t } from '@sinclair/typebox'
import { documentedAs } from '../core/documented.ts'
import { ReadVersion, VersionQuery } from '../core/lake-version.ts'
import { AnyObject, Layer, NamespaceName, PipelineName } from '../core/names.ts'
import { WholeListQuery } from '../core/pagination.ts'

/** Maximum bytes of SQL in POST /query (specification: Limits). */
export const QUERY_SQL_BYTES = 102_400
/** Default and maximum number of rows of an answer (specification: Limits). */
export const QUERY_ROWS = 1_000
export const QUERY_ROWS_MAX = 100_000

export const Column = t.Object(
  {
    name: t.String(),
    type: t.String({ description: 'Name of the type in DuckDB', examples: ['DECIMAL(14,2)'] }),
  },
  { title: 'Column' },
)

export const ExecuteQuery = t.Object(
  {
    sql: t.String({
      description: `One read-only statement of at most ${QUERY_SQL_BYTES} bytes`,
      examples: ['SELECT * FROM gold.route_delays LIMIT 10'],
    }),
    namespace: t.Optional(
      t.String({
        pattern: '^([a-z][a-z0-9-]{2,62})?$',
        description: 'Namespace of tables that are written as `layer.table`; default `default`',
        examples: ['default'],
      }),
    ),
    limit: t.Optional(
      t.Integer({
        description: `Maximum number of rows in the response; 0: no rows, only the columns; default ${QUERY_ROWS}, also for values below 0; maximum ${QUERY_ROWS_MAX}`,
        examples: [QUERY_ROWS],
      }),
    ),
    ...ReadVersion,
  },
  { title: 'ExecuteQuery' },
)
export type ExecuteQuery = typeof ExecuteQuery.static

/** Rows of the engine are not validated: checking each value would cost more than the query. */
const Rows = documentedAs(
  t.Array(t.Unknown()),
  t.Array(AnyObject, {
    description: 'One object per row, keyed by column name; repeated names get the suffix `_1`, `_2`',
  }),
)

export const QueryResult = t.Object(
  {
    columns: t.Array(Column),
    rows: Rows,
    total_rows: t.Integer({ description: 'Number of rows in the response' }),
    truncated: t.Boolean({ description: 'Whether the result has more rows than the response' }),
    duration_ms: t.Integer(),
  },
  { title: 'QueryResult' },
)
export type QueryResult = typeof QueryResult.static

export const SchemaQuery = t.Composite([t.Object(VersionQuery), WholeListQuery])
export const SchemaList = t.Object(
  {
    tables: t.Array(
      t.Object(
        { namespace: NamespaceName, layer: Layer, name: PipelineName, columns: t.Array(Column) },
        { title: 'TableColumns' },
      ),
    ),
    total: t.Integer(),
  },
  { title: 'SchemaList' },
)
