import { afterEach, beforeEach, expect, test } from 'bun:test'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { testDirectory } from '../../../tools/kit/directory.ts'
import { makeLog } from '../../core/log.ts'
import { EngineEnded } from '../../engine/engine-process.ts'
import { makeShares } from '../../engine/shares.ts'
import type { EngineLease, RunEngines } from './engine-lease.ts'
import type { RunEnginesOptions } from './engine-leases.ts'
import { EngineFault } from './engine-messages.ts'
import { TEST_SIZE, testEngines, testSandbox } from './test-engines.ts'

const ENDLESS = 'select sum(a.range * b.range) from range(1000000) a, range(1000000) b'

const directory = testDirectory()
const sandbox = await testSandbox()
let pool: RunEngines
let logged: string[]
let onLog: () => void
beforeEach(() => {
  logged = []
  onLog = () => {}
  pool = poolOf()
})
afterEach(() => pool.stop())

const poolOf = (more: Partial<RunEnginesOptions> = {}) => {
  const log = makeLog('test', 'text', (line) => {
    logged.push(line)
    onLog()
  })
  return testEngines(directory, sandbox, { log, ...more })
}

/** Opens an instance of the lease that can read no files. */
async function openOn(lease: EngineLease): Promise<number> {
  const number = await lease.instance()
  const tempDirectory = join(lease.directory, `spill-${number}`)
  await lease.call({
    kind: 'open',
    number,
    tempDirectory,
    allowedDirectories: [],
    allowedPaths: [],
    share: lease.share(),
    tables: [],
  })
  return number
}

async function judge(lease: EngineLease, sql: string, signal?: AbortSignal) {
  return lease.call({ kind: 'judge', number: await openOn(lease), sql, sampleRows: 3 }, signal)
}

test('a long call reports the read share of its input and its cost', async () => {
  const lease = await pool.acquire()
  const file = join(lease.directory, 'input.parquet')
  const number = await lease.instance()
  const access = { allowedDirectories: [lease.directory], allowedPaths: [], countsProgress: true }
  await lease.call({
    kind: 'open',
    number,
    tempDirectory: join(lease.directory, 'spill'),
    tables: [],
    ...access,
  })
  await lease.call({
    kind: 'run',
    number,
    sql: `copy (from range(1000000) a(n)) to '${file}' (format parquet, row_group_size 2048)`,
  })
  const stopped = new AbortController()
  const reported = Promise.withResolvers<Parameters<NonNullable<EngineLease['onProgress']>>[0]>()
  // A busy machine has read nothing yet at the first report.
  lease.onProgress = (progress) => progress.percent !== 0 && reported.resolve(progress)
  const sql = `select sum(list_sum(list_transform(range(2000), lambda x: x * n))) from read_parquet('${file}')`
  const call = lease.call({ kind: 'run', number, sql }, stopped.signal).catch((error: unknown) => error)
  const { percent, cpuSeconds, bytesRead } = await reported.promise
  stopped.abort()
  expect(await call).toBe(stopped.signal.reason)
  expect(percent).toBeGreaterThan(0)
  expect(percent).toBeLessThanOrEqual(100)
  expect(cpuSeconds).toBeGreaterThan(0)
  expect(bytesRead).toBeGreaterThan(0)
  await lease.release()
})

test('a released process is used again with a fresh instance', async () => {
  const first = await pool.acquire()
  const number = await openOn(first)
  await first.call({ kind: 'define', number, sql: 'select 1 as a' })
  await first.release()
  const second = await pool.acquire()
  expect(second.pid).toBe(first.pid)
  await expect(second.call({ kind: 'define', number, sql: 'select 1' })).rejects.toThrow(
    'unknown engine instance',
  )
  expect(await judge(second, 'select 7')).toEqual({
    columnTypes: ['INTEGER'],
    rowCount: 1,
    first: '7',
    samples: ['7=7'],
  })
  await second.release()
})

test('an engine alone gets nearly all, and several get shares', async () => {
  await pool.stop()
  const floor = { memoryBytes: TEST_SIZE.memoryLimitBytes, threads: 1 }
  const total = { memoryBytes: 9 * floor.memoryBytes, threads: 4 }
  const availableBytes = () => Number.POSITIVE_INFINITY
  pool = poolOf({ shares: makeShares({ total, floor, concurrency: 2, availableBytes }) })
  const limitsOf = async (lease: EngineLease) => {
    const settings = `select current_setting('threads') || ' ' || current_setting('memory_limit') as limits`
    const [row] = await lease.call({ kind: 'query', number: await openOn(lease), sql: settings })
    return row?.[0]
  }
  const alone = await pool.acquire()
  expect(await limitsOf(alone)).toBe('4 400.0 MiB')
  const second = await pool.acquire()
  expect(await limitsOf(second)).toBe('2 100.0 MiB')
  await alone.release()
  expect(await limitsOf(second)).toBe('4 400.0 MiB')
  await second.release()
  const third = await pool.acquire()
  expect(await limitsOf(third)).toBe('4 400.0 MiB')
  await third.release()
})

