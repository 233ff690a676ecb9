// Each step of the migrations is taken with rows in every table, made as the program of the step before makes them, in a
// database that this program's predecessor still uses.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import postgres from 'postgres'
import { type TestDatabase, testDatabase } from '../tools/test/database.ts'
import journal from './migrations/meta/_journal.json'

/** Rows of a table that does not grow. */
const SOME = 20
const GROWING = ['pipeline', 'run', 'run_log', 'audit_entry']
/** Which only the database's triggers write. */
const COUNTS = ['row_count', 'run_hour', 'run_total']
const STEPS = journal.entries.map(({ tag }) => tag)

/**
 * What an older program that runs beside waits for while a step is taken: tables that were there before it, and the locks
 * it takes on them. A step that builds an index or reads a growing table while it holds one takes seconds for each million rows.
 */
const LOCKS: Record<string, string[]> = {
  '0001_background': [
    'pipeline ShareRowExclusive',
    'quality_result AccessExclusive',
    'run AccessExclusive, Share',
    'run_attempt AccessExclusive',
    'run_file AccessExclusive',
    'run_log AccessExclusive',
  ],
  '0002_queue': ['pipeline AccessExclusive', 'run AccessExclusive, Share'],
  '0003_retention': [
    'branch_entry Share',
    'lake_ref Share',
    'landing_file Share',
    'main_entry Share',
    'pipeline Share',
    'reaper_status AccessExclusive',
  ],
  '0004_counts': [
    'audit_entry AccessExclusive, ShareRowExclusive',
    'pipeline Share',
    'run AccessExclusive, Share, ShareRowExclusive',
  ],
  '0005_hours': ['run ShareRowExclusive'],
  '0006_access': ['landing_zone Share', 'namespace AccessExclusive, Share', 'pipeline Share'],
  '0007_handed': ['pipeline AccessExclusive'],
  '0008_archiving': ['run_file AccessExclusive'],
  '0009_vouched': ['pipeline AccessExclusive'],
  '0010_traces': ['run AccessExclusive'],
  '0011_begun_traces': ['outbox Share', 'trigger_event AccessExclusive'],
  '0012_audit_answers': ['audit_entry AccessExclusive'],
  '0014_run_total': ['audit_entry AccessExclusive', 'run AccessExclusive, ShareRowExclusive'],
}

/** Takes every step with so many rows in each table that grows. */
export function testMigrations(long: number) {
  let template: TestDatabase
  let sql: postgres.Sql
  let drop: () => Promise<unknown>

  beforeAll(async () => {
    template = await testDatabase()
    const admin = postgres(template.url, { max: 1, onnotice: () => {} })
    const name = `stepped_${randomUUID().replaceAll('-', '')}`
    await admin`create database ${admin(name)}`
    const url = new URL(template.url)
    url.pathname = `/${name}`
    sql = postgres(url.href, { max: 2, onnotice: () => {} })
    drop = async () => {
      await sql.end()
      await admin`drop database ${admin(name)} with (force)`
      await admin.end()
      await template.drop()
    }
  })
  afterAll(() => drop())

  test('a step is newer than all before it, or a database that has those would never take it', () => {
    const times = journal.entries.map(({ when }) => when)
    expect(times).toEqual([...times].sort((a, b) => a - b))
    expect(new Set(times).size).toBe(times.length)
  })

  for (const [number, step] of STEPS.entries()) {
    test(`${step} leaves every row as it was, locks what is written here, and lets the program before it go on`, async () => {
      const known = await tables(sql)
      const kept = await contents(sql, known)
      const locks = await take(sql, step, [...known.keys()])
      expect(locks).toEqual(LOCKS[step] ?? [])
      // Tables whose rows the step makes itself are new.
      expect(await contents(sql, known)).toEqual(kept)

      // The program of the step before: it writes the columns it knows, and finds what it has written.
      const asBefore = long + number * SOME
      await fill(sql, known, asBefore, () => 1)
      const grown = await contents(sql, known)
      for (const [table, { rows }] of Object.entries(kept))
        expect([table, (grown[table]?.rows ?? 0) > rows]).toEqual([table, !isOnly(known, table)])

      const now = await tables(sql)
      const fresh = new Map([...now].filter(([table]) => !known.has(table)))
      await fill(sql, fresh, 1, (table) => (GROWING.includes(table) ? long - 1 : SOME))
      await fill(sql, now, asBefore + 1, () => 1)
      for (const [table, { rows }] of Object.entries(await contents(sql, now)))
        expect([table, rows > 0]).toEqual([table, true])
    })
  }

  test('what is counted from step to step is what is there', async () => {
    const [counted] = await sql`
      select sum(change)::int as runs from run_total`
    const { run } = await contents(sql, await tables(sql))
    expect(counted).toEqual({ runs: run?.rows })
  })
}

