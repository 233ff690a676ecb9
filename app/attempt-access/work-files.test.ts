// Engines that work for a run or a preview: the catalog at the address for users, and files by the S3 endpoint.
import { beforeAll, expect, test } from 'bun:test'
import {
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  type S3ClientConfig,
} from '@aws-sdk/client-s3'
import { duringTests } from '../../tools/kit/during.ts'
import { BUCKET as Bucket, openTestCatalog, type TestAttempt } from '../iceberg/test-catalog.ts'
import { closeBranches } from '../versions/store/branches.ts'

const catalog = duringTests(() => openTestCatalog())
const ORDERS = { namespace: 'default', layer: 'gold', name: 'orders' } as const
const ITEMS = { namespace: 'default', layer: 'gold', name: 'items' } as const
let work: TestAttempt
let location: string

beforeAll(async () => {
  for (const table of [ORDERS, ITEMS]) {
    const attempt = await catalog.attempt(table)
    const { commit } = await attempt.write('select 1 as id', 'append')
    expect(await catalog.merge(attempt, commit)).toBe('merged')
  }
  work = await catalog.attempt(ORDERS)
  location = (await work.write('select 2 as id', 'append')).metadata.location
})

async function configOf(token: string): Promise<Record<string, string>> {
  const answer = await catalog.fetch('/catalog/sluice/v1/credentials', token, { method: 'POST' })
  expect(answer.status).toBe(200)
  return answer.json()
}

async function clientOf(token: string) {
  const config = await configOf(token)
  const settings: S3ClientConfig = {
    endpoint: config['s3.endpoint'],
    region: config['s3.region'],
    forcePathStyle: true,
    maxAttempts: 1,
    credentials: {
      accessKeyId: config['s3.access-key-id'] ?? '',
      secretAccessKey: config['s3.secret-access-key'] ?? '',
      sessionToken: config['s3.session-token'],
    },
  }
  const client = new S3Client(settings)
  return {
    get: async (Key: string) => {
      const { Body } = await client.send(new GetObjectCommand({ Bucket, Key }))
      return (await Body?.transformToByteArray())?.byteLength ?? 0
    },
    put: (Key: string, Body = 'x') => client.send(new PutObjectCommand({ Bucket, Key, Body })),
    list: (Prefix: string) => client.send(new ListObjectsV2Command({ Bucket, Prefix })),
  }
}

const keyOf = (address: string) => address.replace(`s3://${Bucket}/`, '')
const path = (branch: string, rest: string) => `/iceberg/v1/${encodeURIComponent(`sluice@${branch}`)}/${rest}`

test('the token of an attempt opens its own branch at the address for users', async () => {
  const tables = 'namespaces/default__gold/tables/orders'
  expect((await catalog.fetch(path(work.branch, tables), work.token)).status).toBe(200)
  expect((await catalog.fetch(path('run-other-1', tables), work.token)).status).toBe(403)
  expect((await catalog.fetch(`/iceberg/v1/sluice/${tables}`, work.token)).status).toBe(403)
  const foreign = await catalog.fetch(
    path(work.branch, 'namespaces/default__gold/tables/items'),
    work.token,
    {
      method: 'POST',
      body: JSON.stringify({ requirements: [], updates: [] }),
    },
  )
  expect(foreign.status).toBe(403)
})

test('credentials of an attempt read lake files and list none', async () => {
  const { get, list } = await clientOf(work.token)
  const orders = await work.client.loadTable({ namespace: ['default', 'gold'], name: 'orders' })
  const manifests = orders.metadata.snapshots.at(-1)?.['manifest-list'] ?? ''
  expect(await get(keyOf(manifests))).toBeGreaterThan(0)
  await expect(list(`${keyOf(location)}/`)).rejects.toThrow('Access Denied')
  await expect(list('')).rejects.toThrow('Access Denied')
  await expect(get('default/pipelines/gold/orders/pipeline.sql')).rejects.toThrow('Access Denied')
})

test('credentials of an attempt add files to its own table only', async () => {
  const { put } = await clientOf(work.token)
  const directory = keyOf(location)
  expect((await put(`${directory}/data/part=1/a.parquet`)).ETag).toBeString()
  expect((await put(`${directory}/data/part=1/a.parquet`)).ETag).toBeString()
  await expect(put(`${directory}/data/part=1/a.parquet`, 'y')).rejects.toThrow('never change')
  await expect(put(`${directory}/commits/x.metadata.json`)).rejects.toThrow('Access Denied')
  const items = await work.client.loadTable({ namespace: ['default', 'gold'], name: 'items' })
  await expect(put(`${keyOf(items.metadata.location)}/data/b.parquet`)).rejects.toThrow('Access Denied')
})

test('credentials of a reader add no files', async () => {
  const { token } = await catalog.reader()
  const { put } = await clientOf(token)
  await expect(put(`${keyOf(location)}/data/c.parquet`)).rejects.toThrow('Access Denied')
})

test('credentials end with the branch of their attempt', async () => {
  const attempt = await catalog.attempt(ORDERS)
  const { metadata } = await attempt.write('select 3 as id', 'append')
  const { get, put } = await clientOf(attempt.token)
  const manifests = keyOf(metadata.snapshots.at(-1)?.['manifest-list'] ?? '')
  expect(await get(manifests)).toBeGreaterThan(0)
  await catalog.sql.begin((tx) => closeBranches(tx, [attempt.branch]))
  await expect(get(manifests)).rejects.toThrow('Access Denied')
  await expect(put(`${keyOf(metadata.location)}/data/late.parquet`)).rejects.toThrow('Access Denied')
})

test('a key of the API gets no credentials for work', async () => {
  const answer = await catalog.fetch('/catalog/sluice/v1/credentials', 'no-token', { method: 'POST' })
  expect(answer.status).toBe(401)
})
