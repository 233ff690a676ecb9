/** Tables that other engines write on a branch, with the same statements for DuckDB, which computes the expected rows. */
import type { Engine } from './tables.ts'

export type Author = 'spark' | 'trino' | 'pyiceberg'

/**
 * `{t}` is the name of the table. A text is for the author and for the model. `sql` is for the author only, `model` for the model
 * only. `check` must be true in Spark.
 */
type Statement =
  | string
  | { sql: string }
  | { model: string }
  | { check: string }
  | { delete_equal: number[] }
  | { rows: string; where?: string }
  | { where: string }

interface WrittenTable {
  name: string
  author: Author
  /** The owner's query before the branch, with its settings. */
  settings: string
  first: string
  statements: Statement[]
  /** The owner's query after the merge. It replaces the rows with the same `id`. */
  next: string
  /** Engines that refuse the whole table (docs/engines.md). */
  refusedBy?: Engine[]
}

const UPSERT = '-- @merge_strategy: incremental\n-- @unique_key: id'
const ROWS = `select range::int as id, (range * 10)::int as n, 'row ' || range as s,
  date '2024-01-01' + (range % 40)::int as d from range(1000)`
const next = (columns: string) =>
  `select range::int as id, range::bigint as n, 'owner' as ${columns} from range(490, 1100)`

const MERGE_ON_READ = ['delete', 'update', 'merge']
  .map((kind) => `'write.${kind}.mode'='merge-on-read'`)
  .join()
const merge = (when: string) => `merge into {t} t
  using (select id + 5 as id, n from {t} where id % 100 = 7 or id = 999) u on t.id = u.id ${when}`
const MERGE_DELETE = 'when matched and t.id > 500 then delete when matched then update set n = -1'

export const WRITTEN: WrittenTable[] = [
  {
    name: 'written_by_spark',
    author: 'spark',
    settings: UPSERT,
    first: ROWS,
    statements: [
      { sql: `alter table {t} set tblproperties (${MERGE_ON_READ})` },
      "insert into {t} values (2000, 1, 'spark', date '2025-01-01'), (2001, null, null, null)",
      'delete from {t} where id % 10 = 3',
      "update {t} set s = 'updated' where id < 50",
      { check: 'select count(*) > 0 from {t}.delete_files' },
      'alter table {t} add column extra string',
      'alter table {t} add column gone int',
      { sql: 'alter table {t} add partition field bucket(4, id)' },
      "insert into {t} values (2002, 2, 'bucket', date '2025-02-02', 'x', 1)",
      { sql: 'alter table {t} replace partition field bucket(4, id) with days(d)' },
      "insert into {t} values (2003, 3, 'days', date '1969-12-31', 'y', 2), (2004, 4, 'no day', null, 'z', 3)",
      { sql: 'alter table {t} add partition field truncate(2, s)' },
      { sql: 'alter table {t} write ordered by n desc' },
      "insert into {t} values (2005, 5, 'truncate', date '2025-02-02', 'x', 4), (2006, 6, null, null, null, 5)",
      merge(`${MERGE_DELETE} when not matched then insert (id, n, s, d) values (u.id, u.n, 'merged', null)`),
      'update {t} set n = 0 where id in (2003, 2005, 2006, 700)',
      "delete from {t} where s = 'days'",
      'alter table {t} alter column n type bigint',
      'insert into {t} select id + 10000, n + 10000000000, s, d, extra, gone from {t} where id < 20',
      'alter table {t} rename column extra to more',
      'alter table {t} drop column gone',
      { sql: 'alter table {t} alter column more first' },
      'delete from {t} where n = 10000000010',
    ],
    next: next("s, date '2026-01-01' as d, 'more' as more"),
  },
  {
    name: 'deleted_by_equality',
    author: 'spark',
    settings: UPSERT,
    first: ROWS,
    statements: [
      { delete_equal: [1, 5, 5, 998, 4711] },
      { model: 'delete from {t} where id in (1, 5, 998)' },
      "insert into {t} values (5, 50, 'again', null)",
    ],
    next: next("s, date '2026-01-01' as d"),
    refusedBy: ['pyiceberg'],
  },
  {
    name: 'written_by_trino',
    author: 'trino',
    settings: UPSERT,
    first: ROWS,
    statements: [
      "insert into {t} values (2000, 1, 'trino', date '2025-01-01'), (2001, null, null, null)",
      'delete from {t} where id % 10 = 3',
      "update {t} set s = 'updated' where id < 50",
      'alter table {t} add column more varchar',
      {
        sql: "alter table {t} set properties partitioning = array['truncate(s, 3)', 'month(d)', 'bucket(id, 8)']",
      },
      "insert into {t} values (2002, 2, 'extra', date '2025-02-02', 'x'), (2003, 3, null, null, 'y')",
      merge(`${MERGE_DELETE} when not matched then insert (id, n, s, d) values (u.id, u.n, 'merged', null)`),
      { sql: 'alter table {t} alter column n set data type bigint' },
      { model: 'alter table {t} alter column n type bigint' },
      'update {t} set n = 10000000000 where id in (2002, 2003)',
      "delete from {t} where s = 'trino'",
    ],
    next: next("s, date '2026-01-01' as d, 'more' as more"),
  },
  {
    name: 'written_by_pyiceberg',
    author: 'pyiceberg',
    settings: UPSERT,
    first: ROWS,
    statements: [
      { rows: "select 2000::int as id, 1::int as n, 'pyiceberg' as s, date '2025-01-01' as d" },
      { where: 'id < 20' },
      {
        where: 'id >= 950',
        rows: "select 3000::int as id, 2::int as n, 'overwritten' as s, null::date as d",
      },
    ],
    next: next("s, date '2026-01-01' as d"),
  },
]

/** The statements of the engine. */
export const forAuthor = ({ name, statements }: WrittenTable) => ({
  name,
  statements: statements.flatMap((statement) =>
    typeof statement === 'string' ? { sql: statement } : 'model' in statement ? [] : statement,
  ),
})

/** The statements that make the expected rows in DuckDB. */
export function model({ name, first, statements }: WrittenTable): string[] {
  const own = statements.flatMap((statement): string[] => {
    if (typeof statement === 'string') return [statement]
    if ('model' in statement) return [statement.model]
    return [
      ...('where' in statement ? [`delete from {t} where ${statement.where}`] : []),
      ...('rows' in statement ? [`insert into {t} by name ${statement.rows}`] : []),
    ]
  })
  return [`create table ${name} as ${first}`, ...own.map((statement) => statement.replaceAll('{t}', name))]
}

/** The statements for the next run of the owner. */
export const nextModel = ({ name, next }: WrittenTable): string[] => [
  `delete from ${name} where id in (select id from (${next}))`,
  `insert into ${name} by name ${next}`,
]
