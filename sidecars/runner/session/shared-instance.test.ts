import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { testDirectory } from '../../../tools/kit/directory.ts'
import type { EngineLease, RunEngines } from '../engine/engine-lease.ts'
import { EngineFault } from '../engine/engine-messages.ts'
import { TEST_SIZE, testEngines, testSandbox } from '../engine/test-engines.ts'
import type { TableInput } from './lake-session.ts'
import { landingIn } from './landing.ts'
import { openForTexts } from './shared-instance.ts'

const MIB = 1_048_576
const OWN = { namespace: 'default', layer: 'gold', name: 'own' } as const
const signal = new AbortController().signal

const lake = testDirectory()
const sandbox = await testSandbox([lake, tmpdir()])
let directory: string
let pool: RunEngines
beforeEach(async () => {
  directory = await mkdtemp(join(lake, 'kept-'))
  pool = testEngines(directory, sandbox, { size: { ...TEST_SIZE, tempLimitBytes: 1_000 * MIB } })
})
afterEach(() => pool.stop())

interface RecordedCall {
  /** The SQL of a pipeline. */
  sql: string
  /** The SQL of its quality test. */
  judged?: string
  found?: readonly TableInput[]
}

const placeOf = ({ directory }: EngineLease) => ({ directory, landing: landingIn(directory) })
const nothing = { found: [], tables: [], own: OWN }

/** The results of a run with these texts, or its error message. `isFresh`: in a fresh instance. */
async function outcomeOf({ sql, judged = 'select 1', found = [] }: RecordedCall, isFresh = false) {
  const lease = await pool.acquire()
  try {
    const shared = { texts: [sql, judged], found, tables: found, own: OWN }
    const { number, viewOf } = isFresh
      ? await openFresh(lease, shared)
      : await openForTexts(lease, shared, placeOf(lease), signal)
    const columns = await lease.call({ kind: 'define', number, sql })
    const rows = await lease.call({ kind: 'query', number, sql: 'from sluice_result' })
    await lease.call({ kind: 'show', number, tables: found.map(viewOf) })
    const { first, rowCount } = await lease.call({ kind: 'judge', number, sql: judged, sampleRows: 3 })
    return { columns, rows, first, rowCount }
  } catch (error) {
    if (!(error instanceof EngineFault)) throw error
    return error.message
  } finally {
    await lease.release()
  }
}

/** Opens a fresh instance, because the text is too long for the shared instance. */
const openFresh = (lease: EngineLease, shared: Parameters<typeof openForTexts>[1]) =>
  openForTexts(lease, { ...shared, texts: [' '.repeat(1_000_000)] }, placeOf(lease), signal)

/** The shared instance in the process of the next lease: its number and its contents. */
async function keptState() {
  const lease = await pool.acquire()
  const { number } = await lease.shared()
  const rows = await lease.call({ kind: 'query', number, sql: STATE })
  await lease.release()
  return { instance: `${number} of ${lease.pid}`, number, rows }
}

const STATE = `
  select 'tables', string_agg(table_name) from duckdb_tables() where not internal
  union all select 'views', string_agg(view_name) from duckdb_views() where not internal
  union all select 'schemas', string_agg(schema_name) from duckdb_schemas() where not internal
  union all select 'sequences', string_agg(sequence_name) from duckdb_sequences()
  union all select 'types', string_agg(type_name) from duckdb_types() where not internal
  union all select 'functions', string_agg(function_name) from duckdb_functions() where not internal
  union all select 'variables', string_agg(name) from duckdb_variables()
  union all select 'prepared', string_agg(name) from duckdb_prepared_statements()
  union all select 'databases', string_agg(database_name) from duckdb_databases()
  union all select 'settings', md5(string_agg(name || coalesce(value, '') order by name)) from duckdb_settings()
      where name not in ('temp_directory', 'allowed_directories')
  union all select 'connections', count::text from duckdb_connection_count()
  union all select 'cached', count(*)::text from duckdb_external_file_cache()
  union all select 'spilled', (count(*) + coalesce(sum(size), 0))::text from duckdb_temporary_files()
  union all select 'memory', (sum(memory_usage_bytes) < 1_000_000)::text from duckdb_memory()`

