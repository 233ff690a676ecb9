import { afterEach, expect, test } from 'bun:test'
import { makeSlots } from '../../ground/process/slots.ts'
import { testDirectory } from '../../tools/kit/directory.ts'
import { silent } from '../core/testing.ts'
import { EnginePool } from './engine-pool.ts'

const directory = testDirectory()
let pool: EnginePool<ReturnType<typeof engineOf>['process'], null>
afterEach(() => pool.stop('the test ends'))

const settled = () => new Promise((resolve) => setImmediate(resolve))

/** A process that lives until it is ended. Without `canStart`, its `ready` rejects. */
function engineOf(canStart: boolean) {
  const ended = Promise.withResolvers<string>()
  const process = {
    pid: 1,
    hasEnded: false,
    residentBytes: 2,
    residentBytesMax: 8,
    exited: ended.promise,
    end(why: string) {
      process.hasEnded = true
      ended.resolve(why)
    },
  }
  const ready = canStart ? Promise.resolve() : Promise.reject(new Error('no memory'))
  ready.catch(() => {})
  return { process, ready, record: null }
}

test('the pool stops serving after a failed start until a start succeeds', async () => {
  let canStart = true
  let started = () => {}
  pool = new EnginePool({
    directory,
    turns: makeSlots(2, 0),
    idleMs: 60_000,
    start: () => {
      started()
      return engineOf(canStart)
    },
    log: silent,
  })
  await settled()
  const living = await pool.acquire()
  canStart = false
  await expect((await pool.acquire()).ready).rejects.toThrow('no memory')
  expect([pool.isServing, living.process.hasEnded]).toEqual([false, false])
  canStart = true
  await new Promise<void>((resolve) => {
    started = resolve
  })
  await settled()
  expect(pool.isServing).toBe(true)
})

test('take prefers a cleared engine to a process that was started ahead', async () => {
  let starts = 0
  const start = () => {
    starts += 1
    return engineOf(true)
  }
  pool = new EnginePool({ directory, turns: makeSlots(2, 0), idleMs: 60_000, start, log: silent })
  await settled()
  const first = await pool.acquire()
  const cleared = Promise.withResolvers<boolean>()
  const released = pool.release(first, cleared.promise)
  const next = pool.acquire()
  cleared.resolve(true)
  await released
  expect(await next).toBe(first)
  expect(starts).toBe(1)

  pool.startAhead()
  await settled()
  await pool.release(first, true)
  expect(await pool.acquire()).toBe(first)
  expect((await pool.acquire()) === first).toBe(false)
  expect(starts).toBe(2)
})
