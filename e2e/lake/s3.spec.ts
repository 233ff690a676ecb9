// The S3 endpoint for lake files, with the client of AWS as the engine.
import {
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3'
import { type APIRequestContext, expect, test } from '@playwright/test'
import { presigned } from '../kit/presigned.ts'
import { newNamespace } from '../kit/resources.ts'
import { newTable } from '../kit/runs.ts'

/** A table with credentials for its files, as an engine loads it. */
async function loadedTable(request: APIRequestContext) {
  const namespace = await newNamespace(request)
  const { name } = await newTable(
    request,
    { namespace, layer: 'gold' },
    'select range as id from range(10000)',
  )
  const answer = await request.get(`/iceberg/v1/sluice/namespaces/${namespace}%1Fgold/tables/${name}`, {
    headers: { 'x-iceberg-access-delegation': 'vended-credentials' },
  })
  const { config, 'storage-credentials': storage } = await answer.json()
  const [, Bucket = '', directory = ''] = /^s3:\/\/([^/]+)\/(.+)$/.exec(storage[0].prefix) ?? []
  const credentials = {
    accessKeyId: String(config['s3.access-key-id']),
    secretAccessKey: String(config['s3.secret-access-key']),
    sessionToken: String(config['s3.session-token']),
  }
  const endpoint = String(config['s3.endpoint'])
  const clientOf = (
    changed: Partial<typeof credentials> = {},
    options: { systemClockOffset?: number } = {},
  ) =>
    new S3Client({
      endpoint,
      region: String(config['s3.region']),
      forcePathStyle: true,
      maxAttempts: 1,
      credentials: { ...credentials, ...changed },
      ...options,
    })
  const client = clientOf()
  const { Contents = [] } = await client.send(
    new ListObjectsV2Command({ Bucket, Prefix: `${directory}/data/` }),
  )
  return { Bucket, directory, Key: Contents[0]?.Key ?? '', client, clientOf, credentials, endpoint }
}

async function refusal(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => null,
    (caught: unknown) => caught,
  )
  if (!(error instanceof S3ServiceException)) throw new Error(`no refusal: ${error}`)
  return `${error.$metadata.httpStatusCode} ${error.name}`
}

test('credentials of a loaded table read its files @runtime @s3.read', async ({ request }) => {
  const { Bucket, directory, Key, client } = await loadedTable(request)
  const head = await client.send(new HeadObjectCommand({ Bucket, Key }))
  const size = head.ContentLength ?? 0
  const whole = await client.send(new GetObjectCommand({ Bucket, Key }))
  expect([whole.ContentLength, whole.ETag]).toEqual([size, head.ETag])
  const bytes = (await whole.Body?.transformToByteArray()) ?? new Uint8Array()
  expect([bytes.length, Buffer.from(bytes.subarray(-4)).toString()]).toEqual([size, 'PAR1'])
  const part = await client.send(new GetObjectCommand({ Bucket, Key, Range: 'bytes=4-99' }))
  expect([part.$metadata.httpStatusCode, part.ContentLength, part.ContentRange]).toEqual([
    206,
    96,
    `bytes 4-99/${size}`,
  ])
  expect(await part.Body?.transformToByteArray()).toEqual(bytes.subarray(4, 100))
  expect(await refusal(client.send(new GetObjectCommand({ Bucket, Key, Range: `bytes=${size}-` })))).toBe(
    '416 InvalidRange',
  )
  const keys: (string | undefined)[] = []
  let token: string | undefined
  do {
    const page = await client.send(
      new ListObjectsV2Command({ Bucket, Prefix: `${directory}/`, MaxKeys: 2, ContinuationToken: token }),
    )
    keys.push(...(page.Contents ?? []).map((object) => object.Key))
    token = page.NextContinuationToken
  } while (token !== undefined)
  expect(keys).toContain(Key)
  expect(new Set(keys).size).toBe(keys.length)
})

