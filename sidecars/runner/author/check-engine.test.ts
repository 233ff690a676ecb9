import { expect, test } from 'bun:test'
import { limits } from '../core/limits.ts'
import type { EngineLease } from '../engine/engine-lease.ts'
import { makeCheckEngines } from './check-engine.ts'

const { signal } = new AbortController()

test('a check whose engine cannot be returned leaves room for later checks', async () => {
  const release = () => Promise.reject(new Error('the engine is gone'))
  const open = makeCheckEngines({ acquire: async () => ({ release }) as unknown as EngineLease })
  for (let n = 0; n <= limits.draftChecks; n++) {
    const engine = open()
    await engine.lease(signal)
    await expect(engine.release()).rejects.toThrow('the engine is gone')
  }
})

test('one check has one engine, and a check without a use has none', async () => {
  let acquired = 0
  const lease = { release: async () => {} } as unknown as EngineLease
  const open = makeCheckEngines({
    acquire: async () => {
      acquired += 1
      return lease
    },
  })
  await open().release()
  expect(acquired).toBe(0)
  const engine = open()
  expect([await engine.lease(signal), await engine.lease(signal)]).toEqual([lease, lease])
  expect(acquired).toBe(1)
})
