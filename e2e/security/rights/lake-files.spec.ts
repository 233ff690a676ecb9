// Attack class: bytes of the lake that change after a commit, or that a commit takes from elsewhere. The writer of one table
// replaces files and parts, names files of other tables and of unfinished uploads, and keeps old credentials.
import { deflateRawSync } from 'node:zlib'
import { expect, test } from '@playwright/test'
import { presigned } from '../../kit/presigned.ts'
import { type Lake, startLake, type Vended, vend } from './iceberg-users.ts'

let lake: Lake
/** Ada's credentials for her table and her secret table on the branch `dev`. */
let own: Vended
let secret: Vended

test.beforeAll(async () => {
  lake = await startLake()
  const { service, ada } = lake
  own = await vend(service, ada, { prefix: 'sluice.dev', ...lake.own })
  secret = await vend(service, ada, { prefix: 'sluice.dev', ...lake.own, table: lake.secret })
})
test.afterAll(async () => {
  await lake?.service.stop()
})

interface Sent {
  method?: string
  parameters?: Record<string, string>
  body?: string | Uint8Array<ArrayBuffer>
}

async function send({ credentials, bucket }: Vended, key: string, sent: Sent = {}) {
  const { method = 'GET', parameters, body } = sent
  const url = presigned(`${lake.service.url}/s3/${bucket}/${key}`, credentials, {
    method,
    parameters,
    date: new Date(),
    expires: 60,
  })
  const answer = await fetch(url, { method, body })
  const bytes = new Uint8Array(await answer.arrayBuffer())
  const text = new TextDecoder().decode(bytes)
  const code = /<Code>(\w+)<\/Code>/.exec(text)?.[1]
  return { status: answer.status, bytes, text, code, etag: answer.headers.get('etag') ?? '' }
}
const put = (key: string, body: Sent['body'], vended = own) => send(vended, key, { method: 'PUT', body })

const path = (name: string, prefix = 'sluice.dev') =>
  `/iceberg/v1/${prefix}/namespaces/${lake.own.namespace}%1Fgold/tables/${name}`

interface Snapshot {
  'snapshot-id': number
  'manifest-list': string
}

async function snapshotOf(table: string): Promise<Snapshot & { raw: string; id: string }> {
  const { text } = await lake.service.ask(lake.ada, 'GET', path(table))
  const { metadata } = JSON.parse(text) as { metadata: { snapshots: Snapshot[] } }
  const [found] = metadata.snapshots
  // An id of 64 bits is no number of JavaScript.
  const id = /"snapshot-id":\s*(\d+)/.exec(text)?.[1] ?? ''
  if (found === undefined) throw new Error(text)
  return { ...found, raw: text, id }
}

/** Commits a snapshot with this manifest list to Ada's table. */
async function commit(list: string, table = lake.own.table) {
  const body = {
    requirements: [],
    updates: [
      {
        action: 'add-snapshot',
        snapshot: {
          'snapshot-id': 7,
          'sequence-number': 9,
          'timestamp-ms': Date.now(),
          'manifest-list': list,
          summary: { operation: 'append' },
          'schema-id': 0,
        },
      },
      { action: 'set-snapshot-ref', 'ref-name': 'main', type: 'branch', 'snapshot-id': 7 },
    ],
  }
  const { status, text } = await lake.service.ask(lake.ada, 'POST', path(table), body)
  return { status, text }
}

