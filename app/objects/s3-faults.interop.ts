import { afterEach, beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ListMultipartUploadsCommand, S3Client } from '@aws-sdk/client-s3'
import { until } from '../../tools/kit/until.ts'
import { openObjectStore } from './open.ts'
import type { ObjectStore } from './port.ts'
import { streamed } from './suite.ts'
import { type Fault, type FaultyS3, type Seen, startFaultyS3 } from './test-faulty-s3.ts'
import { s3Settings as settings } from './test-s3-settings.ts'

// The store behind a server that fails. `npm run test:interop` runs this file against a real server behind a faulty proxy.

// The client waits between its attempts.
setDefaultTimeout(60_000)

const MIB = 1_048_576
const Bucket = settings.bucket
/** Bypasses the store and the proxy. */
const direct = new S3Client({ ...settings, forcePathStyle: true })

let proxy: FaultyS3
let store: ObjectStore
beforeEach(async () => {
  proxy = await startFaultyS3(settings.endpoint)
  store = await openObjectStore({ ...settings, endpoint: proxy.url })
})
afterEach(async () => {
  await store.close()
  await proxy.stop()
})

let last = 0
const newKey = () => `faults-${Date.now()}/${++last}`

/** Bytes without a period of a part's length, so that a part in the wrong place is noticed. */
function content(bytes: number): Uint8Array {
  const words = new Uint32Array(Math.ceil(bytes / 4))
  for (let index = 0; index < words.length; index++) words[index] = Math.imul(index, 2_654_435_761)
  return new Uint8Array(words.buffer, 0, bytes)
}

const readAll = async (key: string) => {
  const found = await store.get(key)
  return found && new Uint8Array(await new Response(found.body).arrayBuffer())
}
const hashOf = (bytes: Uint8Array | null) => bytes && Bun.hash(bytes)

/** The fault strikes the first `times` requests that match. */
const first =
  (times: number, fault: Fault, matches: (request: Seen) => boolean) =>
  (request: Seen): Fault | undefined =>
    matches(request) && times-- > 0 ? fault : undefined

const isRead = ({ method, range }: Seen) => method === 'GET' && range !== undefined
const isPart = ({ method, path }: Seen) => method === 'PUT' && path.includes('partNumber=')

test.each<[Fault, number]>([
  ['slow down', 3],
  ['cut request', 2],
  ['lose answer', 2],
])('a small object is stored once it gets through: %s, %d times', async (fault, times) => {
  const key = newKey()
  const body = content(MIB)
  const isPut = ({ method, path }: Seen) => method === 'PUT' && path.includes(key)
  proxy.choose(first(times, fault, isPut))
  await store.put(key, body)
  expect(proxy.seen.filter(isPut).length).toBe(times + 1)
  expect(hashOf(await readAll(key))).toBe(hashOf(body))
})

test.each<Fault>(['slow down', 'cut request', 'lose answer'])(
  'a long upload survives a part that fails: %s',
  async (fault) => {
    const key = newKey()
    const body = content(23 * MIB + 1)
    proxy.choose(first(2, fault, isPart))
    await store.put(key, streamed([body.subarray(0, 9 * MIB), body.subarray(9 * MIB)]))
    expect(hashOf(await readAll(key))).toBe(hashOf(body))
  },
)

test('an upload whose completion was executed but not answered is stored', async () => {
  const key = newKey()
  const body = content(11 * MIB)
  const isCompletion = ({ method, path }: Seen) => method === 'POST' && path.includes('uploadId=')
  proxy.choose(first(1, 'lose answer', isCompletion))
  const { versionId } = await store.put(key, streamed([body]))
  expect(versionId).toBe((await store.head(key))?.versionId ?? 'no object')
  expect(hashOf(await readAll(key))).toBe(hashOf(body))
})

test('a part that never arrives fails the upload and leaves no parts', async () => {
  const key = newKey()
  proxy.choose((request) => (isPart(request) ? 'cut request' : undefined))
  await expect(store.put(key, streamed([content(12 * MIB)]))).rejects.toThrow()
  proxy.choose(() => undefined)
  const { Uploads = [] } = await direct.send(new ListMultipartUploadsCommand({ Bucket, Prefix: key }))
  expect(Uploads).toEqual([])
  expect(await store.head(key)).toBeNull()
})

