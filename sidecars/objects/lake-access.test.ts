import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtemp, readdir, readFile, readlink, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { HttpFailure } from '../rpc/http.ts'
import { type Gateway, gatewayLake, type LakeFiles, openObject, sharedLake } from './lake-access.ts'
import { readingTable } from './missing-file.ts'
import { openObjectCache } from './object-cache.ts'

/** The objects of a fake gateway. Tests choose its answers. */
let stored: Map<string, Uint8Array>
let requests: string[]
let failures: Response[]
let server: ReturnType<typeof Bun.serve>
let directory: string
let gateway: Gateway
beforeAll(() => {
  server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: answer })
})
afterAll(() => server.stop(true))
beforeEach(async () => {
  stored = new Map()
  requests = []
  failures = []
  directory = await mkdtemp(join(tmpdir(), 'sluice-lake-'))
  const cache = await openObjectCache({
    leased: join(directory, 'leased'),
    shared: join(directory, 'cache'),
    maxBytes: 1_000_000,
  })
  gateway = { url: `http://127.0.0.1:${server.port}/lake/objects`, token: 'the-token', authority: 'a', cache }
})
afterEach(() => rm(directory, { recursive: true }))

async function answer(request: Request): Promise<Response> {
  const { pathname, search } = new URL(request.url)
  requests.push(`${request.method} ${pathname}${search} ${request.headers.get('authorization')}`)
  const body = await request.bytes()
  const failure = failures.shift()
  if (failure !== undefined) return failure
  const key = decodeURIComponent(pathname.slice('/lake/objects/'.length))
  if (request.method === 'PUT') stored.set(key, body)
  const found = stored.get(key + search)
  if (request.method === 'GET' && found === undefined) return new Response('no such object', { status: 404 })
  return new Response(found && new Uint8Array(found))
}

const bytes = (text: string) => new TextEncoder().encode(text)
const KEY = '_lake/default/gold/t-01234567/data/a.parquet'

const kinds: [name: string, open: () => LakeFiles][] = [
  ['on a shared disk', () => sharedLake(join(directory, 'lake'))],
  ['behind the gateway', () => gatewayLake(gateway)],
]

describe.each(kinds)('lake files %s', (_, open) => {
  test('a missing file is named, with the table that is read', async () => {
    const lake = open()
    for (const reading of [() => lake.read(KEY), () => lake.open(KEY)] as (() => Promise<unknown>)[]) {
      await expect(reading()).rejects.toThrow(`its file ${KEY} is missing from the store`)
      const named = readingTable({ namespace: 'default', layer: 'gold', name: 't' }, reading)
      await expect(named).rejects.toThrow(`table default.gold.t cannot be read: its file ${KEY} is missing`)
    }
  })

  test('reads lake files back as they were written', async () => {
    const lake = open()
    await lake.write([{ key: KEY, bytes: bytes('content') }])
    expect(new TextDecoder().decode(await lake.read(KEY))).toBe('content')
    const lease = await lake.open(KEY, 7)
    expect(await readFile(lease.path, 'utf8')).toBe('content')
    lease.release()
  })

  test('adopts a local file, which stays readable', async () => {
    const lake = open()
    const local = join(directory, 'result.parquet')
    await writeFile(local, 'rows')
    const path = await lake.adopt(KEY, local)
    expect(await readFile(path, 'utf8')).toBe('rows')
    expect(new TextDecoder().decode(await lake.read(KEY))).toBe('rows')
  })

  test('reading a missing lake file fails', async () => {
    await expect(open().read(KEY)).rejects.toThrow()
  })
})

const modeOf = async (path: string) => (await stat(path)).mode & 0o777

test('an object key cannot lead to another route of the API', async () => {
  for (const key of ['../../api/v1/runs', 'default/../../x', './a', 'a//b', '/a', ''])
    await expect(openObject(gateway, key, '')).rejects.toThrow('invalid object key')
  expect(requests).toEqual([])
})

test("a file with a second name in a run's directory is read-only", async () => {
  const lake = sharedLake(join(directory, 'lake'))
  const local = join(directory, 'result.parquet')
  await writeFile(local, 'rows', { mode: 0o640 })
  await lake.adopt(KEY, local)
  stored.set('default/landing/z/a.csv?version=1', bytes('a'))
  const { path, release } = await openObject(gateway, 'default/landing/z/a.csv', '1', 1)
  expect([await modeOf(local), (await modeOf(path)) & 0o222]).toEqual([0o440, 0])
  release()
})

