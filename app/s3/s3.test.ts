// The S3 endpoint with the client of AWS, on files that a run wrote.
import { beforeAll, expect, test } from 'bun:test'
import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetBucketLocationCommand,
  GetObjectCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListObjectsCommand,
  ListObjectsV2Command,
  ListObjectVersionsCommand,
  ListPartsCommand,
  PutObjectAclCommand,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { duringTests } from '../../tools/kit/during.ts'
import { BUCKET as Bucket, openTestCatalog } from '../iceberg/test-catalog.ts'
import { makeCredentials, type S3Credentials } from './credentials.ts'

const catalog = duringTests(() => openTestCatalog())
const TABLES = '/iceberg/v1/sluice/namespaces/default%1Fgold/tables'

beforeAll(async () => {
  for (const name of ['orders', 'items']) {
    const attempt = await catalog.attempt({ namespace: 'default', layer: 'gold', name })
    const { commit } = await attempt.write('select range as id from range(1000)', 'append')
    expect(await catalog.merge(attempt, commit)).toBe('merged')
  }
})

const clientWith = (credentials: S3Credentials, at: { systemClockOffset?: number; endpoint?: string } = {}) =>
  new S3Client({
    endpoint: `${catalog.url}/s3`,
    region: 'eu-central-1',
    forcePathStyle: true,
    maxAttempts: 1,
    credentials,
    ...at,
  })

/** Loads a table as an engine does, and returns its credentials and its directory. */
async function vended(name: string) {
  const headers = { 'x-iceberg-access-delegation': 'remote-signing,vended-credentials' }
  const answer = await catalog.fetch(`${TABLES}/${name}`, null, { headers })
  expect(answer.headers.get('etag')).toBeNull()
  const { config, 'storage-credentials': storage } = (await answer.json()) as {
    config: Record<string, string>
    'storage-credentials': { prefix: string; config: Record<string, string> }[]
  }
  const prefix = storage[0]?.prefix.replace(`s3://${Bucket}/`, '') ?? ''
  const credentials = {
    accessKeyId: config['s3.access-key-id'] ?? '',
    secretAccessKey: config['s3.secret-access-key'] ?? '',
    sessionToken: config['s3.session-token'] ?? '',
    expiresAt: Number(config['s3.session-token-expires-at-ms']),
  }
  return { config, storage, prefix, credentials, client: clientWith(credentials) }
}

/** The name and the status of the error that a call is refused with. */
async function refusal(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => null,
    (caught: unknown) => caught,
  )
  if (!(error instanceof S3ServiceException)) throw new Error(`no refusal: ${error}`)
  return `${error.$metadata.httpStatusCode} ${error.name}`
}

async function firstFile(name: string) {
  const { client, prefix } = await vended(name)
  const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket, Prefix: `${prefix}/data/` }))
  const [{ Key = '', Size = 0 } = {}] = Contents
  return { Key, Size }
}

test('a loaded table comes with credentials only if the client asks for them', async () => {
  const { config, storage, prefix } = await vended('orders')
  expect(prefix).toMatch(/^_lake\/default\/gold\/orders-[0-9a-f]{8}$/)
  expect(config).toEqual({
    's3.endpoint': `${catalog.url}/s3`,
    's3.path-style-access': 'true',
    's3.region': 'us-east-1',
    'client.region': 'us-east-1',
    's3.access-key-id': expect.stringMatching(/^SLUICE[0-9A-F]{14}$/),
    's3.secret-access-key': expect.any(String),
    's3.session-token': expect.any(String),
    's3.session-token-expires-at-ms': expect.stringMatching(/^\d+$/),
  })
  expect(Number(config['s3.session-token-expires-at-ms'])).toBeLessThanOrEqual(Date.now() + 900_000)
  expect(storage).toEqual([{ prefix: `s3://${Bucket}/${prefix}`, config }])
  for (const way of [undefined, 'remote-signing']) {
    const headers: Record<string, string> = way === undefined ? {} : { 'x-iceberg-access-delegation': way }
    const plain = await (await catalog.fetch(`${TABLES}/orders`, null, { headers })).json()
    expect([plain.config, plain['storage-credentials']]).toEqual([{}, undefined])
  }
  const renewed = await (await catalog.fetch(`${TABLES}/orders/credentials`, null)).json()
  expect(renewed['storage-credentials'][0].prefix).toBe(`s3://${Bucket}/${prefix}`)
  expect((await catalog.fetch(`${TABLES}/absent/credentials`, null)).status).toBe(404)
})

