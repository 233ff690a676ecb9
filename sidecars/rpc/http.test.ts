import { describe, expect, test } from 'bun:test'
import { makeBackoff, patiently } from './http.ts'

describe('an aborted signal', () => {
  const reason = new Error('the engine is lost')

  test('ends a pause with its reason', async () => {
    const controller = new AbortController()
    const pausing = makeBackoff(controller.signal).pause()
    controller.abort(reason)
    expect(await pausing.catch((error) => error)).toBe(reason)
  })

  test('rejects a pause that begins later with its reason', async () => {
    const backoff = makeBackoff(AbortSignal.abort(reason))
    expect(await backoff.pause().catch((error) => error)).toBe(reason)
  })

  test('ends the retries of a call with its reason', async () => {
    const controller = new AbortController()
    let calls = 0
    const calling = patiently(
      async () => {
        calls += 1
        // The abort comes in the pause after this call.
        queueMicrotask(() => setImmediate(() => controller.abort(reason)))
        throw new DOMException('no answer', 'TimeoutError')
      },
      { signal: controller.signal },
    )
    expect(await calling.catch((error) => error)).toBe(reason)
    expect(calls).toBe(1)
  })
})