/** Writes a file to the lake, and returns the table of the file. */
async function tableOf(name: string, sql: string): Promise<TableInput> {
  const lease = await pool.acquire()
  const number = await openFresh(lease, { ...nothing, texts: [] }).then((opened) => opened.number)
  const path = join(lease.directory, `${name}.parquet`)
  await lease.call({ kind: 'run', number, sql: `copy (${sql}) to '${path}' (field_ids {a: 1})` })
  const copy = join(lake, `${crypto.randomUUID()}.parquet`)
  await Bun.write(copy, Bun.file(path))
  await rm(path)
  await lease.release()
  return {
    name: { namespace: 'default', layer: 'gold', name },
    schema: {
      type: 'struct',
      'schema-id': 0,
      fields: [{ id: 1, name: 'a', required: false, type: 'int' }],
    },
    files: [{ path: copy }],
    locations: [copy],
    rowCount: 1,
  }
}

test('runs of harmless texts share one instance in one process', async () => {
  const before = await keptState()
  expect(await outcomeOf({ sql: 'select 7 as a' })).toMatchObject({ rows: [['7']] })
  expect(await outcomeOf({ sql: 'select 8 as b' })).toMatchObject({ rows: [['8']] })
  expect(await keptState()).toEqual(before)
})

test('a run reads its own tables, not earlier tables of that name', async () => {
  const texts = {
    sql: 'select a + 1 as b from "default.gold"."t"',
    judged: 'select sum(a) from "default.gold"."t"',
  }
  const before = await keptState()
  for (const a of [1, 20]) {
    const found = [await tableOf('t', `select ${a}::integer as a`)]
    expect(await outcomeOf({ ...texts, found })).toMatchObject({ rows: [[String(a + 1)]], first: String(a) })
  }
  expect(await outcomeOf(texts)).toContain('because schema "default.gold" does not exist')
  expect(await keptState()).toEqual(before)
  expect(await readdir(join(directory, 'inputs'), { recursive: true })).toEqual(
    await readdir(join(directory, 'inputs')),
  )
})

test('an instance is not shared again after a failure in it', async () => {
  const before = await keptState()
  for (const sql of [
    "select 'x'::integer as a",
    "select error('no') as a",
    'select 1::utinyint + 255::utinyint as a',
  ]) {
    const { instance } = await keptState()
    expect(typeof (await outcomeOf({ sql }))).toBe('string')
    expect((await keptState()).instance).not.toBe(instance)
  }
  expect((await keptState()).rows).toEqual(before.rows)
})

test('an error about an unreadable file names the file, not its link', async () => {
  const table = await tableOf('t', 'select 7::integer as a')
  const [path = ''] = table.files.map((file) => file.path)
  await rm(path)
  await writeFile(path, 'PAR1 and nothing more')
  const query = { sql: 'select a from "default.gold"."t"', found: [table] }
  expect(await outcomeOf(query)).toContain(`'${path}'`)
  expect(await outcomeOf(query)).toBe(await outcomeOf(query, true))
})

test('a process that cannot prepare an instance is not used again', async () => {
  const failing = testEngines(join(directory, 'other'), sandbox, { size: { ...TEST_SIZE, threads: 0 } })
  const first = await failing.acquire()
  await expect(first.shared()).rejects.toThrow(EngineFault)
  await first.release()
  const second = await failing.acquire()
  expect(second.pid).not.toBe(first.pid)
  await expect(second.instance()).rejects.toThrow(EngineFault)
  await second.release()
  const third = await failing.acquire()
  expect(third.pid).not.toBe(second.pid)
  await third.release()
  await failing.stop()
})

test('an instance that has spilled is closed and its disk freed', async () => {
  const before = await keptState()
  const rows = "select repeat('x', 90) || range as b from range(800_000)"
  const sql = `select count(c) as n from (select lag(b) over (order by hash(b)) as c from (${rows}))`
  expect(await outcomeOf({ sql })).toMatchObject({ rows: [['799999']] })
  const after = await keptState()
  expect(after.instance).not.toBe(before.instance)
  expect(after.rows).toEqual(before.rows)
})

