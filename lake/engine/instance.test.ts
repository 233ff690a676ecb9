import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { link, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EngineError } from './error.ts'
import { type Engine, openLocked, prepareEngine } from './instance.ts'

const MB = 1_000_000
let root: string
let engine: Engine

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'sluice-engine-'))
  for (const folder of ['in', 'in2', 'spill', 'outside']) await mkdir(join(root, folder))
  for (const file of ['in/a.csv', 'in2/a.csv', 'outside/a.csv', 'one.csv', 'other.csv'])
    await writeFile(join(root, file), 'a,b\n1,2\n')
  await symlink(join(root, 'outside/a.csv'), join(root, 'in/soft.csv'))
  await link(join(root, 'outside/a.csv'), join(root, 'in/hard.csv'))
  engine = await open()
})
afterAll(async () => {
  engine.close()
  await rm(root, { recursive: true })
})

const open = () =>
  openLocked({
    memoryLimitBytes: 100 * MB,
    threads: 1,
    tempLimitBytes: 1_000 * MB,
    tempDirectory: join(root, 'spill'),
    allowedDirectories: [join(root, 'in')],
    allowedPaths: [join(root, 'one.csv')],
  })

const rows = async (sql: string) => (await engine.read(sql)).getRowsJson()
async function errorOf(sql: string, at: Engine = engine): Promise<EngineError> {
  const error = await at.read(sql).catch((caught: unknown) => caught)
  if (!(error instanceof EngineError)) throw new Error(`no EngineError: ${sql}`, { cause: error })
  return error
}

describe('a locked engine', () => {
  test('reads files of the allowed directory and the allowed paths', async () => {
    expect(await rows(`SELECT * FROM '${root}/in/a.csv'`)).toEqual([['1', '2']])
    expect(await rows(`SELECT * FROM '${root}/in/hard.csv'`)).toEqual([['1', '2']])
    expect(await rows(`SELECT * FROM '${root}/one.csv'`)).toEqual([['1', '2']])
    await engine.run(`COPY (SELECT 1) TO '${root}/in/out.parquet'`)
  })

  test('keeps the tables of a locked engine', async () => {
    await engine.run('CREATE TABLE t AS SELECT 1 AS a; INSERT INTO t VALUES (2)')
    expect(await rows('SELECT count(*) FROM t')).toEqual([['2']])
    expect(await engine.describe('SELECT a, 1.5::DECIMAL(14,2) AS d, now() AS n FROM t')).toEqual([
      { name: 'a', type: 'INTEGER' },
      { name: 'd', type: 'DECIMAL(14,2)' },
      { name: 'n', type: 'TIMESTAMP WITH TIME ZONE' },
    ])
  })
})

