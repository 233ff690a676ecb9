// Attack class: credentials for the files of one table that are used for anything else. Their holder changes keys, prefixes,
// queries, methods and signatures. Requests are sent exactly as written, because HTTP clients remove dot segments.
import { expect, test } from '@playwright/test'
import { presigned } from '../../kit/presigned.ts'
import { rawRequest } from '../../kit/raw-request.ts'
import { type Lake, startLake, type Vended, vend } from './iceberg-users.ts'

let lake: Lake
/** Carl reads main; Carl and Ada have the same table on the branch; Ada has her secret table there too. */
let reading: Vended
let carlsOnBranch: Vended
let writing: Vended
let secret: Vended
/** Keys of a file of each table. */
let key: string
let secretKey: string

test.beforeAll(async () => {
  lake = await startLake()
  const { service, ada, carl, own } = lake
  const { namespace, table } = own
  reading = await vend(service, carl, { prefix: 'sluice', namespace, table })
  carlsOnBranch = await vend(service, carl, { prefix: 'sluice.dev', namespace, table })
  writing = await vend(service, ada, { prefix: 'sluice.dev', namespace, table })
  secret = await vend(service, ada, { prefix: 'sluice.dev', namespace, table: lake.secret })
  key = await firstKey(reading)
  secretKey = await firstKey(secret)
})
test.afterAll(async () => {
  await lake?.service.stop()
})

interface Sent {
  method?: string
  parameters?: Record<string, string>
  body?: string
  headers?: string[]
  date?: Date
  expires?: number
  bucket?: string
  /** Changes the signed address. */
  change?: (url: string) => string
}

/** Sends a signed request; `path` is the encoded key. */
async function send({ credentials, bucket }: Vended, path: string, sent: Sent = {}) {
  const { method = 'GET', parameters, body = '', headers = [], date = new Date(), expires = 60 } = sent
  const { url } = lake.service
  const at = path === '' ? '' : `/${path}`
  const signed = presigned(`${url}/s3/${sent.bucket ?? bucket}${at}`, credentials, {
    method,
    parameters,
    date,
    expires,
  })
  const target = (sent.change?.(signed) ?? signed).slice(url.length)
  return raw(method, target, headers, body)
}

async function raw(method: string, target: string, headers: string[] = [], body = '') {
  const lines = [
    `${method} ${target} HTTP/1.1`,
    `Host: ${new URL(lake.service.url).host}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...headers,
  ]
  const answer = await rawRequest(lake.service.url, lines, body)
  return { ...answer, code: /<Code>(\w+)<\/Code>/.exec(answer.body)?.[1] }
}

const list = (vended: Vended, parameters: Record<string, string>) =>
  send(vended, '', { parameters: { 'list-type': '2', ...parameters } })
const keysIn = (body: string) => [...body.matchAll(/<Key>([^<]+)<\/Key>/g)].map(([, found = '']) => found)

async function firstKey(vended: Vended) {
  const { status, body } = await list(vended, { prefix: `${vended.directory}/data/` })
  expect(status).toBe(200)
  return keysIn(body)[0] ?? ''
}

/** The runtime resolves dot segments before the check of the signature, so the signed path may be another one. */
const refusalOf = (path: string) =>
  expect.stringMatching(
    /\.\.|%|\/\.\//.test(path) ? /^(AccessDenied|SignatureDoesNotMatch)$/ : /^AccessDenied$/,
  )

const filesOf = async (vended: Vended) =>
  keysIn((await list(vended, { prefix: `${vended.directory}/` })).body)

test('credentials read no key outside of their table', async () => {
  expect((await send(reading, key)).status).toBe(200)
  const { directory } = reading
  const rest = secretKey.split('/').slice(3).join('/')
  const other = await vend(lake.service, lake.bob, {
    prefix: 'sluice',
    namespace: lake.bobs.namespace,
    table: lake.bobs.table,
  })
  const { namespace, table } = lake.own
  for (const wanted of [
    secretKey,
    `${secret.directory}/data/absent.parquet`,
    await firstKey(other),
    `${directory}/../${rest}`,
    `${directory}/data/../../${rest}`,
    `${directory}/./../${rest}`,
    `${directory}/%2e%2e/${rest}`,
    `${directory}/%2E%2E%2F${rest}`,
    `${directory}/..%2f${rest}`,
    `${directory}/%252e%252e/${rest}`,
    `${directory}/%252e%252e%252f${rest}`,
    `${directory}/%25252e%25252e%25252f${rest}`,
    `${directory}/..%5c${rest}`,
    `${directory}//../${rest}`,
    `${directory}//data`,
    `/${secretKey}`,
    `${directory}/uploads/a`,
    directory,
    `${directory}0/data/a`,
    '_lake/',
    `${namespace}/pipelines/gold/${table}/pipeline.sql`,
    `${directory}/../../../../${namespace}/pipelines/gold/${table}/pipeline.sql`,
  ])
    for (const [method, headers] of [
      ['GET', []],
      ['GET', ['Range: bytes=0-3']],
      ['HEAD', []],
    ] as const) {
      const { status, code, body } = await send(reading, wanted, { method, headers: [...headers] })
      expect([method, wanted, status]).toEqual([method, wanted, 403])
      if (method === 'GET') expect([wanted, code]).toEqual([wanted, refusalOf(wanted)])
      expect(body).not.toContain('PAR1')
    }
  for (const bucket of ['another', '..', '%2e%2e', '_lake', `${reading.bucket}%2f_lake`]) {
    const { status, body } = await send(reading, key, { bucket })
    expect([bucket, status >= 400, body.includes('PAR1')]).toEqual([bucket, true, false])
  }
})

