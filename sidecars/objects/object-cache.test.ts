import { expect, test } from 'bun:test'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { testDirectory } from '../../tools/test/directory.ts'
import { openObjectCache } from './object-cache.ts'

const directory = testDirectory()

const object = (key: string, version = '', sizeBytes?: number) => ({
  authority: 'one',
  key,
  version,
  sizeBytes,
})
const writing = (content: string) => (path: string) => writeFile(path, content)
const refused = () => Promise.reject(new Error('not to be downloaded'))

test('each version of an object is downloaded once', async () => {
  const cache = await openObjectCache(directory, 1_000)
  const first = await cache.acquire(object('a', '1'), writing('one'))
  const again = await cache.acquire(object('a', '1'), refused)
  const other = await cache.acquire(object('a', '2'), writing('two'))
  expect(again.path).toBe(first.path)
  expect(await readFile(first.path, 'utf8')).toBe('one')
  expect(await readFile(other.path, 'utf8')).toBe('two')
})

test('a copy that one authority downloaded is not served to another', async () => {
  const cache = await openObjectCache(directory, 1_000)
  await cache.acquire(object('a', '1'), writing('for one'))
  const others = { ...object('a', '1'), authority: 'another' }
  await expect(cache.acquire(others, refused)).rejects.toThrow('not to be downloaded')
  const own = await cache.acquire(others, writing('for another'))
  expect(await readFile(own.path, 'utf8')).toBe('for another')
})

test('concurrent callers share one download', async () => {
  const cache = await openObjectCache(directory, 1_000)
  const start = Promise.withResolvers<void>()
  let downloads = 0
  const download = async (path: string) => {
    downloads += 1
    await start.promise
    await writeFile(path, 'x')
  }
  const both = Promise.all([1, 2, 3].map(() => cache.acquire(object('a'), download)))
  start.resolve()
  const paths = (await both).map(({ path }) => path)
  expect(new Set(paths).size).toBe(1)
  expect(downloads).toBe(1)
})

test('a failed download leaves no file, and waiting callers retry themselves', async () => {
  const cache = await openObjectCache(directory, 1_000)
  const half = Promise.withResolvers<void>()
  const fail = Promise.withResolvers<void>()
  const failing = cache.acquire(object('a'), async (path) => {
    await writeFile(path, 'half')
    half.resolve()
    await fail.promise
  })
  const waiting = cache.acquire(object('a'), writing('whole'))
  await half.promise
  fail.reject(new Error('lost'))
  await expect(failing).rejects.toThrow('lost')
  expect(await readFile((await waiting).path, 'utf8')).toBe('whole')
  expect(await readdir(directory)).toHaveLength(1)
})

test('a download of an unexpected size is refused', async () => {
  const cache = await openObjectCache(directory, 1_000)
  await expect(cache.acquire(object('a', '', 4), writing('xx'))).rejects.toThrow(
    '2 bytes downloaded, 4 expected',
  )
  expect(await readdir(directory)).toEqual([])
})

test('the cache evicts the least recently used copy that has no lease', async () => {
  const cache = await openObjectCache(directory, 10)
  const held = await cache.acquire(object('held'), writing('1234'))
  for (const key of ['a', 'b']) (await cache.acquire(object(key), writing('123'))).release()
  ;(await cache.acquire(object('a'), refused)).release()
  ;(await cache.acquire(object('c'), writing('123'))).release()
  // Before the eviction the cache held `held`, b, a and c (13 bytes). Only b was unused, and its removal was necessary.
  ;(await cache.acquire(object('a'), refused)).release()
  expect(await readFile(held.path, 'utf8')).toBe('1234')
  const b = await cache.acquire(object('b'), writing('new'))
  expect(await readFile(b.path, 'utf8')).toBe('new')
})

test('the cache ignores files of an earlier process', async () => {
  const earlier = await openObjectCache(directory, 1_000)
  await earlier.acquire(object('a'), writing('old'))
  const cache = await openObjectCache(directory, 1_000)
  const { path } = await cache.acquire(object('a'), writing('new'))
  expect(await readFile(path, 'utf8')).toBe('new')
})
