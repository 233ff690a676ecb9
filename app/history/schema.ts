import { Type as t } from '@sinclair/typebox'
import { OpenBranch } from '../core/lake-version.ts'
import { Instant, NamespaceName, nullable, Uuid } from '../core/names.ts'
import { PageQuery } from '../core/pagination.ts'

const TABLE_KEY = '^[^.]{1,128}\\.[^.]{1,128}\\.[^.]{1,128}$'

export const CommitsQuery = t.Composite([
  t.Object({
    namespace: t.Optional(NamespaceName),
    table: t.Optional(
      t.String({
        pattern: TABLE_KEY,
        description: 'A table as `namespace.layer.name`',
        examples: ['default.gold.route_delays'],
      }),
    ),
    from: t.Optional(
      t.String({ description: 'Only commits at or after this time; ISO 8601, UTC by default' }),
    ),
    to: t.Optional(t.String({ description: 'Only commits before this time; ISO 8601, UTC by default' })),
  }),
  PageQuery,
])
export type CommitsQuery = typeof CommitsQuery.static

export const HistoryQuery = t.Composite([t.Object({ branch: t.Optional(OpenBranch) }), PageQuery])
export type HistoryQuery = typeof HistoryQuery.static

const TableState = t.Object(
  {
    commit: nullable(t.Integer({ description: 'Place on main; null for a commit of a branch' })),
    commit_id: Uuid,
    snapshot_id: nullable(
      t.String({
        description: 'Iceberg snapshot; null while the table has none',
        examples: ['9007199254740993'],
      }),
    ),
    run_id: nullable(Uuid),
    operation: nullable(
      t.String({
        description:
          'append, overwrite, delete or replace of Iceberg; `restore`; `expire` when only old snapshots were removed; `create`, or `alter` of the metadata; `rename`; `register`; null when unknown',
        examples: ['append'],
      }),
    ),
    row_count: t.Integer(),
    size_bytes: t.Integer(),
    rows_added: nullable(t.Integer({ description: 'Rows that were inserted or changed; null when unknown' })),
    rows_removed: nullable(
      t.Integer({ description: 'Rows that were removed or changed; null when unknown' }),
    ),
    schema_changed: t.Boolean({ description: 'The columns differ from those of the state before' }),
    created_at: Instant,
  },
  { title: 'TableState' },
)
export const TableHistory = t.Object(
  { history: t.Array(TableState), total: t.Integer() },
  { title: 'TableHistory' },
)
export type TableHistory = typeof TableHistory.static

export const RestoreTable = t.Object(
  {
    commit: t.Optional(t.Integer({ minimum: 0, description: 'A commit of main', examples: [42] })),
    time: t.Optional(t.String({ maxLength: 64, description: 'ISO 8601, UTC by default' })),
  },
  { title: 'RestoreTable', description: 'Either `commit` or `time`', examples: [{ commit: 42 }] },
)
export type RestoreTable = typeof RestoreTable.static

export const TableRestored = t.Object(
  {
    commit: t.Integer({ description: 'The commit of main that has the earlier content now' }),
    restored_from: t.Integer({ description: 'The commit of main whose content the table has again' }),
  },
  { title: 'TableRestored' },
)
export type TableRestored = typeof TableRestored.static