const WAYS: Record<string, string>[] = [{}, { delimiter: '/' }, { 'encoding-type': 'url' }]

test('credentials list no prefix outside of their table', async () => {
  const { directory } = reading
  expect((await list(reading, { prefix: `${directory}/` })).status).toBe(200)
  const parent = directory.split('/').slice(0, 3).join('/')
  for (const prefix of [
    '',
    '/',
    '_lake',
    '_lake/',
    `${parent}/`,
    directory,
    directory.slice(0, -1),
    `/${directory}/`,
    `${secret.directory}/`,
    `${directory}/../`,
    `${directory}/x/../`,
    `${directory}/x/../../`,
    `${directory}/%2e%2e/`,
    `${directory}//`,
    `${directory}/./`,
    `${directory}/..\\`,
    `${lake.own.namespace}/`,
  ])
    for (const more of WAYS) {
      const { status, body } = await list(reading, { prefix, ...more })
      expect([prefix, status, keysIn(body)]).toEqual([prefix, 403, []])
      expect(body).not.toContain(lake.secret)
    }
  expect((await send(reading, '')).status).toBe(403)
  expect((await list(reading, { prefix: `${directory}/\0` })).status).toBe(400)
  // A position outside of the prefix moves nothing into the list.
  const token = Buffer.from('_lake/').toString('base64url')
  const positions: Record<string, string>[] = [
    { 'start-after': '_lake/' },
    { 'continuation-token': token },
    { delimiter: '_' },
  ]
  for (const more of positions)
    for (const found of keysIn((await list(reading, { prefix: `${directory}/`, ...more })).body))
      expect(found.startsWith(`${directory}/`)).toBe(true)
})

