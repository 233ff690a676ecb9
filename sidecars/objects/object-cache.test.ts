import { beforeEach, expect, test } from 'bun:test'
import { statSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { testDirectory } from '../../tools/kit/directory.ts'
import { openObjectCache } from './object-cache.ts'

const base = testDirectory()
let tests = 0
let directory = ''
let shared = ''
beforeEach(() => {
  directory = join(base, String(++tests))
  shared = join(directory, 'shared')
})

/** The cache as one process sees it. */
const openCache = (maxBytes: number, name = 'one') =>
  openObjectCache({ leased: join(directory, name), shared, maxBytes })

async function sharedCopies(): Promise<string[]> {
  const [current = ''] = await readdir(shared)
  const copies = join(shared, current)
  return (await readdir(copies)).map((name) => join(copies, name))
}

const object = (key: string, version = '', sizeBytes?: number) => ({
  authority: 'one',
  key,
  version,
  sizeBytes,
})
const writing = (content: string) => (path: string) => writeFile(path, content)
const refused = () => Promise.reject(new Error('not to be downloaded'))

test('each version of an object is downloaded once', async () => {
  const cache = await openCache(1_000)
  const first = await cache.acquire(object('a', '1'), writing('one'))
  const again = await cache.acquire(object('a', '1'), refused)
  const other = await cache.acquire(object('a', '2'), writing('two'))
  expect(again.path).toBe(first.path)
  expect(await readFile(first.path, 'utf8')).toBe('one')
  expect(await readFile(other.path, 'utf8')).toBe('two')
})

test('a copy that one authority downloaded is not served to another', async () => {
  const cache = await openCache(1_000)
  await cache.acquire(object('a', '1'), writing('for one'))
  const others = { ...object('a', '1'), authority: 'another' }
  await expect(cache.acquire(others, refused)).rejects.toThrow('not to be downloaded')
  const own = await cache.acquire(others, writing('for another'))
  expect(await readFile(own.path, 'utf8')).toBe('for another')
})

test('concurrent callers share one download', async () => {
  const cache = await openCache(1_000)
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
  const cache = await openCache(1_000)
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
  expect(await sharedCopies()).toHaveLength(1)
})

test('a download of an unexpected size is refused', async () => {
  const cache = await openCache(1_000)
  await expect(cache.acquire(object('a', '', 4), writing('xx'))).rejects.toThrow(
    '2 bytes downloaded, 4 expected',
  )
  expect([await sharedCopies(), await readdir(join(directory, 'one'))]).toEqual([[], []])
})

test('processes share a download, also after the first of them has ended', async () => {
  const one = await openCache(1_000)
  ;(await one.acquire(object('a'), writing('content'))).release()
  const two = await openCache(1_000, 'two')
  const lease = await two.acquire(object('a', '', 7), refused)
  expect(await readFile(lease.path, 'utf8')).toBe('content')
  lease.release()
  expect(await readdir(join(directory, 'two'))).toEqual([])
})

test('a copy in use is never evicted, whichever process uses it', async () => {
  const one = await openCache(10)
  const two = await openCache(10, 'two')
  const held = await one.acquire(object('held'), writing('1234'))
  for (const key of ['a', 'b', 'c', 'd']) (await two.acquire(object(key), writing('12345'))).release()
  expect(await readFile(held.path, 'utf8')).toBe('1234')
  const again = await two.acquire(object('held'), refused)
  held.release()
  expect(await readFile(again.path, 'utf8')).toBe('1234')
})

test('the copies that were unused for longest are evicted above the limit', async () => {
  const cache = await openCache(10)
  const age = async (minutes: number) => {
    const at = Date.now() / 1_000 - 60 * minutes
    await Promise.all((await sharedCopies()).map((path) => utimes(path, at, at)))
  }
  ;(await cache.acquire(object('a'), writing('123'))).release()
  await age(5)
  ;(await cache.acquire(object('b'), writing('456'))).release()
  ;(await cache.acquire(object('c'), writing('789'))).release()
  // This use makes `a` newer than 5 minutes. Then b and c become the oldest.
  await age(10)
  ;(await cache.acquire(object('a'), refused)).release()
  const last = await cache.acquire(object('d'), writing('0123'))
  expect((await cache.acquire(object('a'), refused)).path).not.toBe(last.path)
  await expect(cache.acquire(object('b'), refused)).rejects.toThrow('not to be downloaded')
})

test('copies from before the last start of the machine are removed', async () => {
  await mkdir(join(shared, 'an-earlier-start'), { recursive: true })
  await writeFile(join(shared, 'an-earlier-start', 'copy'), 'perhaps torn')
  await openCache(1_000)
  expect(await readdir(shared)).toHaveLength(1)
  expect(await sharedCopies()).toEqual([])
})

test('a copy of an unexpected size is downloaded again', async () => {
  const cache = await openCache(1_000)
  ;(await cache.acquire(object('a'), writing('123'))).release()
  const lease = await cache.acquire(object('a', '', 4), writing('1234'))
  expect(await readFile(lease.path, 'utf8')).toBe('1234')
  lease.release()
  await cache.acquire(object('a', '', 4), refused)
})

test.if(process.platform === 'linux')('a process on another file system has copies of its own', async () => {
  const isOther = (path: string) => statSync(path).dev !== statSync(tmpdir()).dev
  const own = await mkdtemp(join(['/dev/shm', '/var/tmp'].find(isOther) ?? '', 'sluice-cache-'))
  try {
    const cache = await openObjectCache({ leased: join(own, 'leased'), shared, maxBytes: 1_000 })
    ;(await cache.acquire(object('a'), writing('content'))).release()
    const { path } = await cache.acquire(object('a'), refused)
    expect(await readFile(path, 'utf8')).toBe('content')
    expect(await readdir(shared)).toEqual([])
  } finally {
    await rm(own, { recursive: true })
  }
})
