// Rights of users (Pro) on lake files: at the issue of credentials, and with each later request.
import { beforeAll, expect, test } from 'bun:test'
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { duringTests } from '../../tools/kit/during.ts'
import type { Resources } from '../access/service.ts'
import { identityOf } from '../access/testing.ts'
import { NO_PLUGINS } from '../config/plugin-settings.ts'
import { BUCKET as Bucket, openTestCatalog } from '../iceberg/test-catalog.ts'

const KEY = 'key-of-the-tests'
/** Users who see the namespace of the tables. */
const readers = new Set(['ada'])
const catalog = duringTests(() =>
  openTestCatalog(undefined, {
    config: { edition: 'pro', apiKey: KEY, plugins: { ...NO_PLUGINS, auth: 'http://127.0.0.1:1' } },
    plugins: { auth: { tokens: { verify: identityOf }, authorize: () => true }, describe: async () => ({}) },
    ownership: {
      resources: {} as Resources,
      enforcement: {
        check: async () => false,
        listVisible: async ({ userId }) => ({
          pipelines: [],
          zones: [],
          namespaces: readers.has(userId) ? ['default'] : [],
        }),
      },
    },
  }),
)

beforeAll(async () => {
  for (const name of ['orders', 'items']) {
    const attempt = await catalog.attempt({ namespace: 'default', layer: 'gold', name })
    const { commit } = await attempt.write('select 1 as id', 'append')
    expect(await catalog.merge(attempt, commit)).toBe('merged')
  }
})

const load = (user: string, path: string) =>
  catalog.fetch(`/iceberg/v1/sluice/namespaces/default__gold/tables/${path}`, user, {
    headers: { 'x-iceberg-access-delegation': 'vended-credentials' },
  })

async function clientOf(user: string) {
  const { config, 'storage-credentials': storage } = await (await load(user, 'orders')).json()
  const client = new S3Client({
    endpoint: config['s3.endpoint'],
    region: config['s3.region'],
    forcePathStyle: true,
    maxAttempts: 1,
    credentials: {
      accessKeyId: config['s3.access-key-id'],
      secretAccessKey: config['s3.secret-access-key'],
      sessionToken: config['s3.session-token'],
    },
  })
  const Prefix = `${storage[0].prefix.replace(`s3://${Bucket}/`, '')}/`
  return { client, Prefix, list: () => client.send(new ListObjectsV2Command({ Bucket, Prefix })) }
}

test('credentials of an invisible table get the answer of a missing table', async () => {
  for (const path of ['orders', 'orders/credentials']) {
    const answer = async (user: string, asked: string) => {
      const { status, text } = await load(user, asked).then(async (found) => ({
        status: found.status,
        text: await found.text(),
      }))
      return [status, text.replaceAll('absent', 'orders')]
    }
    expect((await answer('ada', path))[0]).toBe(200)
    expect(await answer('bob', path)).toEqual(await answer('bob', path.replace('orders', 'absent')))
  }
})

test('credentials end with the right of their user on the table', async () => {
  const { client, list } = await clientOf('ada')
  const Key = (await list()).Contents?.[0]?.Key
  await client.send(new GetObjectCommand({ Bucket, Key }))
  readers.delete('ada')
  await expect(list()).rejects.toThrow('Access Denied')
  await expect(client.send(new GetObjectCommand({ Bucket, Key }))).rejects.toThrow('Access Denied')
  readers.add('ada')
  expect((await list()).KeyCount).toBeGreaterThan(0)
})

test('a user writes files only with the right to write the table', async () => {
  const { Prefix } = await clientOf('ada')
  const put = (name: string, userId: string, namespace = 'default') => {
    const { accessKeyId, secretAccessKey, sessionToken } = catalog.credentials.issue({
      prefixes: [Prefix],
      write: Prefix,
      table: { namespace, layer: 'gold', name },
      view: { commit: 2, branch: null },
      principal: { kind: 'user', userId, name: '', roles: [] },
    })
    const client = new S3Client({
      endpoint: `${catalog.url}/s3`,
      region: 'us-east-1',
      forcePathStyle: true,
      maxAttempts: 1,
      credentials: { accessKeyId, secretAccessKey, sessionToken },
    })
    return client.send(new PutObjectCommand({ Bucket, Key: `${Prefix}data/${name}`, Body: 'x' }))
  }
  // The catalog of the tests grants the right to write the table orders.
  expect((await put('orders', 'ada')).ETag).toBeString()
  await expect(put('items', 'ada')).rejects.toThrow('Access Denied')
  await expect(put('orders', 'ada', 'nowhere')).rejects.toThrow('namespace nowhere does not exist')
})

test('credentials of an API key end with the key', async () => {
  const { Prefix, list } = await clientOf(KEY)
  expect((await list()).KeyCount).toBeGreaterThan(0)
  const principal = { kind: 'api-key', userId: '', name: 'removed', roles: [] } as const
  const grant = { prefixes: [Prefix], write: null, view: { commit: 2, branch: null }, principal }
  const table = { namespace: 'default', layer: 'gold', name: 'orders' } as const
  const client = new S3Client({
    endpoint: `${catalog.url}/s3`,
    region: 'us-east-1',
    forcePathStyle: true,
    maxAttempts: 1,
    credentials: catalog.credentials.issue({ ...grant, table }),
  })
  await expect(client.send(new ListObjectsV2Command({ Bucket, Prefix }))).rejects.toThrow('no longer exists')
})
