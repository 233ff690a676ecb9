import { expect, setDefaultTimeout, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { testDirectory } from '../../tools/kit/directory.ts'
import { engineSandboxOf } from '../sandbox/engine-sandbox.ts'
import { EngineProcess } from './engine-process.ts'

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

test('an engine that does not start in time counts as crashed', async () => {
  writeFileSync(join(directory, 'attack'), 'silence')
  const engine = new EngineProcess<{ kind: 'none' }, { none: null }, never>({
    entry: new URL('./hostile-engine.child.ts', import.meta.url),
    directory,
    niceness: 0,
    sandbox: engineSandboxOf('none', { readable: [], writable: [] }),
    residentBytesMax: () => Number.MAX_SAFE_INTEGER,
    startMs: 50,
    isFromEngine: (_): _ is never => false,
    isAnswerOf: () => false,
    errorOf: () => new Error('none'),
  })
  const failure = await engine.ready.catch((error: unknown) => error)
  expect(failure).toMatchObject({ why: 'not started within 0.05 s', end: 'crashed' })
})
