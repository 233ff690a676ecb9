import { Type as t } from '@sinclair/typebox'
import { documentedAs } from '../core/documented.ts'
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
    type: t.String({ description: "The engine's name of the type", examples: ['DECIMAL(14,2)'] }),
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
        description: 'A namespace, where `layer.table` is looked up; default `default`',
        examples: ['default'],
      }),
    ),
    limit: t.Optional(
      t.Integer({
        description: `Rows answered; default ${QUERY_ROWS}, also below 1; at most ${QUERY_ROWS_MAX}`,
        examples: [QUERY_ROWS],
      }),
    ),
  },
  { title: 'ExecuteQuery' },
)
export type ExecuteQuery = typeof ExecuteQuery.static

/** Rows of the engine are not validated: checking each value would cost more than the query. */
const Rows = documentedAs(
  t.Array(t.Unknown()),
  t.Array(AnyObject, {
    description: 'Objects keyed by column name; a name that is there already gets `_1`, `_2`',
  }),
)

export const QueryResult = t.Object(
  {
    columns: t.Array(Column),
    rows: Rows,
    total_rows: t.Integer({ description: 'The rows answered' }),
    truncated: t.Boolean({ description: 'Whether there were more' }),
    duration_ms: t.Integer(),
  },
  { title: 'QueryResult' },
)
export type QueryResult = typeof QueryResult.static

export const SchemaQuery = WholeListQuery
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
