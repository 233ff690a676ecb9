import { afterAll, expect, test } from 'bun:test'
import { mkdir, mkdtemp, readdir, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../core/clock.ts'
import { openDiskStore } from './disk.ts'
import { openObjectStore } from './open.ts'
import { type ObjectStore, StoreUnavailable } from './port.ts'
import { bytes, objectStoreSuite, streamed } from './suite.ts'

const parent = await mkdtemp(join(tmpdir(), 'sluice-objects-'))
afterAll(() => rm(parent, { recursive: true }))
let roots = 0
const newRoot = () => join(parent, String(roots++))
const open = (root: string) => openObjectStore({ kind: 'disk', root })

objectStoreSuite('disk object store', () => open(newRoot()), { keysMayBeFolders: true, histories: 60 })

test('a killed writer leaves no object, and the next owner takes over', async () => {
  const root = newRoot()
  const before = await open(root)
  await before.put('ns/a.sql', bytes('select 1'))
  await before.close()
  const child = startChild(root, 'endless')
  await child.lines.next()
  expect(await readdir(join(root, '~tmp'))).toHaveLength(1)
  await expect(open(root)).rejects.toThrow(`in use by process ${child.pid}`)
  await child.kill()
  const after = await open(root)
  expect((await after.text('ns/a.sql'))?.text).toBe('select 1')
  expect(await readdir(join(root, '~tmp'))).toEqual([])
  expect(await readdir(join(root, 'ns'))).toHaveLength(1)
  await after.close()
})

test('every acknowledged object is complete after a kill at any time', async () => {
  const root = newRoot()
  const acknowledged: { key: string; versionId: string; number: number }[] = []
  for (const kills of [1, 17, 40]) {
    const child = startChild(root, 'busy')
    for (let line = 0; line < kills; line++) {
      const { value = '' } = await child.lines.next()
      const [key = '', versionId = '', number] = value.split(' ')
      acknowledged.push({ key, versionId, number: Number(number) })
    }
    await child.kill()
  }
  const store = await open(root)
  for (const { key, versionId, number } of acknowledged) await expectWhole(store, key, versionId, number)
  for (const { key, versionId } of (await store.list('', { limit: 100 })).objects)
    await expectWhole(store, key, versionId)
  await store.close()
})

test('one of many concurrent owners wins, also after a kill', async () => {
  const root = newRoot()
  await mkdir(root)
  await symlink('2147483647 some-boot 1', join(root, '~lock.3'))
  const opened = await Promise.allSettled(Array.from({ length: 10 }, () => open(root)))
  const won = opened.filter((result) => result.status === 'fulfilled')
  expect(won).toHaveLength(1)
  for (const result of opened)
    if (result.status === 'rejected') expect(result.reason).toBeInstanceOf(StoreUnavailable)
  await won[0]?.value.close()
  await (await open(root)).close()
  expect((await readdir(root)).filter((name) => name.startsWith('~lock'))).toHaveLength(1)
})

test.if(process.platform === 'linux')(
  'a process with the reused id of a dead owner is no owner',
  async () => {
    const root = newRoot()
    await (await open(root)).close()
    const [released = ''] = (await readdir(root)).filter((name) => name.startsWith('~lock'))
    expect(await readlink(join(root, released))).toBe('released')
    await symlink(`${process.pid} another-boot 1`, join(root, '~lock.9'))
    await (await open(root)).close()
  },
)

test('a damaged lock is refused with the next step', async () => {
  for (const damage of [
    (lock: string) => symlink('garbage', lock),
    (lock: string) => writeFile(lock, 'garbage'),
  ]) {
    const root = newRoot()
    await mkdir(root)
    await damage(join(root, '~lock.1'))
    await expect(open(root)).rejects.toThrow(
      `the lock ${root}/~lock.1 is damaged: check that no process uses ${root}, then remove the lock`,
    )
  }
})

test('an unusable root is one clear error', async () => {
  const root = newRoot()
  await writeFile(root, '')
  await expect(open(join(root, 'objects'))).rejects.toThrow(
    `the object store ${root}/objects cannot be used: `,
  )
})

test('staging resolves after the file is synced', async () => {
  const disk = Promise.withResolvers<void>()
  const hasBegun = Promise.withResolvers<void>()
  const store = await openDiskStore(newRoot(), systemClock, () => {
    hasBegun.resolve()
    return disk.promise
  })
  const order: string[] = []
  const staging = store.stage(bytes('a')).finally(() => order.push('staged'))
  await hasBegun.promise
  order.push('the disk is there')
  disk.resolve()
  await (await staging).discard()
  expect(order).toEqual(['the disk is there', 'staged'])
  await store.close()
})

test('a failed sync stages nothing and leaves no file', async () => {
  const root = newRoot()
  const store = await openDiskStore(root, systemClock, async () => {
    throw new Error('the disk is broken')
  })
  await expect(store.stage(bytes('a'))).rejects.toThrow('the disk is broken')
  await expect(store.put('ns/a', bytes('a'))).rejects.toThrow('the disk is broken')
  expect(await readdir(join(root, '~tmp'))).toEqual([])
  await store.close()
})

test('refuses a body with 507 below the disk floor and leaves nothing', async () => {
  const root = newRoot()
  let shortage: string | null = null
  let hasReserve = true
  let looks = 0
  const floor = {
    shortage: async (share = 1) => {
      looks += 1
      return share < 1 && hasReserve ? null : shortage
    },
  }
  const store = await openDiskStore(root, systemClock, undefined, floor)
  const { versionId } = await store.put('ns/a', bytes('a'))
  shortage = '12 MB of disk space are free, and DISK_FLOOR is 1024 MB'
  const refusal = {
    status: 507,
    code: 'UNAVAILABLE',
    message: `not enough disk space: ${shortage}; free some space and send the request again`,
  }
  await expect(store.put('ns/a', bytes('b'))).rejects.toMatchObject(refusal)
  await expect(store.stage(bytes('b'))).rejects.toMatchObject(refusal)
  // Running attempts can finish, and operations that free space continue.
  await store.put('_lake/x/data.parquet', bytes('rows'))
  await store.put('ns/_processed/a', bytes('a'), { usesReserve: true })
  // The last part of the floor belongs to Postgres.
  hasReserve = false
  await expect(store.put('_lake/x/more.parquet', bytes('rows'))).rejects.toMatchObject(refusal)
  await expect(store.put('ns/_processed/b', bytes('b'), { usesReserve: true })).rejects.toMatchObject(refusal)
  await store.delete('ns/a')
  await store.deleteVersion('ns/a', versionId)

  shortage = null
  looks = 0
  let isCancelled = false
  async function* large() {
    try {
      for (let n = 0; n < 64; n += 1) {
        if (n === 32) shortage = '1 MB of disk space are free, and DISK_FLOOR is 1024 MB'
        yield new Uint8Array(262_144)
      }
    } finally {
      isCancelled = true
    }
  }
  await expect(store.stage(large())).rejects.toMatchObject({ status: 507 })
  expect([looks, isCancelled]).toEqual([3, true])
  expect(await readdir(join(root, '~tmp'))).toEqual([])
  await store.close()
})

test('version ids increase within a millisecond, after clock steps and restarts', async () => {
  const root = newRoot()
  let now = Date.UTC(2026, 0, 2)
  const clock = { ...systemClock, now: () => new Date(now) }
  const ids: string[] = []
  let store = await openDiskStore(root, clock)
  const put = async () => ids.push((await store.put('a/b', bytes('x'))).versionId)
  await put()
  expect((await store.head('a/b'))?.modified).toEqual(new Date(now))
  await put()
  now -= 86_400_000
  await put()
  await store.close()
  store = await openDiskStore(root, clock)
  await put()
  await store.delete('a/b')
  expect(await store.head('a/b')).toBeNull()
  await put()
  expect(ids).toEqual([...new Set(ids)].sort())
  expect((await store.head('a/b'))?.versionId).toBe(ids.at(-1) ?? '')
  // Only the keys of that directory have versions ahead of the clock.
  await store.put('other/b', bytes('x'))
  expect((await store.head('other/b'))?.modified).toEqual(new Date(now))
  await store.close()
})

test('stores, lists and purges names too long for the file system', async () => {
  const root = newRoot()
  const store = await open(root)
  const long = (character: string, count: number) => character.repeat(count)
  const keys = [
    `ns/${long('x', 200)}`,
    `ns/${long('x', 200)}-`,
    `ns/${long('x', 200)}/${long('~', 300)}/a`,
    `ns/${long('x', 200)}a`,
    `ns/${long('x', 201)}`,
    `ns/${long('x', 900)}`,
    `ns/${long('x', 900)}/b`,
    `ns/${long('語', 300)}`,
  ]
  for (const key of keys) await store.put(key, bytes(key))
  for (const key of keys) expect((await store.text(key))?.text).toBe(key)
  const listed = (await store.list('ns/', { limit: 100 })).objects.map(({ key }) => key)
  expect(listed).toEqual(keys.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))))
  const nextPage = (await store.list(`ns/${long('x', 150)}`, { limit: 100, after: listed[3] })).objects
  expect(nextPage.map(({ key }) => key)).toEqual(listed.slice(4, 7))
  await store.removeAll('ns/')
  expect((await readdir(root)).filter((name) => !name.startsWith('~'))).toEqual([])
  await store.close()
})

