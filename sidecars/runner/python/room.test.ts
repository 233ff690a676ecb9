import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { holdsMore, watchRoom } from './room.ts'

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-room-'))
  await mkdir(join(directory, 'a', 'b'), { recursive: true })
  await writeFile(join(directory, 'a', 'b', 'c'), 'x'.repeat(100))
  await writeFile(join(directory, 'd'), 'x'.repeat(50))
  await symlink('/', join(directory, 'elsewhere'))
})
afterAll(() => rm(directory, { recursive: true }))

test('everything below counts, and a link counts as itself', async () => {
  expect(await holdsMore(directory, { bytes: 151, files: 5 })).toBe(false)
  expect(await holdsMore(directory, { bytes: 149, files: 5 })).toBe(true)
  expect(await holdsMore(directory, { bytes: 1_000, files: 4 })).toBe(true)
  expect(await holdsMore(join(directory, 'nowhere'), { bytes: 0, files: 0 })).toBe(false)
})

test('whoever watches is told once', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  let told = 0
  const end = watchRoom(directory, { bytes: 1, files: 9, everyMs: 1 }, () => {
    told += 1
    resolve()
  })
  await promise
  end()
  expect(told).toBe(1)
})
