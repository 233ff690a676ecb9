import { afterEach, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeEngineKeeper } from './engine-keeper.ts'

const silent = { info: () => {}, warn: () => {}, error: () => {} }
const left: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const clear of left.splice(0)) await clear()
})

const settled = () => new Promise((resolve) => setImmediate(resolve))

/** A process that lives until it is ended, or none where `canStart` says so. */
function engineOf(canStart: boolean) {
  const ended = Promise.withResolvers<string>()
  const process = {
    pid: 1,
    hasEnded: false,
    exited: ended.promise,
    end(why: string) {
      process.hasEnded = true
      ended.resolve(why)
    },
  }
  const ready = canStart ? Promise.resolve() : Promise.reject(new Error('no memory'))
  ready.catch(() => {})
  return { process, ready, known: null }
}

test('an engine that cannot be started takes a keeper out of service until one can, beside one that lives', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-keeper-'))
  left.push(() => rm(directory, { recursive: true, force: true }))
  let canStart = true
  let started = () => {}
  const keeper = makeEngineKeeper({
    directory,
    idleMs: 60_000,
    start: () => {
      started()
      return engineOf(canStart)
    },
    log: silent,
  })
  left.unshift(() => keeper.stop('the test ends'))
  await settled()
  const living = keeper.take()
  canStart = false
  await expect(keeper.take().ready).rejects.toThrow('no memory')
  expect([keeper.isServing(), living.process.hasEnded]).toEqual([false, false])
  canStart = true
  await new Promise<void>((resolve) => {
    started = resolve
  })
  await settled()
  expect(keeper.isServing()).toBe(true)
})