test('a cancelled run ends the shared instance that it used', async () => {
  const before = await keptState()
  const lease = await pool.acquire()
  const cancel = new AbortController()
  const sql = 'select sum(a.range * b.range) from range(1000000) a, range(1000000) b'
  const { number } = await openForTexts(lease, { ...nothing, texts: [sql] }, placeOf(lease), signal)
  expect(number).toBe(before.number)
  const running = lease.call({ kind: 'judge', number, sql, sampleRows: 0 }, cancel.signal)
  cancel.abort(new Error('cancelled'))
  await expect(running).rejects.toThrow('cancelled')
  await lease.release()
  const after = await keptState()
  expect(after.instance).not.toBe(before.instance)
  expect(after.rows).toEqual(before.rows)
})

test('a released lease accepts no more calls', async () => {
  const lease = await pool.acquire()
  const { number } = await lease.shared()
  await lease.release()
  await expect(lease.call({ kind: 'query', number, sql: 'select 1' })).rejects.toThrow('after its release')
})

/** These texts run in any order. No text may see the effect of another text. */
const TEXTS: readonly string[] = [
  'select 1 as a',
  'select count(*) as n from range(100_000)',
  'select a from (values (1), (2)) t(a) order by a desc',
  "select string_agg(x, ',') as a from unnest(['b', 'a']) t(x)",
  'with recursive r as (select 1 as n union all select n + 1 from r where n < 9) select max(n) as n from r',
  'select current_schema() as a, current_database() as b',
  "select '2026-01-01'::timestamptz::text as a, 1e400 as b, interval 1 month as c",
  'select abs(-3) as a',
  'select setseed(0.25) as s, 1 as a',
  'select count(distinct r) > 1 as a from (select random() as r from range(10))',
  'select txid_current() as a',
  'select 1 as a; select 2 as b',
  'select 1 as a; create table t as select 1',
  'create temp table sluice_leftover as select 1 as a',
  'create macro abs(x) as 7',
  "set timezone = 'Asia/Tokyo'",
  'set variable x = 7',
  "select getvariable('x') as a",
  "attach ':memory:' as other",
  'use other',
  'from sluice_leftover',
  'from sluice_result',
  'select * from duckdb_variables()',
  'select view_name from duckdb_views() where not internal',
  'select table_name from information_schema.tables',
  "select name, value from duckdb_settings() where name in ('threads', 'memory_limit', 'lock_configuration', 'TimeZone')",
  'select count(*) as n from duckdb_prepared_statements()',
  'prepare p as select 1',
  'execute p',
  'pragma enable_profiling',
  'from enable_logging()',
  "from query('select 1 as a')",
  'select a as a, b as a from (select 1 as a, 2 as b)',
  'select $1 as a',
  'select nothing_here',
  'selec 1',
  '',
  "select 'x'::integer as a",
  "select error('no') as a",
  "select * from read_csv('/etc/passwd')",
  "select count(*) as n from glob('*')",
  "select count(*) as n from glob('../../inputs/*/*')",
  'begin',
  'commit',
  'rollback',
  'select * from (values (1), (2)) t(a) pivot (count(*) for a in (1, 2))',
  'describe select 1 as a',
  'summarize select 1 as a',
  'show tables',
  'show all tables',
]

// Values that differ between two fresh instances are queried in a form that does not differ.
test('a text has the same outcome in a shared and fresh instance', async () => {
  const expected = new Map<string, Awaited<ReturnType<typeof outcomeOf>>>()
  for (const sql of TEXTS) expected.set(sql, await outcomeOf({ sql }, true))
  const before = await keptState()
  let seed = 7
  const next = (below: number) => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed % below
  }
  for (let n = 0; n < 150; n++) {
    const sql = TEXTS[next(TEXTS.length)] ?? ''
    expect([sql, await outcomeOf({ sql })]).toEqual([sql, expected.get(sql) ?? ''])
  }
  expect((await keptState()).rows).toEqual(before.rows)
}, 120_000)