test('exchange goes ahead of waiting callers and invalidates its lease', async () => {
  await pool.stop()
  pool = poolOf({ leasesMax: 1 })
  const first = await pool.acquire()
  const order: string[] = []
  const waitingLease = pool.acquire().finally(() => order.push('who waits'))
  const next = await first.exchange(async () => void order.push('cleared'))
  await expect(first.call({ kind: 'prepare', number: 9, ...TEST_SIZE })).rejects.toThrow('after its release')
  expect((await judge(next, 'select 7')).first).toBe('7')
  order.push('used')
  await next.release()
  await (await waitingLease).release()
  expect(order).toEqual(['cleared', 'used', 'who waits'])
})

test('a process has no environment, a low priority, and is killed first', async () => {
  const lease = await pool.acquire()
  await lease.instance()
  const environment = await readFile(`/proc/${lease.pid}/environ`, 'utf8')
  expect(environment).not.toMatch(/(^|\0)(PATH|HOME|TEST_DATABASE_URL)=/)
  expect(await readFile(`/proc/${lease.pid}/oom_score_adj`, 'utf8')).toBe('1000\n')
  const stat = await readFile(`/proc/${lease.pid}/stat`, 'utf8')
  expect(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16]).toBe('10')
  await lease.release()
})

test('a cancelled query is interrupted while its process stays', async () => {
  await pool.stop()
  // The time of an interrupt on this machine is not under test.
  pool = poolOf({ cancelGraceMs: 30_000 })
  const lease = await pool.acquire()
  const cancel = new AbortController()
  const running = judge(lease, ENDLESS, cancel.signal)
  cancel.abort(new Error('cancelled'))
  await expect(running).rejects.toThrow('cancelled')
  expect((await judge(lease, 'select 1')).first).toBe('1')
  await lease.release()
})

test('a process that ignores a cancel is ended and replaced', async () => {
  const lease = await pool.acquire()
  const cancel = new AbortController()
  const number = await openOn(lease)
  process.kill(lease.pid, 'SIGSTOP')
  const running = lease.call({ kind: 'judge', number, sql: 'select 1', sampleRows: 0 }, cancel.signal)
  cancel.abort(new Error('cancelled'))
  await expect(running).rejects.toThrow('cancelled')
  await lease.release()
  const next = await pool.acquire()
  expect(next.pid).not.toBe(lease.pid)
  expect((await judge(next, 'select 1')).first).toBe('1')
  await next.release()
})

test('a process that ends fails its own call and no other', async () => {
  const [lost, other] = await Promise.all([pool.acquire(), pool.acquire()])
  const running = judge(lost, ENDLESS)
  const elsewhere = judge(other, 'select count(*) from range(10_000_000)')
  process.kill(lost.pid, 'SIGKILL')
  await expect(running).rejects.toThrow(EngineEnded)
  expect((await elsewhere).first).toBe('10000000')
  await expect(lost.call({ kind: 'judge', number: 1, sql: 'select 1', sampleRows: 0 })).rejects.toThrow(
    EngineEnded,
  )
  await Promise.all([lost.release(), other.release()])
})

test('a process that ran out of memory is not used again', async () => {
  const lease = await pool.acquire()
  const fault = await judge(lease, 'select array_agg(range) from range(50_000_000)').catch(
    (error: unknown) => error,
  )
  expect(fault).toBeInstanceOf(EngineFault)
  expect(fault).toMatchObject({ kind: 'out_of_memory' })
  await lease.release()
  const next = await pool.acquire()
  expect(next.pid).not.toBe(lease.pid)
  await next.release()
})

test('a process that takes more memory than its engine counts is ended', async () => {
  const lease = await pool.acquire()
  const outcome = judge(lease, 'select range(7_000_000) as one_value')
  await expect(outcome).rejects.toThrow('engine process ended (memory limit exceeded)')
  await lease.release()
})

test('callers wait in order while every engine is in use', async () => {
  const [a, b] = await Promise.all([pool.acquire(), pool.acquire()])
  const order: string[] = []
  const abort = new AbortController()
  const leaving = pool.acquire(abort.signal)
  const first = pool.acquire().then((lease) => {
    order.push('first')
    return lease
  })
  const second = pool.acquire().then((lease) => {
    order.push('second')
    return lease
  })
  abort.abort(new Error('left'))
  await expect(leaving).rejects.toThrow('left')
  await a.release()
  const c = await first
  expect(order).toEqual(['first'])
  await b.release()
  await Promise.all([c.release(), (await second).release()])
})

test('an idle process that ends is replaced before the next request', async () => {
  const lease = await pool.acquire()
  await lease.instance()
  await lease.release()
  expect(pool.isServing()).toBe(true)
  const noticed = Promise.withResolvers<void>()
  onLog = noticed.resolve
  process.kill(lease.pid, 'SIGKILL')
  await noticed.promise
  const next = await pool.acquire()
  expect(next.pid).not.toBe(lease.pid)
  expect(logged).toEqual([`warn idle engine process ended how=SIGKILL pid=${lease.pid}\n`])
  await next.release()
})

test('stopping ends every process and leaves no directory', async () => {
  const lease = await pool.acquire()
  await pool.stop()
  await expect(judge(lease, 'select 1')).rejects.toThrow(EngineEnded)
  expect(() => process.kill(lease.pid, 0)).toThrow()
  expect(pool.isServing()).toBe(false)
  expect(await readdir(join(directory, 'engines'))).toEqual([])
  expect(logged).toEqual([])
})
