// The API process dies at several moments of the lake's conversion (ADR 44). Its next start goes on, and ends with the same lake
// as a conversion without a crash.
import { createHash } from 'node:crypto'
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from '@playwright/test'
import type postgres from 'postgres'
import { startProgram } from '../own-service.ts'
import { holding, startTree, type Tree, until } from './tree.ts'

const OLD_ROOT = 'sluice://lake/'
const NEW_ROOT = 's3://sluice/'
/** The advisory lock of the process that converts: `app/catalog/store/lake-root.ts`. */
const CONVERSION_LOCK = 7_340_921_002
/** The conversion takes 4 tables at once. */
const TABLES = 5
const STATES_OF_TABLE = 2
const BRANCH = 'open-work'

let tree: Tree
let sql: postgres.Sql
/** The lake before any conversion: metadata locations by state, and the paths of all files. */
let oldLocations: Map<string, string>
let oldFiles: Set<string>
let rowsBefore: unknown[]
let commits: number[]

test.beforeAll(async () => {
  tree = await startTree()
  sql = await tree.connect()
  commits = []
  for (let state = 0; state < STATES_OF_TABLE; state++)
    for (let n = 0; n < TABLES; n++)
      commits.push(await success(`t_${n}`, `select ${state} as state, ${n} as n`))
  commits.push(await success('v', "-- @materialized: view\nselect * from {{ ref('gold.t_0') }}"))
  expect((await tree.call('POST', '/branches', { name: BRANCH })).status).toBe(201)
  await success('t_1', 'select -1 as state, 1 as n', BRANCH)
  rowsBefore = await allRows()

  const env = { DATABASE_URL: await tree.databaseUrl(), DATA_DIR: tree.dataDir }
  await (await startProgram('tools/test/old-lake.ts', env, /(the lake is old) /)).stop()
  oldLocations = await locations()
  expect([...oldLocations.values()].filter((location) => !location.startsWith(OLD_ROOT))).toEqual([])
  oldFiles = new Set(await lakeFiles())
})
test.afterAll(async () => {
  await sql.end({ timeout: 1 })
  await tree.stop()
})

interface Moment {
  /** Resolves when the conversion is at the moment. */
  reached: Promise<unknown>
  /** Lets the statements of the killed process end. */
  release(): Promise<void>
}

/** Prepares a moment before the conversion begins. */
const MOMENTS: Record<string, () => Promise<Moment>> = {
  'before the recorded root is deleted': () =>
    heldAt("select 1 from secret where name = 'lake_root' for update", 'delete from secret'),
  'before the states of a table move': () => heldAt(lockOfTable(0), 'update lake_content'),
  'between two groups of tables': () => heldAt(lockOfTable(TABLES - 1), 'update lake_content'),
  // The row of another transaction makes the insert wait. That transaction never commits.
  'before the new root is recorded': () =>
    heldAt(
      "insert into secret (name, value) values ('lake_root', 'uncommitted')",
      'insert into secret',
      true,
    ),
  ...Object.fromEntries(
    [1, 7, 20].map((copies) => [
      `after it copied files: ${copies}`,
      async () => ({ reached: until(newFiles, (files) => files.length >= copies), release: async () => {} }),
    ]),
  ),
}

let wanted: unknown
test('a conversion without a crash keeps all rows', async () => {
  await (await oldLakeWaits())()
  await converted()
  wanted = await lakeNow()
  expect(await newFiles()).not.toEqual([])
})

for (const [moment, prepare] of Object.entries(MOMENTS))
  test(`a conversion goes on after a kill ${moment}`, async () => {
    const letGo = await oldLakeWaits(moment === 'before the recorded root is deleted' ? OLD_ROOT : null)
    const { reached, release } = await prepare()
    await letGo()
    await reached
    process.kill(await tree.pidOf('api'), 'SIGKILL')
    await release()
    await converted()
    expect(await lakeNow()).toEqual(wanted)
  })

/** Publishes and runs a pipeline. Returns the commit that its run made on main, or 0 on a branch. */
async function success(name: string, source: string, branch = 'main'): Promise<number> {
  await tree.publish(name, source)
  const data = { namespace: 'default', layer: 'gold', pipeline: name, branch }
  const { status, body } = await tree.call<{ run_id: string }>('POST', '/runs', data)
  expect(status).toBe(202)
  const run = await tree.ended(body.run_id)
  expect(run).toMatchObject({ status: 'success', error: null })
  return run.merged_commit ?? 0
}