test('a file is read whole, in parts, and on a condition', async () => {
  const { client } = await vended('orders')
  const { Key, Size } = await firstFile('orders')
  const head = await client.send(new HeadObjectCommand({ Bucket, Key }))
  expect(head).toMatchObject({ ContentLength: Size, AcceptRanges: 'bytes' })
  const get = async (options = {}) => {
    const answer = await client.send(new GetObjectCommand({ Bucket, Key, ...options }))
    return { ...answer, bytes: await answer.Body?.transformToByteArray() }
  }
  const { bytes = new Uint8Array() } = await get()
  expect([bytes.length, Buffer.from(bytes.subarray(0, 4)).toString()]).toEqual([Size, 'PAR1'])
  const range = await get({ Range: 'bytes=-8' })
  expect(range).toMatchObject({ ContentRange: `bytes ${Size - 8}-${Size - 1}/${Size}`, ContentLength: 8 })
  expect(range.bytes).toEqual(bytes.subarray(-8))
  expect((await get({ IfMatch: head.ETag })).bytes).toEqual(bytes)
  expect(await refusal(get({ IfMatch: '"other"' }))).toBe('412 PreconditionFailed')
  expect(await refusal(get({ IfNoneMatch: head.ETag }))).toStartWith('304')
  expect(await refusal(get({ Range: `bytes=${Size}-` }))).toBe('416 InvalidRange')
})

test('a client without an endpoint below a path addresses the bucket at the root', async () => {
  const { credentials, prefix } = await vended('orders')
  const client = clientWith(credentials, { endpoint: catalog.url })
  const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket, Prefix: `${prefix}/data/` }))
  const Key = Contents[0]?.Key
  const { Body } = await client.send(new GetObjectCommand({ Bucket, Key, Range: 'bytes=0-3' }))
  expect(await Body?.transformToString()).toBe('PAR1')
  expect((await catalog.fetch(`/${Bucket}/${Key}`, null)).headers.get('content-type')).toBe('application/xml')
  expect((await catalog.fetch(`/${Bucket}s/${Key}`, null)).headers.get('content-type')).not.toBe(
    'application/xml',
  )
})

test('a list has pages, and folders for a delimiter', async () => {
  const { client, prefix } = await vended('orders')
  const keys = async (token?: string): Promise<(string | undefined)[]> => {
    const page = await client.send(
      new ListObjectsV2Command({ Bucket, Prefix: `${prefix}/`, MaxKeys: 1, ContinuationToken: token }),
    )
    const here = (page.Contents ?? []).map(({ Key }) => Key)
    return page.NextContinuationToken ? [...here, ...(await keys(page.NextContinuationToken))] : here
  }
  const all = await keys()
  const stored = await catalog.objects.list(`${prefix}/`, { limit: 100 })
  expect(all).toEqual(stored.objects.map(({ key }) => key))
  expect(all.length).toBeGreaterThan(3)
  const folders = async (after = '', found: unknown[] = []): Promise<unknown[]> => {
    const { CommonPrefixes = [], NextMarker } = await client.send(
      new ListObjectsCommand({ Bucket, Prefix: `${prefix}/`, Delimiter: '/', MaxKeys: 1, Marker: after }),
    )
    found.push(...CommonPrefixes.map(({ Prefix }) => Prefix))
    return NextMarker ? folders(NextMarker, found) : found
  }
  expect(await folders()).toEqual([`${prefix}/commits/`, `${prefix}/data/`, `${prefix}/metadata/`])
})

test('credentials reach one table', async () => {
  const { client, prefix } = await vended('orders')
  const { Key: foreign } = await firstFile('items')
  const get = (Key: string) => refusal(client.send(new GetObjectCommand({ Bucket, Key })))
  expect(await get(foreign)).toBe('403 AccessDenied')
  expect(await get('default/pipelines/gold/orders/pipeline.sql')).toBe('403 AccessDenied')
  expect(await get(`${prefix}/data/absent.parquet`)).toBe('404 NoSuchKey')
  for (const Prefix of [
    '',
    '_lake/',
    '_lake/default/gold/items',
    prefix,
    `${prefix}/../`,
    `${prefix}/%2e%2e/`,
  ])
    expect([Prefix, await refusal(client.send(new ListObjectsV2Command({ Bucket, Prefix })))]).toEqual([
      Prefix,
      '403 AccessDenied',
    ])
  const other = new ListObjectsV2Command({ Bucket: 'other', Prefix: `${prefix}/` })
  expect(await refusal(client.send(other))).toBe('404 NoSuchBucket')
  await client.send(new HeadBucketCommand({ Bucket }))
  expect((await client.send(new GetBucketLocationCommand({ Bucket }))).LocationConstraint).toBeFalsy()
})

