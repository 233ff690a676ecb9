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