const keyOf = (location: string) => location.replace(/^s3:\/\/[^/]+\//, '')
const locationOf = (key: string) => `s3://${own.bucket}/${key}`

test('a stored file is never replaced, by whichever way', async () => {
  const key = `${own.directory}/data/stored.parquet`
  const first = await put(key, 'first')
  expect(first.status).toBe(200)
  // The same bytes again are a repeated request.
  expect(await put(key, 'first')).toMatchObject({ status: 200, etag: first.etag })
  for (const body of ['other', 'FIRST', ''])
    expect([body, (await put(key, body)).code]).toEqual([body, 'PreconditionFailed'])
  expect((await send(own, key, { method: 'POST', parameters: { uploads: '' } })).code).toBe(
    'PreconditionFailed',
  )
  // An upload that began before the file was stored.
  const late = `${own.directory}/data/late.parquet`
  const begun = await send(own, late, { method: 'POST', parameters: { uploads: '' } })
  const uploadId = /<UploadId>([^<]+)/.exec(begun.text)?.[1] ?? ''
  const part = await send(own, late, {
    method: 'PUT',
    parameters: { uploadId, partNumber: '1' },
    body: 'late',
  })
  expect((await put(late, 'early')).status).toBe(200)
  const complete = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${part.etag}</ETag></Part></CompleteMultipartUpload>`
  const ended = await send(own, late, { method: 'POST', parameters: { uploadId }, body: complete })
  expect([part.status, ended.code]).toEqual([200, 'PreconditionFailed'])
  expect((await send(own, late)).text).toBe('early')
  // A removed file leaves no free name, and a committed file is not removed.
  expect((await send(own, key, { method: 'DELETE' })).status).toBe(204)
  for (const body of ['first', 'other']) expect((await put(key, body)).code).toBe('PreconditionFailed')
  const list = keyOf((await snapshotOf(lake.own.table))['manifest-list'])
  expect((await send(own, list, { method: 'DELETE' })).code).toBe('AccessDenied')
  expect((await send(own, list)).status).toBe(200)
})

test('an unfinished upload is named by no commit, and is read by nobody', async () => {
  const { bytes } = await send(own, keyOf((await snapshotOf(lake.own.table))['manifest-list']))
  const key = `${own.directory}/metadata/parts.avro`
  const begun = await send(own, key, { method: 'POST', parameters: { uploads: '' } })
  const uploadId = /<UploadId>([^<]+)/.exec(begun.text)?.[1] ?? ''
  const parameters = { uploadId, partNumber: '1' }
  const part = await send(own, key, { method: 'PUT', parameters, body: new Uint8Array(bytes) })
  expect(part.status).toBe(200)
  const rest = own.directory.slice('_lake/'.length)
  for (const name of [
    key,
    `${own.directory}/uploads/${uploadId}/00001`,
    `_uploads/${rest}/${uploadId}/00001-${part.etag.replaceAll('"', '')}`,
    `${own.directory}/../../../../_uploads/${rest}/${uploadId}/00001`,
  ]) {
    const { status, text } = await commit(locationOf(name))
    expect([name, status, text]).toEqual([name, 400, expect.stringMatching(/not a file|does not exist/)])
    expect((await send(own, name)).status).toBeGreaterThanOrEqual(400)
  }
  // A later part of the same number and size leaves the named part as it is.
  const other = await send(own, key, { method: 'PUT', parameters, body: new Uint8Array(bytes.length) })
  expect(other.etag).not.toBe(part.etag)
  const complete = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${part.etag}</ETag></Part></CompleteMultipartUpload>`
  expect((await send(own, key, { method: 'POST', parameters: { uploadId }, body: complete })).status).toBe(
    200,
  )
  expect((await send(own, key)).bytes).toEqual(bytes)
})

test('a commit names files of its own table only', async () => {
  const foreign = await snapshotOf(lake.secret)
  const { bytes } = await send(secret, keyOf(foreign['manifest-list']))
  // The list of the secret table, in the own directory: its manifests are still those of the other table.
  const copied = `${own.directory}/metadata/copied.avro`
  expect((await put(copied, new Uint8Array(bytes))).status).toBe(200)
  for (const list of [
    foreign['manifest-list'],
    locationOf(copied),
    locationOf(`${own.directory}/metadata/absent.avro`),
    locationOf(`${own.directory}/commits/x.avro`),
    locationOf(`${own.directory}/metadata/%2e%2e/%2e%2e/x.avro`),
    locationOf(`${own.directory}/metadata/../../x.avro`),
    's3://other/x.avro',
    'file:///etc/passwd',
  ]) {
    const { status, text } = await commit(list)
    expect([list, status, text]).toEqual([list, 400, expect.stringMatching(/not a file|does not exist/)])
  }
})

test('credentials end with their branch, also when a new branch gets its name', async () => {
  const { service, ada } = lake
  const open = () => service.must(201, ada, 'POST', '/api/v1/branches', { name: 'short' })
  const credentials = () => vend(service, ada, { prefix: 'sluice.short', ...lake.own })
  for (const end of ['merge', 'delete'] as const) {
    await open()
    const before = await credentials()
    const key = `${before.directory}/data/${end}.parquet`
    expect((await put(key, 'x', before)).status).toBe(200)
    if (end === 'delete') await service.must(204, ada, 'DELETE', '/api/v1/branches/short')
    else {
      await service.must(200, ada, 'POST', path(lake.own.table, 'sluice.short'), {
        requirements: [],
        updates: [{ action: 'set-properties', updates: { touched: 'yes' } }],
      })
      await service.must(200, ada, 'POST', '/api/v1/branches/short/merge', {})
    }
    for (const again of [false, true]) {
      if (again) await open()
      for (const sent of [{}, { method: 'PUT', body: 'y' }, { method: 'DELETE' }])
        expect([end, again, sent, (await send(before, key, sent)).code]).toEqual([
          end,
          again,
          sent,
          'AccessDenied',
        ])
    }
    expect((await put(`${key}.2`, 'x', await credentials())).status).toBe(200)
    await service.must(204, ada, 'DELETE', '/api/v1/branches/short')
  }
})

/** A number as Avro writes it. */
function avroLong(value: bigint): Buffer {
  const bytes: number[] = []
  let rest = (value << 1n) ^ (value >> 63n)
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128)
  return Buffer.from([...bytes, Number(rest)])
}
const avroText = (text: string) =>
  Buffer.concat([avroLong(BigInt(Buffer.byteLength(text))), Buffer.from(text)])