test('finds lake files under their keys, even those of other processes', async () => {
  const root = newRoot()
  const store = await open(root)
  await store.put('_lake/t/metadata/1%.json', bytes('{}'))
  expect(await readFile(join(root, '_lake/t/metadata/1%.json'), 'utf8')).toBe('{}')
  // A tilde begins an escape, so that no name is a pattern for the engine that reads the file.
  await mkdir(join(root, '_lake/t/data/p=~2A'), { recursive: true })
  await writeFile(join(root, '_lake/t/data/p=~2A/a~7Eb.parquet'), 'PAR1')
  expect((await store.text('_lake/t/data/p=*/a~b.parquet'))?.text).toBe('PAR1')
  const { objects } = await store.list('_la', { limit: 10 })
  expect(objects.map(({ key }) => key)).toEqual(['_lake/t/data/p=*/a~b.parquet', '_lake/t/metadata/1%.json'])
  await store.delete('_lake/t/data/p=*/a~b.parquet')
  expect(await store.head('_lake/t/data/p=*/a~b.parquet')).toBeNull()
  await store.close()
})

test('a concurrent put and purge leave the object or nothing', async () => {
  const store = await open(newRoot())
  for (let round = 0; round < 50; round++) {
    const [{ versionId }] = await Promise.all([store.put('a/b/c', bytes('x')), store.removeAll('a/')])
    const { objects } = await store.list('a/', { limit: 2 })
    expect(objects.map((object) => object.versionId)).toEqual(objects.length === 0 ? [] : [versionId])
    await store.removeAll('a/')
  }
  await store.close()
})

