import { beforeAll, expect, test } from 'bun:test'
import { chmod, mkdir, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { testDirectory } from '../../../tools/kit/directory.ts'
import { usageOfDirectory, usageOfFileSystem, watchDirectory } from './directory-usage.ts'

const ENOUGH = { bytes: 1 << 30, files: 1_000 }
const MIB = 1_048_576
const directory = testDirectory()
beforeAll(async () => {
  await mkdir(join(directory, 'a', 'b'), { recursive: true })
  await writeFile(join(directory, 'a', 'b', 'c'), new Uint8Array(MIB).fill(1))
  await chmod(join(directory, 'a'), 0o300)
  await symlink('/', join(directory, 'elsewhere'))
})

test('files in closed directories count, and a link counts as itself', async () => {
  const { bytes, files } = await usageOfDirectory(directory, ENOUGH)
  expect(files).toBe(4)
  expect(bytes).toBeGreaterThanOrEqual(MIB)
  expect(bytes).toBeLessThan(MIB + 100_000)
})

test('blocks count instead of lengths', async () => {
  const sparse = join(directory, 'sparse')
  await writeFile(sparse, '')
  await truncate(sparse, 100 * MIB)
  expect((await usageOfDirectory(directory, ENOUGH)).bytes).toBeLessThan(2 * MIB)
  await rm(sparse)
})

test('counting stops when a limit is exceeded', async () => {
  expect((await usageOfDirectory(directory, { ...ENOUGH, files: 1 })).files).toBeLessThan(4)
})

test('a directory that does not exist is empty', async () => {
  expect(await usageOfDirectory(join(directory, 'nowhere'), ENOUGH)).toEqual({ bytes: 0, files: 0 })
})

test.if(process.platform === 'linux')('a file system reports its own usage', async () => {
  const { bytes, files } = await usageOfFileSystem(process.pid, '/dev/shm')
  expect(bytes).toBeGreaterThanOrEqual(0)
  expect(files).toBeGreaterThan(0)
})

test('an exceeded limit is reported once', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  let calls = 0
  const end = watchDirectory(
    () => usageOfDirectory(directory, ENOUGH),
    { bytes: 1, files: 9, everyMs: 1 },
    () => {
      calls += 1
      resolve()
    },
  )
  await promise
  end()
  expect(calls).toBe(1)
})