/** The rows of every state that readers can name. */
async function allRows(): Promise<unknown[]> {
  const rows: unknown[] = []
  const last = commits.at(-1) ?? 0
  // All tables exist after the first round, and the view at the last commit.
  const versions = [...commits.slice(TABLES - 1).map((as_of) => ({ as_of })), { branch: BRANCH }, {}]
  for (const version of versions) {
    const names = Array.from({ length: TABLES }, (_, n) => `t_${n}`)
    if (!('as_of' in version) || version.as_of === last) names.push('v')
    const sql = names
      .map((name) => `select '${name}' as name, state, n from gold.${name}`)
      .join(' union all ')
    const { body } = await until(
      () => tree.call<{ rows: unknown[] }>('POST', '/query', { sql: `${sql} order by name`, ...version }),
      ({ status }) => status === 200,
    )
    rows.push([version, body.rows])
  }
  return rows
}

/**
 * Makes the lake old again and restarts the API process. Its conversion waits until the returned function is called. A null
 * `root` means that an earlier conversion was interrupted.
 */
async function oldLakeWaits(root: string | null = null): Promise<() => Promise<void>> {
  const lock = await tree.connect()
  await lock`select pg_advisory_lock(${CONVERSION_LOCK})`
  await sql`delete from secret where name = 'lake_root'`
  if (root !== null) await sql`insert into secret (name, value) values ('lake_root', ${root})`
  const pid = await tree.pidOf('api')
  process.kill(pid, 'SIGKILL')
  await until(
    () => tree.pidOf('api'),
    (now) => now !== pid,
  )
  // A conversion waits until other replicas have ended, and the killed process cannot say so.
  await sql`delete from replica`
  for (const [id, location] of oldLocations)
    await sql`update lake_content set metadata_location = ${location} where id = ${id}`
  await Promise.all((await newFiles()).map((path) => rm(path)))
  return async () => {
    await lock`select pg_advisory_unlock(${CONVERSION_LOCK})`
    await lock.end({ timeout: 1 })
  }
}

const lockOfTable = (n: number) => `
  select 1 from lake_content where table_uuid = (
    select table_uuid from lake_content group by table_uuid order by table_uuid offset ${n} limit 1)
  for update`

/** Takes a lock for which a statement of the conversion will wait. */
async function heldAt(lock: string, statement: string, isUndone = false): Promise<Moment> {
  const held = holding(await tree.connect(), lock, isUndone)
  await held.taken
  const reached = until(
    () => sql`
      select 1 from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and query like ${`%${statement}%`}`,
    (rows) => rows.length > 0,
  )
  return { reached, release: held.release }
}

/** Waits until the API answers, and checks that the lake has the new root and its rows. */
async function converted(): Promise<void> {
  await until(
    () => tree.call('GET', '/branches'),
    ({ status }) => status === 200,
  )
  expect(await sql`select value from secret where name = 'lake_root'`).toEqual([{ value: NEW_ROOT }])
  expect(await allRows()).toEqual(rowsBefore)
}

/** The locations of all states and the digests of all files that the conversion wrote. */
async function lakeNow() {
  const files = await Promise.all(
    (await newFiles()).sort().map(async (path) => {
      const bytes = await readFile(path)
      expect(bytes.includes(OLD_ROOT), path).toBe(false)
      return [path, createHash('sha256').update(bytes).digest('hex')]
    }),
  )
  const all = await locations()
  expect([...all.values()].filter((location) => !location.startsWith(NEW_ROOT))).toEqual([])
  return { locations: [...all].sort(), files }
}

async function locations(): Promise<Map<string, string>> {
  const rows = await sql<{ id: string; location: string }[]>`
    select id, metadata_location as location from lake_content order by id`
  return new Map(rows.map(({ id, location }) => [id, location]))
}

const newFiles = async () => (await lakeFiles()).filter((path) => !oldFiles.has(path))

async function lakeFiles(): Promise<string[]> {
  const root = join(tree.dataDir, 'objects', '_lake')
  const entries = await readdir(root, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
}
