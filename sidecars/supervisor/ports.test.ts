import { expect, test } from 'bun:test'
import { freePort, holdPort } from './ports.ts'

test('held ports differ and stay unavailable until their release', async () => {
  const held = await Promise.all([holdPort(), holdPort(), holdPort()])
  expect(new Set(held.map(({ port }) => port)).size).toBe(3)
  for (const { port, release } of held) {
    await expect(holdPort('127.0.0.1', port)).rejects.toThrow('EADDRINUSE')
    await release()
    await (await holdPort('127.0.0.1', port)).release()
  }
})

test('a port under connection attempts is released at once, even twice', async () => {
  const held = await holdPort()
  await expect(fetch(`http://127.0.0.1:${held.port}`)).rejects.toThrow()
  await Promise.all([held.release(), held.release()])
  await expect(fetch(`http://127.0.0.1:${held.port}`)).rejects.toThrow()
})

test('a free port can be held', async () => {
  const port = await freePort()
  const held = await holdPort('127.0.0.1', port)
  expect(held.port).toBe(port)
  await held.release()
})

test('a free port lies outside the range of outgoing connections', async () => {
  const ports = await Promise.all(Array.from({ length: 20 }, freePort))
  expect(Math.max(...ports)).toBeLessThan(32_768)
  expect(Math.min(...ports)).toBeGreaterThan(10_080)
})
