import { expect, setDefaultTimeout, test } from 'bun:test'
import {
  CreateBucketCommand,
  GetBucketVersioningCommand,
  ListMultipartUploadsCommand,
  ListObjectVersionsCommand,
  S3Client,
} from '@aws-sdk/client-s3'
import { openObjectStore } from './open.ts'
import { StoreUnavailable } from './port.ts'
import { bytes, objectStoreSuite, streamed } from './suite.ts'
import { s3Settings as settings } from './test-s3-settings.ts'

// Needs a real server. `npm run test:interop` runs it and starts one (tools/service/s3-server.ts); plain `bun test` does not.

// A busy machine may be slow. The client itself gives up on a server that hangs.
setDefaultTimeout(60_000)

const Bucket = settings.bucket
/** Bypasses the store, to see the objects on the server. */
const client = new S3Client({ ...settings, forcePathStyle: true })

objectStoreSuite('S3 object store', () => openObjectStore(settings), {
  // The server of the interop suite stores keys as paths (docs/adr/0004-s3-server-in-tests.md).
  keysMayBeFolders: process.env.S3_KEYS_MAY_BE_FOLDERS === 'true',
  histories: 15,
})

test('enables versioning on a bucket without it', async () => {
  const bucket = `unversioned-${Date.now()}`
  await client.send(new CreateBucketCommand({ Bucket: bucket }))
  await (await openObjectStore({ ...settings, bucket })).close()
  const { Status } = await client.send(new GetBucketVersioningCommand({ Bucket: bucket }))
  expect(Status).toBe('Enabled')
})

test('replicas that start at the same time create the bucket once', async () => {
  const bucket = `raced-${Date.now()}`
  const stores = await Promise.all(Array.from({ length: 8 }, () => openObjectStore({ ...settings, bucket })))
  await Promise.all(stores.map((store) => store.close()))
  const { Status } = await client.send(new GetBucketVersioningCommand({ Bucket: bucket }))
  expect(Status).toBe('Enabled')
})

test('a purge and the delete of a lake file remove every version', async () => {
  const store = await openObjectStore(settings)
  const folder = `_lake/purge-${Date.now()}/`
  const versions = async () => {
    const { Versions = [], DeleteMarkers = [] } = await client.send(
      new ListObjectVersionsCommand({ Bucket, Prefix: folder }),
    )
    return Versions.length + DeleteMarkers.length
  }
  for (const key of ['a', 'ab']) {
    await store.put(folder + key, bytes('one'))
    await store.put(folder + key, bytes('two'))
  }
  expect(await versions()).toBe(4)
  await store.delete(`${folder}a`)
  expect(await versions()).toBe(2)
  await store.removeAll(folder)
  expect(await versions()).toBe(0)
  await store.close()
})

test('listings and purges continue beyond one server page of versions', async () => {
  const store = await openObjectStore(settings)
  const folder = `many-${Date.now()}/`
  const keys = Array.from({ length: 510 }, (_, index) => `${folder}${String(index).padStart(3, '0')}`)
  for (let from = 0; from < keys.length; from += 20)
    await Promise.all(
      keys.slice(from, from + 20).map(async (key) => {
        await store.put(key, bytes('one'))
        await store.put(key, bytes('two'))
      }),
    )
  const listed = await store.list(folder, { limit: 1000 })
  expect(listed.objects.map(({ key }) => key)).toEqual(keys)
  expect((await store.list(folder, { limit: 10, after: keys[494] })).objects.map(({ key }) => key)).toEqual(
    keys.slice(495, 505),
  )
  await store.removeAll(folder)
  const { Versions = [] } = await client.send(new ListObjectVersionsCommand({ Bucket, Prefix: folder }))
  expect(Versions).toEqual([])
  await store.close()
})

test('a failed or discarded upload leaves no parts', async () => {
  const store = await openObjectStore(settings)
  const part = () => new Uint8Array(6 * 1_048_576)
  const gone = streamed([part(), part(), new Error('the client went away')])
  await expect(store.put(`parts-${Date.now()}`, gone)).rejects.toThrow('the client went away')
  const key = `parts-${Date.now()}`
  const staged = await store.stage(streamed([part(), part()]), { key })
  await staged.discard()
  const refused = Promise.reject(new Error('no such zone'))
  await expect(store.stage(streamed([part(), part()]), { key: refused })).rejects.toThrow('no such zone')
  const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket }))
  expect(Uploads).toEqual([])
  await store.close()
})

test('a server that refuses or is unreachable is one clear error', async () => {
  const refused = openObjectStore({
    ...settings,
    credentials: { ...settings.credentials, secretAccessKey: 'wrong' },
  })
  await expect(refused).rejects.toThrow(StoreUnavailable)
  await expect(refused).rejects.toThrow(/^the versioned bucket '.*' at http.* cannot be used: access denied/)
  const absent = openObjectStore({ ...settings, endpoint: 'http://127.0.0.1:1' })
  await expect(absent).rejects.toThrow('at http://127.0.0.1:1 cannot be used: ')
})