interface Column {
  table: string
  column: string
  type: string
  check: string | null
}

/** The columns as they are now, by table. */
async function tables(sql: postgres.Sql): Promise<Map<string, Column[]>> {
  const columns = await sql<Column[]>`
    select c.relname as table, a.attname as column, format_type(a.atttypid, a.atttypmod) as type, (
      select pg_get_constraintdef(k.oid) from pg_constraint k
      where k.conrelid = c.oid and k.contype = 'c' and k.conkey = array[a.attnum]) as check
    from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
    order by c.relname, a.attnum`
  return Map.groupBy(columns, ({ table }) => table)
}

/** In the n-th row of any table every value is the n-th of its type: so what refers to another table's row finds it. */
const VALUES: Record<string, string> = {
  uuid: `md5(n::text)::uuid`,
  text: `'text ' || n`,
  'text[]': `array['text ' || n]`,
  integer: 'n',
  bigint: 'n',
  boolean: 'true',
  jsonb: `jsonb_build_object('n', n)`,
  'timestamp(3) with time zone': `timestamptz '2026-01-01 00:00Z' + n * interval '1 minute'`,
}

function sampleOf({ table, column, type, check }: Column): string {
  const allowed = /ARRAY\['([^']*)'/.exec(check ?? '')?.[1]
  if (allowed !== undefined) return `'${allowed}'`
  const value = VALUES[type]
  if (value === undefined) throw new Error(`no value is known for ${table}.${column}: ${type}`)
  return value
}

/** Rows from the `from`-th on, written as a program writes them that knows these columns. */
async function fill(
  sql: postgres.Sql,
  known: Map<string, Column[]>,
  from: number,
  rowsOf: (table: string) => number,
) {
  const waiting = new Map([...known].filter(([table]) => !COUNTS.includes(table)))
  const references = await sql<{ from: string; to: string }[]>`
    select conrelid::regclass::text as from, confrelid::regclass::text as to from pg_constraint
    where contype = 'f' and confrelid <> conrelid`
  while (waiting.size > 0) {
    const before = waiting.size
    for (const [table, columns] of waiting) {
      if (references.some((reference) => reference.from === table && waiting.has(reference.to))) continue
      const names = columns.map(({ column }) => `"${column}"`).join(', ')
      await sql.unsafe(`insert into "${table}" (${names}) select ${columns.map(sampleOf).join(', ')}
        from generate_series(${from}, ${from + rowsOf(table) - 1}) n on conflict do nothing`)
      waiting.delete(table)
    }
    if (waiting.size === before) throw new Error(`these refer to each other: ${[...waiting.keys()]}`)
  }
}

/** How many rows each table has, and a sum of what is in these columns of them. */
async function contents(
  sql: postgres.Sql,
  known: Map<string, Column[]>,
): Promise<Record<string, { rows: number; sum: string }>> {
  const found: Record<string, { rows: number; sum: string }> = {}
  for (const [table, columns] of known) {
    const values = columns.map(({ column }) => `"${column}"`).join(', ')
    const [row] = await sql.unsafe<{ rows: number; sum: string }[]>(`
      select count(*)::int as rows, coalesce(sum(hashtextextended(row(${values})::text, 0)), 0)::text as sum from "${table}"`)
    if (row) found[table] = row
  }
  return found
}

/** One step as the migrator takes it, in a transaction; says what it locks of what was there, beyond what any read or write locks. */
async function take(sql: postgres.Sql, step: string, before: string[]): Promise<string[]> {
  const source = await readFile(join(import.meta.dirname, 'migrations', `${step}.sql`), 'utf8')
  return sql.begin(async (tx) => {
    for (const statement of source.split('--> statement-breakpoint')) await tx.unsafe(statement)
    const locks = await tx<{ lock: string }[]>`
      select relation::regclass || ' ' || string_agg(mode, ', ' order by mode) as lock from pg_locks
      where pid = pg_backend_pid() and locktype = 'relation' and relation::regclass::text = any(${before})
      and mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
      group by relation order by 1`
    return locks.map(({ lock }) => lock.replaceAll('Lock', ''))
  })
}

const isOnly = (known: Map<string, Column[]>, table: string) =>
  known.get(table)?.some(({ column }) => column === 'is_only') === true