test.each<Fault>(['slow down', 'lose answer', 'cut answer'])(
  'a read goes on after failures on the same version: %s',
  async (fault) => {
    const key = newKey()
    const body = content(17 * MIB + 3)
    await store.put(key, streamed([body]))
    const found = await store.get(key)
    await store.put(key, content(2))
    proxy.choose(first(3, fault, isRead))
    const bytes = new Uint8Array(await new Response(found?.body).arrayBuffer())
    expect(hashOf(bytes)).toBe(hashOf(body))
  },
)

test('a read whose connections all break fails instead of ending early', async () => {
  const key = newKey()
  await store.put(key, streamed([content(8 * MIB)]))
  proxy.choose((request) => (isRead(request) ? 'lose answer' : undefined))
  await expect(store.get(key)).rejects.toThrow()
})

test('a long object is read and written with several parts at once', async () => {
  const key = newKey()
  const body = content(30 * MIB)
  proxy.choose((request) => (isPart(request) ? 'hold' : undefined))
  const put = store.put(key, streamed([body]))
  await until(() => proxy.held() >= 4)
  proxy.release()
  await put

  const readers = await startFaultyS3(settings.endpoint)
  const reading = await openObjectStore({ ...settings, endpoint: readers.url })
  const found = await reading.get(key)
  readers.choose((request) => (isRead(request) ? 'hold' : undefined))
  const bytes = new Response(found?.body).arrayBuffer()
  await until(() => readers.held() >= 4)
  readers.release()
  expect(hashOf(new Uint8Array(await bytes))).toBe(hashOf(body))
  await reading.close()
  await readers.stop()
})

test('a cancelled read ends its connections and lets later reads run ahead', async () => {
  const key = newKey()
  await store.put(key, streamed([content(30 * MIB)]))
  for (let count = 0; count < 3; count++) {
    const unread = await store.get(key)
    await unread?.body.cancel()
    const started = (await store.get(key))?.body.getReader()
    await started?.read()
    await started?.cancel()
  }
  proxy.choose((request) => (isRead(request) && request.range !== 'bytes=0-5242879' ? 'hold' : undefined))
  const bytes = readAll(key)
  await until(() => proxy.held() >= 4)
  proxy.release()
  expect((await bytes)?.byteLength).toBe(30 * MIB)
})

test('empty objects and objects that end at a part boundary read completely', async () => {
  for (const bytes of [0, 1, 5 * MIB - 1, 5 * MIB, 5 * MIB + 1, 10 * MIB]) {
    const key = newKey()
    const body = content(bytes)
    await store.put(key, body)
    expect([bytes, (await store.get(key))?.size]).toEqual([bytes, bytes])
    expect([bytes, hashOf(await readAll(key))]).toEqual([bytes, hashOf(body)])
  }
})

test('expired credentials are an error and never a missing object', async () => {
  const key = newKey()
  const { versionId } = await store.put(key, content(3))
  proxy.choose(() => 'expired token')
  await expect(store.put(key, content(4))).rejects.toThrow('ExpiredToken')
  await expect(store.get(key, versionId)).rejects.toThrow('ExpiredToken')
  await expect(store.head(key, versionId)).rejects.toThrow('ExpiredToken')
  await expect(store.deleteVersion(key, versionId)).rejects.toThrow('ExpiredToken')
  proxy.choose(() => undefined)
  expect((await store.head(key))?.versionId).toBe(versionId)
})

test('without keys, the credential chain of AWS renews expiring credentials', async () => {
  let calls = 0
  const provider = createServer((_request, response) => {
    calls += 1
    const { accessKeyId, secretAccessKey } = settings.credentials
    // The client renews credentials that expire within five minutes.
    const lifetimeMs = calls === 1 ? 1_000 : 3_600_000
    const Expiration = new Date(Date.now() + lifetimeMs).toISOString()
    response.end(
      JSON.stringify({ AccessKeyId: accessKeyId, SecretAccessKey: secretAccessKey, Token: '', Expiration }),
    )
  })
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve))
  const { port } = provider.address() as AddressInfo
  process.env.AWS_CONTAINER_CREDENTIALS_FULL_URI = `http://127.0.0.1:${port}/`
  try {
    const chained = await openObjectStore({ ...settings, credentials: null })
    const key = newKey()
    await chained.put(key, content(3))
    expect((await chained.get(key))?.size).toBe(3)
    expect(calls).toBe(2)
    await chained.close()
  } finally {
    delete process.env.AWS_CONTAINER_CREDENTIALS_FULL_URI
    provider.close()
  }
})