test('a key that leads out of the table is denied', async () => {
  const { client, prefix } = await vended('orders')
  const { Key: foreign } = await firstFile('items')
  const name = foreign.slice('_lake/default/gold/'.length)
  for (const Key of [
    `${prefix}/%2e%2e/${name}`,
    `${prefix}/%252E%252e/${name}`,
    `${prefix}/data/p=a%2F../${name}`,
    `${prefix}/data/%2500`,
    `${prefix}/..%2f${name}`,
    `${prefix}//data`,
    `${prefix}/data\\x`,
    `${prefix}/data/\u0001`,
    `${prefix}/data/${'a'.repeat(1_000)}`,
    `/${prefix}/data`,
  ])
    expect([Key, await refusal(client.send(new GetObjectCommand({ Bucket, Key })))]).toEqual([
      Key,
      '403 AccessDenied',
    ])
})

test('forged, foreign and expired credentials get the errors of S3', async () => {
  const { credentials, prefix } = await vended('orders')
  const list = (changed: Partial<S3Credentials>, at = {}) =>
    refusal(
      clientWith({ ...credentials, ...changed }, at).send(
        new ListObjectsV2Command({ Bucket, Prefix: `${prefix}/` }),
      ),
    )
  expect(await list({ secretAccessKey: 'x' })).toBe('403 SignatureDoesNotMatch')
  expect(await list({ accessKeyId: 'SLUICE0123456789ABCD' })).toBe('403 InvalidAccessKeyId')
  expect(await list({ sessionToken: `${credentials.sessionToken}x` })).toBe('400 InvalidToken')
  expect(await list({ sessionToken: 'x' })).toBe('400 InvalidToken')
  expect(await list({}, { systemClockOffset: 16 * 60_000 })).toBe('403 RequestTimeTooSkewed')
  expect(await list({}, { systemClockOffset: -16 * 60_000 })).toBe('403 RequestTimeTooSkewed')
  const grant = {
    prefixes: [`${prefix}/`],
    write: null,
    table: { namespace: 'default', layer: 'gold', name: 'orders' },
    view: { commit: 1, branch: null },
    principal: { kind: 'anonymous', userId: '', name: '', roles: [] },
  } as const
  const past = { now: () => new Date(Date.now() - 900_001), elapsed: () => 0 }
  expect(await list(makeCredentials('a secret of the tests', past).issue(grant))).toBe('400 ExpiredToken')
  expect(await list(makeCredentials('another secret', past).issue(grant))).toBe('400 InvalidToken')
  expect(
    await list(catalog.credentials.issue({ ...grant, principal: { ...grant.principal, kind: 'user' } })),
  ).toBe('400 InvalidToken')
  const token = (await catalog.reader()).token
  expect(await list({ sessionToken: token })).toBe('400 InvalidToken')
})

test('a table is never changed through read-only credentials', async () => {
  const { client, prefix } = await vended('orders')
  const Key = (await firstFile('orders')).Key
  expect(await refusal(client.send(new DeleteObjectCommand({ Bucket, Key })))).toBe('403 AccessDenied')
  for (const key of [Key, `${prefix}/data/new.parquet`])
    expect(await refusal(client.send(new PutObjectCommand({ Bucket, Key: key, Body: 'x' })))).toBe(
      '403 AccessDenied',
    )
})

/** Credentials that also write files of a table, and a body of 6 MiB. */
async function writer(name = 'orders', principal = ANYONE) {
  const { prefix } = await vended(name)
  const grant = {
    prefixes: [`${prefix}/`],
    write: `${prefix}/`,
    table: { namespace: 'default', layer: 'gold', name } as const,
    view: { commit: (await catalog.reader()).commit, branch: null },
    principal,
  }
  const client = clientWith(catalog.credentials.issue(grant))
  const read = async (Key: string) =>
    (await client.send(new GetObjectCommand({ Bucket, Key }))).Body?.transformToString()
  return { client, prefix, read }
}
const ANYONE = { kind: 'anonymous' as const, userId: '', name: '', roles: [] }
const LARGE = 'sluice'.repeat(1_048_576)

