import { afterAll, beforeAll, expect, test } from 'bun:test'
import { chmod, mkdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { checkDatabase, claimDataDirectory } from './checks.ts'
import { freePort, holdPort } from './ports.ts'
import { type Postgres, startPostgres } from './postgres.ts'
import { temporaryDirectory } from './testing.ts'

let directory: Awaited<ReturnType<typeof temporaryDirectory>>
let database: Postgres
beforeAll(async () => {
  directory = await temporaryDirectory()
  database = await startPostgres({ dataDir: directory.path, durable: false, log: () => {} })
})
afterAll(async () => {
  await database.stop()
  await directory[Symbol.asyncDispose]()
})

/** Runs `npm start` to its end. */
async function start(env: Record<string, string>, options: { uid?: number; gid?: number } = {}) {
  const started = Bun.spawn([process.execPath, join(import.meta.dirname, 'main.ts')], {
    ...options,
    env: {
      PATH: process.env.PATH,
      PORT: String(await freePort()),
      DATA_DIR: join(directory.path, 'data'),
      ...env,
    },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [code, out, error] = await Promise.all([
    started.exited,
    new Response(started.stdout).text(),
    new Response(started.stderr).text(),
  ])
  return { code, out, error }
}

/** Runs a start that is refused before any process starts. Returns the error text. */
async function refusal(env: Record<string, string>, options: { uid?: number; gid?: number } = {}) {
  const { code, out, error } = await start(env, options)
  expect({ code, out }).toEqual({ code: 1, out: '' })
  expect(error).toMatch(/^Sluice did not start: [^\n]+\n$/)
  return error
}

const NO_STORE = {
  S3_ENDPOINT: 'http://127.0.0.1:1',
  S3_BUCKET: 'none',
  S3_ACCESS_KEY_ID: 'key',
  S3_SECRET_ACCESS_KEY: 'secret',
}

test.each([
  ['runner', { RUNNER_CONCURRENCY: 'many' }, 'RUNNER_CONCURRENCY must be a whole number'],
  ['query', { QUERY_CONCURRENCY: 'many' }, 'QUERY_CONCURRENCY must be a whole number'],
  ['api', { EDITION: 'deluxe' }, `EDITION: 'deluxe' is not an edition`],
  ['api', { AUDIT: 'no' }, 'AUDIT: must be on or off'],
  ['api', { TRUSTED_PROXIES: '10.0.0.0/8,proxy' }, `TRUSTED_PROXIES: '10.0.0.0/8,proxy' is not a list`],
  ['api', NO_STORE, `the versioned bucket 'none' at http://127.0.0.1:1 cannot be used`],
])('a wrong %s setting ends the start with a one-line error', async (part, env, reason) => {
  const { code, out, error } = await start({ DATABASE_URL: database.url, ...env })
  expect(code).toBe(1)
  expect(error).toStartWith(`Sluice did not start: ${part} refuses its configuration: `)
  expect(error).toContain(reason)
  expect(error.trim().split('\n')).toHaveLength(1)
  expect(out).not.toContain('restart')
})

test('the error names a port that is in use', async () => {
  const other = await holdPort()
  expect(await refusal({ PORT: String(other.port) })).toContain(`port ${other.port} on 127.0.0.1 is in use`)
  await other.release()
})

test('the error names an invalid port', async () => {
  expect(await refusal({ PORT: '80 80' })).toContain(`PORT must be a number from 1 to 65535, not '80 80'`)
})

test('the error names a host that is no address of this machine', async () => {
  expect(await refusal({ HOST: '192.0.2.1' })).toContain('HOST 192.0.2.1 is not an address of this machine')
})

test('the error names a data directory that cannot be created', async () => {
  const file = join(directory.path, 'a file')
  await writeFile(file, '')
  expect(await refusal({ DATA_DIR: join(file, 'data') })).toContain(
    `the data directory ${join(file, 'data')} cannot be written`,
  )
})

test('the error names a damaged lock file with the next step', async () => {
  const dataDir = join(directory.path, 'damaged')
  const lock = join(dataDir, 'run', 'lock')
  claimDataDirectory(dataDir, () => '').release()
  await writeFile(lock, 'garbage'.repeat(100))
  expect(await refusal({ DATA_DIR: dataDir })).toContain(
    `the lock file ${lock} is damaged: check that Sluice is not running on ${dataDir}, then remove the file`,
  )
})

test.if(process.getuid?.() === 0)('the error names a data directory of another user', async () => {
  const foreign = join(directory.path, 'foreign')
  claimDataDirectory(foreign, () => '').release()
  await chmod(foreign, 0o755)
  expect(await refusal({ DATA_DIR: foreign }, { uid: 65534, gid: 65534 })).toContain(
    `the data directory ${foreign} cannot be written`,
  )
})

test('a start closes the data directory to other users', async () => {
  const modeOf = async (path: string) => (await stat(path)).mode & 0o7777
  const dataDirectory = join(directory.path, 'made')
  claimDataDirectory(dataDirectory, () => '').release()
  expect(await modeOf(dataDirectory)).toBe(0o700)
  await chmod(dataDirectory, 0o755)
  claimDataDirectory(dataDirectory, () => '').release()
  expect(await modeOf(dataDirectory)).toBe(0o700)
})

test('a directory with foreign content keeps its mode and reports the reason', async () => {
  for (const [name, mode, why] of [
    ['shared', 0o1777, 'shared, with the sticky bit'],
    ['foreign-files', 0o755, "foreign entry 'a file'"],
  ] as const) {
    const path = join(directory.path, name)
    await mkdir(path)
    if (name === 'foreign-files') await writeFile(join(path, 'a file'), '')
    await chmod(path, mode)
    for (const start of [1, 2]) {
      const claim = claimDataDirectory(path, () => '')
      expect([name, start, claim.openBecause]).toEqual([name, start, why])
      claim.release()
    }
    expect([name, (await stat(path)).mode & 0o7777]).toEqual([name, mode])
  }
})

test('a data directory with only system entries is closed to others', async () => {
  const path = join(directory.path, 'volume')
  await mkdir(join(path, 'lost+found'), { recursive: true })
  await mkdir(join(path, '.cache'))
  await chmod(path, 0o755)
  const claim = claimDataDirectory(path, () => '')
  expect(claim.openBecause).toBeNull()
  expect((await stat(path)).mode & 0o777).toBe(0o700)
  claim.release()
})

test('a data directory in use by another Sluice is refused', async () => {
  const dataDir = join(directory.path, 'taken')
  const claim = claimDataDirectory(dataDir, () => '')
  expect(await refusal({ DATA_DIR: dataDir })).toContain(`another Sluice (starting) is running on ${dataDir}`)
  claim.release()
  claimDataDirectory(dataDir, () => '').release()
})

test.each(['localhost:5432/x', 'mysql://localhost/x', 'postgres://host:port/x', 'postgres:///x'])(
  'the malformed DATABASE_URL %p is refused',
  async (url) => {
    expect(await refusal({ DATABASE_URL: url })).toContain('DATABASE_URL must look like postgres://')
  },
)

test('the error names an unreachable database without its password', async () => {
  const port = await freePort()
  const message = await refusal({ DATABASE_URL: `postgres://sluice:hunter2@127.0.0.1:${port}/x` })
  expect(message).toContain(`no Postgres answers at 127.0.0.1:${port} (ECONNREFUSED)`)
  expect(message).not.toContain('hunter2')
})

test('the check of a silent database ends with a timeout', async () => {
  const silent = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  const check = checkDatabase(`postgres://sluice:hunter2@127.0.0.1:${silent.port}/x`, 50)
  await expect(check).rejects.toThrow(
    `no Postgres answers at 127.0.0.1:${silent.port} (no answer within 0.05 s)`,
  )
  silent.stop(true)
})

test('the error about a wrong database password does not show it', async () => {
  const url = new URL(database.url)
  url.password = 'hunter2'
  const message = await refusal({ DATABASE_URL: url.href })
  expect(message).toContain(`${url.host} refuses user 'sluice'`)
  expect(message).not.toContain('hunter2')
})

test('the error names a missing database', async () => {
  const url = new URL(database.url)
  url.pathname = '/nowhere'
  expect(await refusal({ DATABASE_URL: url.href })).toContain(`${url.host} has no database 'nowhere'`)
})