describe('the limits of a locked engine', () => {
  const attempts: [attempt: string, sql: (root: string) => string][] = [
    ['a file outside the allowed directory', (at) => `FROM '${at}/other.csv'`],
    ['a directory whose name has the same prefix', (at) => `FROM '${at}/in2/a.csv'`],
    ['a path with two dots', (at) => `FROM '${at}/in/../other.csv'`],
    ['a symbolic link to a file outside', (at) => `FROM '${at}/in/soft.csv'`],
    ['the environment file of the process', () => `FROM read_text('/proc/self/environ')`],
    ['a list of files', () => `FROM glob('/etc/*')`],
    ['a new file outside', (at) => `COPY (SELECT 1) TO '${at}/out.csv'`],
    ['a database file outside', (at) => `ATTACH '${at}/x.db'`],
    ['an export of the database', (at) => `EXPORT DATABASE '${at}/export'`],
    ['an import of a database', () => `IMPORT DATABASE '/etc'`],
    ['an HTTP address', () => `FROM 'http://127.0.0.1:1/a.csv'`],
    ['an S3 address', () => `FROM 's3://bucket/a.parquet'`],
    ['the installation of an extension', () => 'INSTALL httpfs'],
    ['an extension', () => 'LOAD httpfs'],
    ['a persistent secret', () => 'CREATE PERSISTENT SECRET s (TYPE http)'],
    ['a higher memory limit', () => `SET memory_limit = '10GB'`],
    ['more threads', () => 'SET threads = 8'],
    ['more threads by pragma', () => 'PRAGMA threads = 8'],
    ['a reset of the memory limit', () => 'RESET memory_limit'],
    ['an unlocked configuration', () => 'SET lock_configuration = false'],
    ['external access', () => 'SET enable_external_access = true'],
    ['further allowed directories', () => `SET allowed_directories = ['/']`],
    ['another temporary directory', () => `SET temp_directory = '/'`],
    ['a log file', (at) => `SET log_query_path = '${at}/log'`],
    ['a profile file', (at) => `SET profiling_output = '${at}/profile'`],
    ['a variable of the environment', () => `SELECT getenv('HOME')`],
  ]
  test.each(attempts)('refuses %s', async (_, sql) => {
    expect((await errorOf(sql(root))).message).toMatch(
      /disabled by configuration|disabled through configuration|configuration has been locked|Persistent secrets|does not exist/,
    )
  })

  test('leaves no files behind after the refused statements', async () => {
    expect((await readdir(root)).toSorted()).toEqual([
      'in',
      'in2',
      'one.csv',
      'other.csv',
      'outside',
      'spill',
    ])
  })
})

describe('engine errors', () => {
  test.each([
    ['SELECT 1 +', 'syntax', undefined],
    ['SELECT 1,\n  2 3', 'syntax', 2],
    ['SELECT\n nope', 'binder', 2],
    ['SELECT * FROM nope', 'binder', 1],
    ["SELECT 'a'::INTEGER", 'other', 1],
    ["SELECT error('no')", 'other', undefined],
  ] as const)('reports %j as %s', async (sql, kind, line) => {
    expect(await errorOf(sql)).toMatchObject({ kind, line })
  })

  test('reports exhausted memory and stays usable', async () => {
    expect(await errorOf('SELECT array_agg(range) FROM range(50_000_000)')).toMatchObject({
      kind: 'out_of_memory',
    })
    expect(await rows('SELECT 1')).toEqual([[1]])
  })

  test('spills a large sort to the temporary directory', async () => {
    expect(
      await rows('SELECT count(*) FROM (SELECT random() AS r FROM range(6_000_000) ORDER BY r)'),
    ).toEqual([['6000000']])
  })

  test('limits the spilled bytes, because other processes share the disk', async () => {
    const small = await openLocked({
      memoryLimitBytes: 50 * MB,
      threads: 1,
      tempLimitBytes: 20 * MB,
      tempDirectory: join(root, 'little'),
      allowedDirectories: [],
      allowedPaths: [],
    })
    const { kind, message } = await errorOf(
      'SELECT count(*) FROM (SELECT DISTINCT range FROM range(20_000_000))',
      small,
    )
    expect(kind).toBe('out_of_memory')
    expect(message).toContain('max_temp_directory_size')
    small.close()
  })

  test('stops the running query on an interrupt', async () => {
    const endless = errorOf('SELECT count(*) FROM range(1_000_000_000_000) WHERE random() < 0')
    const stop = setInterval(() => engine.interrupt(), 5)
    expect(await endless).toMatchObject({ kind: 'interrupted' })
    clearInterval(stop)
    expect(await rows('SELECT 1')).toEqual([[1]])
  })
})

test('locks a prepared engine later, and stays closed after closing', async () => {
  const prepared = await prepareEngine({ memoryLimitBytes: 100 * MB, threads: 1, tempLimitBytes: MB })
  const locked = await prepared.lock({
    tempDirectory: join(root, 'spill'),
    allowedDirectories: [],
    allowedPaths: [],
  })
  expect((await errorOf(`FROM '${root}/one.csv'`, locked)).message).toContain('disabled by configuration')
  locked.close()
  locked.close()
  locked.interrupt()
  await expect(locked.read('SELECT 1')).rejects.toThrow()
})