test('a new file is written once, and the same bytes again change nothing', async () => {
  const { client, prefix, read } = await writer()
  const Key = `${prefix}/data/day=2026-01-01/new.parquet`
  const put = (Body: string, key = Key) => client.send(new PutObjectCommand({ Bucket, Key: key, Body }))
  const { ETag } = await put('first')
  expect((await client.send(new HeadObjectCommand({ Bucket, Key }))).ETag).toBe(ETag)
  for (const other of ['second', 'fIrst']) expect(await refusal(put(other))).toBe('412 PreconditionFailed')
  expect((await put('first')).ETag).toBe(ETag)
  expect(await read(Key)).toBe('first')
  const both = await Promise.allSettled([put(LARGE, `${Key}.2`), put('other', `${Key}.2`)])
  expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
})

test('keys with percent signs, spaces and other letters are never decoded twice', async () => {
  const { client, prefix, read } = await writer()
  const names = [
    'p=a%2Fb',
    'p=a',
    'p=50%25',
    'p=50%',
    'p=a b',
    'p=a+b',
    'p=a%20b',
    'p=größe😀',
    "p=(x)&=;,:@$!'",
    'p=a~b',
    'p=~',
    'p=*[a]{b}',
    'p=%7E',
    'p="<>|^`',
  ]
  const keyOf = (name: string) => `${prefix}/data/odd/${name}/x.parquet`
  for (const name of names) await client.send(new PutObjectCommand({ Bucket, Key: keyOf(name), Body: name }))
  for (const name of names) {
    expect([name, await read(keyOf(name))]).toEqual([name, name])
    expect((await client.send(new HeadObjectCommand({ Bucket, Key: keyOf(name) }))).ContentLength).toBe(
      Buffer.byteLength(name),
    )
    expect(await Array.fromAsync((await catalog.objects.get(keyOf(name)))?.body ?? [])).toEqual([
      new Uint8Array(Buffer.from(name)),
    ])
  }
  const list = async (options = {}) => {
    const found = { Bucket, Prefix: `${prefix}/data/odd/`, ...options }
    return ((await client.send(new ListObjectsV2Command(found))).Contents ?? []).map(({ Key }) => Key)
  }
  expect((await list()).toSorted()).toEqual(names.map(keyOf).toSorted())
  const plain = (await list({ EncodingType: 'url' })).map((key) => decodeURIComponent(key ?? ''))
  expect(plain.toSorted()).toEqual(names.map(keyOf).toSorted())
  expect(await list({ Prefix: `${prefix}/data/odd/p=a%2` })).toEqual([keyOf('p=a%20b'), keyOf('p=a%2Fb')])
  const { UploadId } = await client.send(
    new CreateMultipartUploadCommand({ Bucket, Key: keyOf('p=%2Fpart') }),
  )
  const upload = { Bucket, Key: keyOf('p=%2Fpart'), UploadId }
  const { ETag } = await client.send(new UploadPartCommand({ ...upload, PartNumber: 1, Body: 'part' }))
  await client.send(
    new CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts: [{ PartNumber: 1, ETag }] } }),
  )
  expect(await read(upload.Key)).toBe('part')
  const long = client.send(new PutObjectCommand({ Bucket, Key: keyOf('a'.repeat(256)), Body: '' }))
  expect(await refusal(long)).toBe('400 KeyTooLongError')
})

test('a file is written only in the directories of its table', async () => {
  const { client, prefix } = await writer()
  const { prefix: foreign } = await vended('items')
  for (const Key of [
    `${foreign}/data/new.parquet`,
    `${prefix}/new.parquet`,
    `${prefix}/uploads/x/1`,
    `${prefix}/`,
    `${foreign}/data/`,
    `${prefix}/data/%2e%2e/new`,
    `${prefix}/data/p=%2F..%2F/new`,
    `${prefix}/data/p=a\\b/new`,
    `${prefix}/data/p=a#b/new`,
    `${prefix}x/data/new`,
    'default/pipelines/gold/orders/pipeline.sql',
  ])
    expect([Key, await refusal(client.send(new PutObjectCommand({ Bucket, Key, Body: '' })))]).toEqual([
      Key,
      '403 AccessDenied',
    ])
})

