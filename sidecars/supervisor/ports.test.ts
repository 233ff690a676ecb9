import { expect, test } from 'bun:test'
import { freePort, holdPort } from './ports.ts'

test('held ports differ, and are given to nobody until they are released', async () => {
  const held = await Promise.all([holdPort(), holdPort(), holdPort()])
  expect(new Set(held.map(({ port }) => port)).size).toBe(3)
  for (const { port, release } of held) {
    await expect(holdPort('127.0.0.1', port)).rejects.toThrow('EADDRINUSE')
    await release()
    await (await holdPort('127.0.0.1', port)).release()
  }
})

test('a port is released at once while somebody knocks at it, and may be released twice', async () => {
  const held = await holdPort()
  await expect(fetch(`http://127.0.0.1:${held.port}`)).rejects.toThrow()
  await Promise.all([held.release(), held.release()])
  await expect(fetch(`http://127.0.0.1:${held.port}`)).rejects.toThrow()
})

test('a free port can be taken', async () => {
  const port = await freePort()
  const held = await holdPort('127.0.0.1', port)
  expect(held.port).toBe(port)
  await held.release()
})

test('a port that nobody named is none that a connection is given: what listens on it may be started again', async () => {
  const ports = await Promise.all(Array.from({ length: 20 }, freePort))
  expect(Math.max(...ports)).toBeLessThan(32_768)
  expect(Math.min(...ports)).toBeGreaterThan(10_080)
})