test('forged, changed and old signatures are refused', async () => {
  const refused = async (sent: Sent, vended = reading) => {
    const { status, code, body } = await send(vended, key, sent)
    expect(body).not.toContain('PAR1')
    return `${status} ${code}`
  }
  const { credentials } = reading
  const day = 86_400_000
  const ago = (ms: number) => new Date(Date.now() - ms)
  const otherSignature = (url: string) => url.replace(/.$/, (last) => (last === '0' ? '1' : '0'))
  expect(await refused({ change: otherSignature })).toBe('403 SignatureDoesNotMatch')
  expect(await refused({ change: (url) => url.replace(/X-Amz-Signature=.*/, 'X-Amz-Signature=') })).toMatch(
    /^40[03] /,
  )
  for (const change of [
    (url: string) => url.replace('X-Amz-Expires=60', 'X-Amz-Expires=600'),
    (url: string) => `${url}&versionId=1`,
    (url: string) => `${url}&response-content-type=text%2Fhtml`,
    (url: string) => url.replace(key, secretKey),
    (url: string) => url.replace('/data/', '//data/'),
    (url: string) => url.replace('us-east-1', 'us-east-2'),
  ])
    expect(await refused({ change })).toMatch(/^40[03] /)
  expect(await refused({ date: ago(61_000) })).toBe('403 AccessDenied')
  expect(await refused({ date: ago(day), expires: 60 })).toBe('403 AccessDenied')
  expect(await refused({ date: ago(-day) })).toMatch(/^403 /)
  expect(await refused({ expires: 8 * 86_400 })).toMatch(/^40[03] /)
  const mixed = (changed: Partial<typeof credentials>) =>
    refused({}, { ...reading, credentials: { ...credentials, ...changed } })
  expect(await mixed({ sessionToken: secret.credentials.sessionToken })).toBe('403 InvalidAccessKeyId')
  expect(await mixed({ accessKeyId: secret.credentials.accessKeyId })).toBe('403 InvalidAccessKeyId')
  expect(await mixed({ secretAccessKey: secret.credentials.secretAccessKey })).toBe(
    '403 SignatureDoesNotMatch',
  )
  // A grant that its holder extends.
  const [payload = '', signature = ''] = credentials.sessionToken.split('.')
  const grant = JSON.parse(Buffer.from(payload, 'base64url').toString())
  const wider = { ...grant, prefixes: ['_lake/'], write: '_lake/', expiresAt: grant.expiresAt * 2 }
  const forged = Buffer.from(JSON.stringify(wider)).toString('base64url')
  expect(await mixed({ sessionToken: `${forged}.${signature}` })).toBe('400 InvalidToken')
  expect(await mixed({ sessionToken: `${forged}.` })).toBe('400 InvalidToken')
  const path = `/s3/${reading.bucket}/${key}`
  const { authorization = '' } = lake.ada
  for (const headers of [[], [`Authorization: ${authorization}`], ['Authorization: AWS a:b']])
    expect((await raw('GET', path, headers)).status).toBeGreaterThanOrEqual(400)
  // These credentials open nothing but /s3.
  for (const token of [credentials.sessionToken, credentials.secretAccessKey])
    for (const at of ['/iceberg/v1/config', '/api/v1/pipelines'])
      expect((await raw('GET', at, [`Authorization: Bearer ${token}`])).status).toBe(401)
})

/** All operations that change something, on a key. */
const WRITES: (Sent & { method: string })[] = [
  { method: 'PUT', body: 'x' },
  {
    method: 'PUT',
    body: 'x',
    parameters: { partNumber: '1', uploadId: '00000000-0000-0000-0000-000000000000' },
  },
  { method: 'POST', parameters: { uploads: '' } },
  {
    method: 'POST',
    body: '<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>"a"</ETag></Part></CompleteMultipartUpload>',
    parameters: { uploadId: '00000000-0000-0000-0000-000000000000' },
  },
  { method: 'DELETE' },
  { method: 'DELETE', parameters: { uploadId: '00000000-0000-0000-0000-000000000000' } },
]

test('readers store nothing on main and branches, and nobody deletes committed files', async () => {
  const before = [await filesOf(writing), await filesOf(secret)]
  for (const vended of [reading, carlsOnBranch])
    for (const name of [key, `${reading.directory}/data/new.parquet`, secretKey])
      for (const each of WRITES) {
        const { status, code } = await send(vended, name, each)
        expect([each, name, status, code]).toEqual([each, name, 403, 'AccessDenied'])
      }
  for (const vended of [reading, carlsOnBranch, writing]) {
    const body = `<Delete><Object><Key>${key}</Key></Object></Delete>`
    const answer = await send(vended, '', { method: 'POST', parameters: { delete: '' }, body })
    expect([answer.status, answer.code]).toEqual([200, 'AccessDenied'])
    expect(answer.body).not.toContain('<Deleted>')
    expect((await send(vended, key, { method: 'DELETE' })).code).toBe('AccessDenied')
  }
  // Ada may write the table, but main is read-only.
  const onMain = await vend(lake.service, lake.ada, { prefix: 'sluice', ...lake.own })
  for (const each of WRITES)
    expect((await send(onMain, `${onMain.directory}/data/new.parquet`, each)).code).toBe('AccessDenied')
  expect([await filesOf(writing), await filesOf(secret)]).toEqual(before)
})