test('a shared disk rejects existing file names and leaves no temporary files', async () => {
  const lake = sharedLake(join(directory, 'lake'))
  const beside = KEY.replace('a.parquet', 'b.parquet')
  await lake.write([
    { key: KEY, bytes: bytes('content') },
    { key: beside, bytes: bytes('more') },
  ])
  await expect(lake.write([{ key: KEY, bytes: bytes('other') }])).rejects.toThrow('EEXIST')
  expect(new TextDecoder().decode(await lake.read(KEY))).toBe('content')
  const names = await readdir(join(directory, 'lake', '_lake/default/gold/t-01234567/data'))
  expect(names.sort()).toEqual(['a.parquet', 'b.parquet'])
})

test('a directory created by another writer is synced once on a shared disk', async () => {
  const root = join(directory, 'lake')
  const contents = bytes('content')
  const begun = Promise.withResolvers<void>()
  // The other writer has created directories that are not on the disk yet.
  const slow = sharedLake(root, () => {
    begun.resolve()
    return new Promise(() => {})
  })
  void slow.write([{ key: KEY, bytes: contents }])
  await begun.promise
  const synced: string[] = []
  const lake = sharedLake(root, async (descriptor) => {
    synced.push(relative(root, await readlink(`/proc/self/fd/${descriptor}`)))
  })
  const other = KEY.replace('t-01234567', 't-76543210')
  await lake.write([{ key: other, bytes: contents }])
  const parents = ['', '_lake', '_lake/default', '_lake/default/gold', '_lake/default/gold/t-76543210']
  expect(synced.sort()).toEqual([...parents, dirname(other), other])
  synced.length = 0
  await lake.write([{ key: `${other}.2`, bytes: contents }])
  expect(synced.sort()).toEqual([dirname(other), `${other}.2`])
})

test('a removed directory is synced again on a shared disk', async () => {
  const root = join(directory, 'lake')
  const synced: string[] = []
  const lake = sharedLake(root, async (descriptor) => {
    synced.push(relative(root, await readlink(`/proc/self/fd/${descriptor}`)))
  })
  await lake.write([{ key: KEY, bytes: bytes('content') }])
  await rm(join(root, '_lake/default'), { recursive: true })
  synced.length = 0
  await lake.write([{ key: KEY, bytes: bytes('content') }])
  const parents = ['_lake', '_lake/default', '_lake/default/gold', '_lake/default/gold/t-01234567']
  expect(synced.sort()).toEqual([...parents, dirname(KEY), KEY])
})

describe('the gateway', () => {
  test('the gateway is called once per object version, with the token', async () => {
    stored.set('default/landing/z/größe 1.csv?version=7~3', bytes('a,b'))
    const read = async () => {
      const { path, release } = await openObject(gateway, 'default/landing/z/größe 1.csv', '7~3', 3)
      const content = await readFile(path, 'utf8')
      release()
      return content
    }
    expect([await read(), await read()]).toEqual(['a,b', 'a,b'])
    expect(requests).toEqual([
      'GET /lake/objects/default/landing/z/gr%C3%B6%C3%9Fe%201.csv?version=7~3 Bearer the-token',
    ])
  })

  test('a call to the gateway is retried after 503 and 500', async () => {
    failures = [new Response('', { status: 503 }), new Response('', { status: 500 })]
    const lake = gatewayLake(gateway)
    await lake.write([{ key: KEY, bytes: bytes('content') }])
    expect(requests).toHaveLength(3)
    expect(stored.get(KEY)).toEqual(bytes('content'))
  })

  test('a call that the gateway rejects is not retried', async () => {
    failures = [new Response('not yours', { status: 403 })]
    const failure = await gatewayLake(gateway)
      .write([{ key: KEY, bytes: bytes('x') }])
      .catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(HttpFailure)
    expect(failure).toMatchObject({ status: 403, message: `writing ${KEY}: HTTP 403 not yours` })
    expect(requests).toHaveLength(1)
  })

  test('a cancelled reader stops waiting for the gateway', async () => {
    const cancel = new AbortController()
    failures = Array.from({ length: 100 }, () => new Response('', { status: 503 }))
    const reading = gatewayLake({ ...gateway, signal: cancel.signal }).read(KEY)
    cancel.abort(new Error('cancelled'))
    await expect(reading).rejects.toThrow('cancelled')
  })

  test('a download whose size differs from the manifest is refused', async () => {
    stored.set(KEY, bytes('four'))
    await expect(gatewayLake(gateway).open(KEY, 5)).rejects.toThrow('4 bytes downloaded, 5 expected')
  })

  test('the gateway may serve an empty object', async () => {
    stored.set(KEY, bytes(''))
    expect(await gatewayLake(gateway).read(KEY)).toHaveLength(0)
  })
})