const SYNC = Buffer.alloc(16, 7)

/** An Avro file with one block, whose count and size need not be true. */
const avroFile = (
  { schema, codec }: { schema: string; codec: string },
  { count, size, block = Buffer.alloc(0) }: { count: bigint; size: bigint; block?: Buffer },
) =>
  Buffer.concat([
    Buffer.from('Obj\u0001'),
    avroLong(2n),
    ...['avro.schema', schema, 'avro.codec', codec].map(avroText),
    avroLong(0n),
    SYNC,
    avroLong(count),
    avroLong(size),
    block,
    SYNC,
  ])

test('a hostile manifest list is refused while others are answered', async () => {
  const { bytes } = await send(own, keyOf((await snapshotOf(lake.own.table))['manifest-list']))
  const text = Buffer.from(bytes).toString('latin1')
  const from = text.indexOf('{"type":"record"')
  // The schema is JSON, so it ends where its braces do.
  let depth = 0
  let to = from
  do {
    if (text[to] === '{') depth += 1
    if (text[to] === '}') depth -= 1
    to += 1
  } while (depth > 0)
  const schema = text.slice(from, to)
  const bomb = deflateRawSync(Buffer.alloc(256 * 1_048_576))
  const empty = JSON.stringify({ type: 'record', name: 'r', fields: [] })
  const files = {
    'a block of negative size': avroFile({ schema, codec: 'null' }, { count: 1n, size: -(2n ** 40n) }),
    'ten million records of no bytes': avroFile(
      { schema: empty, codec: 'null' },
      { count: 10_000_000n, size: 0n },
    ),
    'records beyond the bytes': avroFile({ schema, codec: 'null' }, { count: 2n ** 40n, size: 0n }),
    'a block that inflates to 256 MB': avroFile(
      { schema, codec: 'deflate' },
      { count: 1n, size: BigInt(bomb.length), block: bomb },
    ),
  }
  for (const [name, file] of Object.entries(files)) {
    const key = `${own.directory}/metadata/${name.replaceAll(' ', '-')}.avro`
    expect((await put(key, new Uint8Array(file))).status).toBe(200)
    let isOver = false
    const refused = commit(locationOf(key)).finally(() => {
      isOver = true
    })
    do await lake.service.must(200, lake.bob, 'GET', '/api/v1/namespaces')
    while (!isOver)
    expect([name, (await refused).status]).toEqual([name, 400])
  }
})