test('writers store new files of their table only', async () => {
  const before = await filesOf(secret)
  const { directory } = writing
  const added = `${directory}/data/added.parquet`
  expect((await send(writing, added, { method: 'PUT', body: 'x' })).status).toBe(200)
  const begun = await send(writing, `${directory}/data/parts.parquet`, {
    method: 'POST',
    parameters: { uploads: '' },
  })
  const uploadId = /<UploadId>([^<]+)/.exec(begun.body)?.[1] ?? ''
  expect(begun.status).toBe(200)
  for (const wanted of [
    secretKey,
    `${secret.directory}/data/new.parquet`,
    `${directory}/../${secret.directory.split('/').at(-1)}/data/new.parquet`,
    `${directory}/data/../../x/data/new.parquet`,
    `${directory}/data/%2e%2e/%2e%2e/new.parquet`,
    `${directory}/data//new.parquet`,
    `${directory}/data/`,
    `${directory}/commits/00009-a.metadata.json`,
    `${directory}/uploads/${uploadId}/00001`,
    `${directory}/new.parquet`,
    `${directory}x/data/new.parquet`,
    '_lake/new.parquet',
  ])
    for (const each of WRITES) {
      const { status, code } = await send(writing, wanted, each)
      expect([each, wanted, status, code]).toEqual([each, wanted, 403, refusalOf(wanted)])
    }
  // An existing file, also one that the same writer has stored, stays as it is.
  for (const existing of [key, added]) {
    const { code } = await send(writing, existing, { method: 'PUT', body: 'changed' })
    expect([existing, code]).toEqual([existing, 'PreconditionFailed'])
  }
  const copied = await send(writing, `${directory}/data/copied.parquet`, {
    method: 'PUT',
    headers: [`x-amz-copy-source: /${writing.bucket}/${secretKey}`],
  })
  expect(copied.status).toBeGreaterThanOrEqual(400)
  // An upload belongs to its key and its table.
  for (const [vended, path] of [
    [writing, `${directory}/data/another.parquet`],
    [secret, `${secret.directory}/data/parts.parquet`],
  ] as const)
    for (const each of WRITES.filter(({ parameters }) => parameters?.uploadId !== undefined)) {
      const parameters = { ...each.parameters, uploadId }
      expect((await send(vended, path, { ...each, parameters })).code).toBe('NoSuchUpload')
    }
  for (const id of ['..', '../data', `${uploadId}/../${uploadId}`, ''])
    expect(
      (
        await send(writing, `${directory}/data/parts.parquet`, {
          method: 'DELETE',
          parameters: { uploadId: id },
        })
      ).code,
    ).toBe('NoSuchUpload')
  expect(await filesOf(secret)).toEqual(before)
  const found = await filesOf(writing)
  expect(found).toContain(added)
  expect(found.filter((name) => name.includes('/uploads/') || name.includes('parts.parquet'))).toEqual([])
})

test('the audit log has the writes of credentials, with their user', async () => {
  const name = `${reading.directory}/data/audited.parquet`
  const sent = [
    ['put', 'carl', 403, await send(carlsOnBranch, name, { method: 'PUT', body: 'x' })],
    ['put', 'ada', 200, await send(writing, name, { method: 'PUT', body: 'x' })],
    ['delete', 'ada', 204, await send(writing, name, { method: 'DELETE' })],
  ] as const
  const { json } = await lake.service.ask(lake.service.root, 'GET', '/api/v1/audit?limit=100')
  const found = (json as { action: string; user_id: string; status: number; resource: string }[])
    .filter(({ resource }) => resource === `/s3/${reading.bucket}/${name}`)
    .map(({ action, user_id, status }) => [action, user_id, status])
  expect(sent.map(([, , , { status }]) => status)).toEqual([403, 200, 204])
  expect(found.reverse()).toEqual(sent.map(([action, user, status]) => [action, user, status]))
})

test('credentials end with the grant of their user', async () => {
  const { service, ada, grants } = lake
  expect((await send(reading, key)).status).toBe(200)
  for (const grant of grants) await service.must(204, ada, 'DELETE', `/api/v1/sharing/${grant}`)
  for (const vended of [reading, carlsOnBranch]) {
    expect((await send(vended, key)).code).toBe('AccessDenied')
    expect((await send(vended, `${vended.directory}/data/absent.parquet`)).code).toBe('AccessDenied')
    expect((await list(vended, { prefix: `${vended.directory}/` })).code).toBe('AccessDenied')
  }
})
