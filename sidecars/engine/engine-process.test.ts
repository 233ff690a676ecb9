import { expect, setDefaultTimeout, test } from 'bun:test'
import { fileURLToPath } from 'node:url'
import { testDirectory } from '../../tools/test/directory.ts'

setDefaultTimeout(60_000)

const SERVICE = fileURLToPath(new URL('./engine-process.child.ts', import.meta.url))
const directory = testDirectory()

/** Frames of the channel: one byte for the kind, four bytes for the length (little-endian), then the content. */
test.each([
  ['a frame of no known kind', 'ff'.repeat(24), 'IPC channel closed'],
  ['a value that cannot be decoded', `0210000000${'00'.repeat(16)}`, 'IPC channel closed'],
  ['the end of the channel', 'close', 'IPC channel closed'],
])('an engine that sends %s is ended while its service continues', async (_, attack, how) => {
  const service = Bun.spawn([process.execPath, SERVICE, directory, attack], {
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [output, code] = await Promise.all([new Response(service.stdout).text(), service.exited])
  expect([output.trim().split('\n').at(-1), code]).toEqual([how, 0])
})