test('an empty folder is accepted and stored nowhere', async () => {
  const { client, prefix } = await writer()
  const put = (Body: string) =>
    client.send(new PutObjectCommand({ Bucket, Key: `${prefix}/data/p=1/`, Body }))
  expect((await put('')).ETag).toBeString()
  expect(await refusal(put('x'))).toBe('403 AccessDenied')
  const { objects } = await catalog.objects.list(`${prefix}/data/p=1`, { limit: 2 })
  expect(objects).toEqual([])
})

test('a large file is written in parts that nobody sees before the end', async () => {
  const { client, prefix, read } = await writer()
  const Key = `${prefix}/data/large.parquet`
  const { UploadId } = await client.send(new CreateMultipartUploadCommand({ Bucket, Key }))
  const upload = { Bucket, Key, UploadId }
  const sent = []
  // A part with the same number and size has another tag, so the named bytes are stored, whatever is sent later.
  for (const [PartNumber, Body] of [
    [1, LARGE],
    [7, 'old'],
    [7, 'end'],
    [7, 'bad'],
  ] as const) {
    const { ETag } = await client.send(new UploadPartCommand({ ...upload, PartNumber, Body }))
    if (Body === LARGE || Body === 'end') sent.push({ PartNumber, ETag })
  }
  expect(await refusal(client.send(new HeadObjectCommand({ Bucket, Key })))).toStartWith('404')
  const listed = await client.send(new ListObjectsV2Command({ Bucket, Prefix: `${prefix}/` }))
  expect(JSON.stringify(listed.Contents)).not.toContain('uploads/')
  const { Parts = [] } = await client.send(new ListPartsCommand(upload))
  expect(Parts.map(({ PartNumber, Size }) => [PartNumber, Size])).toEqual([
    [1, LARGE.length],
    [7, 3],
  ])
  const complete = (Parts: CompletedPart[], changed = {}) =>
    client.send(new CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts }, ...changed }))
  expect(await refusal(complete(sent.toReversed()))).toBe('400 InvalidPartOrder')
  expect(await refusal(complete([...sent, { PartNumber: 8, ETag: '"x"' }]))).toBe('400 InvalidPart')
  expect(await refusal(complete([{ PartNumber: 1, ETag: '"x"' }]))).toBe('400 InvalidPart')
  expect(await refusal(complete([]))).toBe('400 MalformedXML')
  expect(await refusal(complete(sent, { Key: `${Key}.2` }))).toBe('404 NoSuchUpload')
  expect(await refusal(complete(sent, { UploadId: '../x' }))).toBe('404 NoSuchUpload')
  const { ETag } = await complete(sent)
  expect((await client.send(new HeadObjectCommand({ Bucket, Key }))).ETag).toBe(ETag)
  expect(await read(Key)).toBe(`${LARGE}end`)
  expect(await refusal(complete(sent))).toBe('404 NoSuchUpload')
  expect((await catalog.objects.list('_uploads/', { limit: 1 })).objects).toEqual([])
  expect(await refusal(client.send(new CreateMultipartUploadCommand({ Bucket, Key })))).toBe(
    '412 PreconditionFailed',
  )
})

test('an aborted upload leaves nothing, and its parts are refused', async () => {
  const { client, prefix } = await writer()
  const Key = `${prefix}/data/aborted.parquet`
  const { UploadId } = await client.send(new CreateMultipartUploadCommand({ Bucket, Key }))
  const part = () =>
    client.send(new UploadPartCommand({ Bucket, Key, UploadId, PartNumber: 1, Body: 'part' }))
  await part()
  await client.send(new AbortMultipartUploadCommand({ Bucket, Key, UploadId }))
  expect(await refusal(part())).toBe('404 NoSuchUpload')
  expect((await catalog.objects.list('_uploads/', { limit: 1 })).objects).toEqual([])
})