test('a presigned address reads one file until its end @runtime @s3.read', async ({ request }) => {
  const { Bucket, Key, credentials, endpoint } = await loadedTable(request)
  const at = (date: Date, expires = 60) =>
    presigned(`${endpoint}/${Bucket}/${Key}`, credentials, { date, expires })
  const now = new Date()
  expect((await fetch(at(now))).status).toBe(200)
  const late = await fetch(at(new Date(now.getTime() - 61_000)))
  expect([late.status, await late.text()]).toEqual([403, expect.stringContaining('Request has expired')])
  const changed = await fetch(at(now).replace('X-Amz-Expires=60', 'X-Amz-Expires=600'))
  expect([changed.status, await changed.text()]).toEqual([
    403,
    expect.stringContaining('<Code>SignatureDoesNotMatch</Code>'),
  ])
  expect((await fetch(at(now), { method: 'PUT', body: 'x' })).status).toBe(403)
})

test('foreign credentials and foreign keys are refused as S3 does @s3.errors', async ({ request }) => {
  const { Bucket, directory, Key, client, clientOf } = await loadedTable(request)
  const other = await loadedTable(request)
  const get = (reader: S3Client, wanted: string) =>
    refusal(reader.send(new GetObjectCommand({ Bucket, Key: wanted })))
  expect(await get(clientOf({ secretAccessKey: 'wrong' }), Key)).toBe('403 SignatureDoesNotMatch')
  expect(await get(clientOf({ accessKeyId: 'AKIAIOSFODNN7EXAMPLE' }), Key)).toBe('403 InvalidAccessKeyId')
  expect(await get(clientOf({ sessionToken: other.credentials.sessionToken }), Key)).toBe(
    '403 InvalidAccessKeyId',
  )
  expect(await get(clientOf({ sessionToken: 'forged.token' }), Key)).toBe('400 InvalidToken')
  expect(await get(clientOf({}, { systemClockOffset: 1_000_000 }), Key)).toBe('403 RequestTimeTooSkewed')
  expect(await get(client, other.Key)).toBe('403 AccessDenied')
  expect(await get(client, `${directory}/%2e%2e/${other.Key.split('/').slice(3).join('/')}`)).toBe(
    '403 AccessDenied',
  )
  expect(await get(client, `${directory}/../${other.Key.split('/').slice(3).join('/')}`)).toMatch(/^403 /)
  expect(await get(client, 'default/pipelines/gold/a/pipeline.sql')).toBe('403 AccessDenied')
  expect(await get(client, `${directory}/data/absent.parquet`)).toBe('404 NoSuchKey')
  expect(await refusal(client.send(new ListObjectsV2Command({ Bucket, Prefix: '_lake/' })))).toBe(
    '403 AccessDenied',
  )
  const unsigned = await fetch(`${other.endpoint}/${Bucket}/${Key}`)
  expect([unsigned.status, unsigned.headers.get('content-type'), await unsigned.text()]).toEqual([
    403,
    'application/xml',
    expect.stringMatching(/<Error><Code>AccessDenied<.*<RequestId>[0-9a-f-]+<\/RequestId><\/Error>$/s),
  ])
})

test('files of the lake are neither overwritten nor deleted @s3.immutable', async ({ request }) => {
  const { Bucket, directory, Key, client } = await loadedTable(request)
  for (const wanted of [Key, `${directory}/data/new.parquet`])
    expect(await refusal(client.send(new PutObjectCommand({ Bucket, Key: wanted, Body: 'x' })))).toBe(
      '403 AccessDenied',
    )
  expect(await refusal(client.send(new DeleteObjectCommand({ Bucket, Key })))).toBe('403 AccessDenied')
  const Delete = { Objects: [{ Key }] }
  // Each key of this request has its own outcome.
  const { Deleted, Errors } = await client.send(new DeleteObjectsCommand({ Bucket, Delete }))
  expect([Deleted, Errors?.map(({ Code }) => Code)]).toEqual([undefined, ['AccessDenied']])
  await client.send(new HeadObjectCommand({ Bucket, Key }))
})