test('a refused body leaves no temporary file', async () => {
  const root = newRoot()
  const store = await open(root)
  await expect(store.put('a', streamed([bytes('four')]), { maxBytes: 3 })).rejects.toThrow('too large')
  await expect(store.put('a', streamed([bytes('x'), new Error('gone')]))).rejects.toThrow('gone')
  expect(await readdir(join(root, '~tmp'))).toEqual([])
  await store.close()
})

test('abandoned readers and bodies leave no open file', async () => {
  const store = await open(newRoot())
  await store.put('a', new Uint8Array(1_048_576))
  for (let round = 0; round < 20; round++) {
    await (await store.get('a'))?.body.getReader().read()
    void store.put('b', new ReadableStream({ pull: () => new Promise(() => {}) }))
  }
  // An open file that is garbage-collected would fail this test with an uncaught error.
  Bun.gc(true)
  expect((await store.list('', { limit: 3 })).objects).toMatchObject([{ key: 'a' }])
  Bun.gc(true)
  await store.close()
})

test('a ping fails after the directory was removed', async () => {
  const root = newRoot()
  const store = await open(root)
  await rm(root, { recursive: true })
  await expect(store.ping()).rejects.toThrow()
})

function startChild(root: string, mode: 'endless' | 'busy') {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, 'disk.child.ts'), root, mode], {
    stdout: 'pipe',
    stderr: 'inherit',
  })
  return {
    pid: child.pid,
    lines: linesOf(child.stdout),
    kill: async () => {
      child.kill('SIGKILL')
      await child.exited
    },
  }
}

async function* linesOf(output: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let partialLine = ''
  for await (const chunk of output) {
    const lines = (partialLine + decoder.decode(chunk, { stream: true })).split('\n')
    partialLine = lines.pop() ?? ''
    yield* lines
  }
}

/** The child fills each body with one number; the size of the body encodes the same number. */
async function expectWhole(store: ObjectStore, key: string, versionId: string, number?: number) {
  const found = await store.get(key, versionId)
  const body = new Uint8Array(await new Response(found?.body).arrayBuffer())
  const filled = number ?? body.byteLength - 100_000
  expect(body).toEqual(new Uint8Array(100_000 + filled).fill(filled))
}