test('a file that no commit names is removed, and its name stays used', async () => {
  const { client, prefix } = await writer()
  const put = (Key: string, Body = 'x') => client.send(new PutObjectCommand({ Bucket, Key, Body }))
  const remove = (Key: string) => client.send(new DeleteObjectCommand({ Bucket, Key }))
  const key = (name: string) => `${prefix}/data/p=~a & b/${name}.parquet`
  for (const name of ['one', 'two', 'three']) await put(key(name))
  for (const each of [remove(key('one')), remove(key('one')), remove(key('absent'))])
    expect((await each).$metadata.httpStatusCode).toBe(204)
  expect(await refusal(client.send(new HeadObjectCommand({ Bucket, Key: key('one') })))).toStartWith('404')
  for (const body of ['x', 'other'])
    expect(await refusal(put(key('one'), body))).toBe('412 PreconditionFailed')
  const committed = (await firstFile('orders')).Key
  const { prefix: foreign } = await vended('items')
  const Objects = [key('two'), committed, `${foreign}/data/x.parquet`].map((Key) => ({ Key }))
  const { Deleted, Errors } = await client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }))
  expect(Deleted).toEqual([{ Key: key('two') }])
  expect(Errors?.map(({ Key, Code }) => [Key, Code])).toEqual([
    [committed, 'AccessDenied'],
    [`${foreign}/data/x.parquet`, 'AccessDenied'],
  ])
  const quiet = await client.send(
    new DeleteObjectsCommand({ Bucket, Delete: { Objects: [{ Key: key('three') }], Quiet: true } }),
  )
  expect([quiet.Deleted, quiet.Errors]).toEqual([undefined, undefined])
  expect(await catalog.objects.head(committed)).not.toBeNull()
  for (const name of ['one', 'two', 'three']) expect(await catalog.objects.head(key(name))).toBeNull()
})

test('a file of another branch is not removed', async () => {
  const { prefix } = await writer()
  const clientOn = async (branch: string | null) => {
    const grant = {
      prefixes: [`${prefix}/`],
      write: `${prefix}/`,
      table: { namespace: 'default', layer: 'gold', name: 'orders' } as const,
      view: { commit: (await catalog.reader()).commit, branch },
      principal: ANYONE,
    }
    return clientWith(catalog.credentials.issue(grant))
  }
  await catalog.sql`insert into lake_ref (name, kind, base) values ('removing', 'user', 1)`
  const [main, branch] = [await clientOn(null), await clientOn('removing')]
  const Key = `${prefix}/data/of-branch.parquet`
  await branch.send(new PutObjectCommand({ Bucket, Key, Body: 'x' }))
  expect(await refusal(main.send(new DeleteObjectCommand({ Bucket, Key })))).toBe('403 AccessDenied')
  expect((await branch.send(new DeleteObjectCommand({ Bucket, Key }))).$metadata.httpStatusCode).toBe(204)
  // Credentials end with the branch, also for a later branch of the same name.
  const list = () => branch.send(new ListObjectsV2Command({ Bucket, Prefix: `${prefix}/` }))
  await list()
  await catalog.sql`update lake_ref set state = 'merged', closed_at = now() where name = 'removing'`
  expect(await refusal(list())).toBe('403 AccessDenied')
  expect(await refusal(branch.send(new PutObjectCommand({ Bucket, Key: `${Key}.2`, Body: 'x' })))).toBe(
    '403 AccessDenied',
  )
})

test('nothing is copied, and no other operation exists', async () => {
  const { client, prefix } = await writer()
  const { Key } = await firstFile('orders')
  const calls = [
    [() => client.send(new DeleteObjectCommand({ Bucket, Key })), '403 AccessDenied'],
    [
      () =>
        client.send(
          new CopyObjectCommand({ Bucket, Key: `${prefix}/data/copy`, CopySource: `${Bucket}/${Key}` }),
        ),
      '501 NotImplemented',
    ],
    [() => client.send(new PutObjectAclCommand({ Bucket, Key, ACL: 'public-read' })), '501 NotImplemented'],
    [() => client.send(new GetObjectCommand({ Bucket, Key, VersionId: '1' })), '501 NotImplemented'],
    [
      () => client.send(new ListObjectVersionsCommand({ Bucket, Prefix: `${prefix}/` })),
      '501 NotImplemented',
    ],
  ] as const
  for (const [call, expected] of calls) expect(await refusal(call())).toBe(expected)
  expect(await catalog.objects.head(Key)).not.toBeNull()
})

test('a refusal names its request', async () => {
  const answer = await catalog.fetch('/s3/sluice/_lake/a%26b', null)
  expect(answer.status).toBe(403)
  expect(answer.headers.get('content-type')).toBe('application/xml')
  const id = answer.headers.get('x-amz-request-id')
  expect(await answer.text()).toBe(
    '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code><Message>Access Denied: the request is not signed.</Message>' +
      `<Resource>/s3/sluice/_lake/a%26b</Resource><RequestId>${id}</RequestId></Error>`,
  )
  expect(id).toBe(answer.headers.get('x-request-id'))
})
