import { expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { duringTests } from '../../tools/kit/during.ts'
import { newId } from '../core/ids.ts'
import { openTestCatalog, type TestAttempt } from '../iceberg/test-catalog.ts'
import { alone } from '../s3/store.ts'
import { closeBranches } from '../versions/store/branches.ts'
import { anUpload, aRun, aZone } from '../versions/test-rows.ts'

const catalog = duringTests(openTestCatalog)

const target = { namespace: 'default', layer: 'gold' as const, name: 'target' }
const ownFile = (name: string = newId()) => `_lake/default/gold/target-01234567/data/${name}.parquet`

const put = (key: string, attempt: { token: string }, body: NonNullable<RequestInit['body']>) =>
  catalog.fetch(`/lake/objects/${key}`, attempt.token, { method: 'PUT', body })
const get = (key: string, token: string | null, query = '') =>
  catalog.fetch(`/lake/objects/${key}${query}`, token)

test('attempts and readers read the exact bytes that an attempt added', async () => {
  const attempt = await catalog.attempt(target)
  const key = ownFile()
  const bytes = randomBytes(3_000_000)
  const added = await put(key, attempt, bytes)
  expect(added.status).toBe(201)
  expect(await added.json()).toEqual({ key, size: bytes.length })
  for (const { token } of [
    attempt,
    await catalog.attempt({ ...target, name: 'other' }),
    await catalog.reader(),
  ]) {
    const read = await get(key, token)
    expect(read.status).toBe(200)
    expect(Buffer.from(await read.arrayBuffer()).equals(bytes)).toBe(true)
  }
  const described = await catalog.fetch(`/lake/objects/${key}`, attempt.token, { method: 'HEAD' })
  expect([described.status, described.headers.get('content-length')]).toEqual([200, String(bytes.length)])
})

test('HEAD reads nothing of the file', async () => {
  const attempt = await catalog.attempt(target)
  const key = ownFile()
  expect((await put(key, attempt, 'content')).status).toBe(201)
  const { get: read } = catalog.objects
  let reads = 0
  catalog.objects.get = (...asked) => {
    reads += 1
    return read(...asked)
  }
  try {
    const described = await catalog.fetch(`/lake/objects/${key}`, attempt.token, { method: 'HEAD' })
    expect([described.status, described.headers.get('content-length'), reads]).toEqual([200, '7', 0])
    await get(key, attempt.token)
    expect(reads).toBe(1)
  } finally {
    catalog.objects.get = read
  }
})

test('a repeated write of a file succeeds, and other content is refused', async () => {
  const attempt = await catalog.attempt(target)
  const key = ownFile()
  expect((await put(key, attempt, 'content')).status).toBe(201)
  expect((await put(key, attempt, 'content')).status).toBe(200)
  // A repeat without a declared length succeeds too.
  expect((await put(key, attempt, new Blob(['content']).stream())).status).toBe(200)
  expect((await put(key, attempt, new Blob(['other content']).stream())).status).toBe(409)
  const refused = await put(key, attempt, 'other content')
  expect(refused.status).toBe(409)
  expect(await refused.json()).toMatchObject({ error: { code: 'ALREADY_EXISTS', type: 'CONFLICT' } })
  expect(await (await get(key, attempt.token)).text()).toBe('content')
})

test('a write beside another write of the same file can be repeated', async () => {
  const attempt = await catalog.attempt(target)
  const key = ownFile()
  const stored = await alone(catalog.sql, key, async () => {
    const refused = await put(key, attempt, 'content')
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '5'])
    expect((await refused.json()).error.message).toContain(`another request is writing object ${key}`)
    return 'done'
  })
  expect(stored).toEqual({ done: 'done' })
  expect((await put(key, attempt, 'content')).status).toBe(201)
})

test('an interrupted upload leaves no file', async () => {
  const attempt = await catalog.attempt(target)
  const key = ownFile()
  const { hostname, port } = new URL(catalog.url)
  await new Promise<void>((resolve) => {
    const socket = connect(Number(port), hostname, () => {
      const head = `PUT /lake/objects/${key} HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer ${attempt.token}\r\n`
      socket.write(`${head}content-length: 100\r\n\r\nonly this`, () => socket.destroy())
    })
    socket.on('close', () => resolve())
  })
  // The key is free again: the whole file is new, not a repeat of the partial upload.
  const again = await put(key, attempt, 'x'.repeat(100))
  expect(again.status).toBe(201)
  expect(await (await get(key, attempt.token)).text()).toHaveLength(100)
})

test('an attempt adds files only to its target and an open branch', async () => {
  const attempt = await catalog.attempt(target)
  for (const key of [
    '_lake/default/gold/other-01234567/data/x.parquet',
    '_lake/default/gold/target-b-01234567/data/x.parquet',
    '_lake/default/gold/target-01234567',
    '_lake/default/gold/target-01234567/x',
    'default/pipelines/gold/target/pipeline.sql',
    'default/landing/zone/x.csv',
  ])
    expect([key, (await put(key, attempt, 'x')).status]).toEqual([key, 403])
  expect((await put(ownFile(), await catalog.reader(), 'x')).status).toBe(403)
  await catalog.sql.begin((tx) => closeBranches(tx, [attempt.branch]))
  const refused = await put(ownFile(), attempt, 'x')
  expect(refused.status).toBe(403)
  expect(await refused.json()).toMatchObject({ error: { code: 'AUTHORIZATION', type: 'AUTHORIZATION' } })
})

test('a request without a valid token learns nothing about existing files', async () => {
  const attempt = await catalog.attempt(target)
  const key = ownFile()
  await put(key, attempt, 'content')
  const expired = catalog.tokens.read({ commit: 9, expiresAt: new Date(0) })
  for (const token of [null, 'nonsense', expired]) {
    const answers = new Set<string>()
    for (const path of [key, ownFile(), 'default/pipelines/gold/target/pipeline.sql']) {
      const refused = await get(path, token)
      expect(refused.status).toBe(401)
      expect(refused.headers.get('www-authenticate')).toStartWith('Bearer')
      const answer = await refused.text()
      expect(JSON.parse(answer)).toMatchObject({ error: { code: 'AUTHENTICATION' } })
      answers.add(answer)
    }
    expect(answers.size).toBe(1)
  }
  expect((await get(ownFile(), attempt.token)).status).toBe(404)
})

test('an attempt reads its pipeline files only in their pinned versions', async () => {
  const path = 'default/pipelines/gold/target/pipeline.sql'
  const pinned = await catalog.objects.put(path, new TextEncoder().encode('select 1'))
  const newer = await catalog.objects.put(path, new TextEncoder().encode('select 2'))
  const other = 'default/pipelines/gold/target/config.yaml'
  await catalog.objects.put(other, new TextEncoder().encode('description: x'))
  const attempt = await catalog.attempt(target)
  await aRun(catalog.sql, attempt, { pins: { [path]: pinned.versionId } })

  expect(await (await get(path, attempt.token)).text()).toBe('select 1')
  const version = (id: string) => `?version=${encodeURIComponent(id)}`
  expect(await (await get(path, attempt.token, version(pinned.versionId))).text()).toBe('select 1')
  expect((await get(path, attempt.token, version(newer.versionId))).status).toBe(403)
  expect((await get(other, attempt.token)).status).toBe(403)
  expect((await get('default/pipelines/gold/target/missing.sql', attempt.token)).status).toBe(403)
  expect((await get(path, (await catalog.attempt(target)).token)).status).toBe(403)
  expect((await get(path, (await catalog.reader()).token)).status).toBe(403)
})

async function freeze(attempt: TestAttempt, zone: string) {
  const answer = await catalog.fetch(`/catalog/sluice/v1/landing/default/${zone}`, attempt.token)
  return { status: answer.status, body: await answer.json() }
}

test('an attempt reads its frozen landing files after another run archived them', async () => {
  const zone = await aZone(catalog.sql, 'gateway')
  const file = await anUpload(catalog, zone, 'a b.csv', 'a,b')
  const later = 'default/landing/gateway/later.csv'
  const attempt = await catalog.attempt(target)
  const encoded = encodeURI(file.path)
  await aRun(catalog.sql, attempt)
  expect((await get(encoded, attempt.token, `?version=${file.versionId}`)).status).toBe(403)
  expect((await freeze(attempt, 'gateway')).status).toBe(200)
  expect(await (await get(encoded, attempt.token, `?version=${file.versionId}`)).text()).toBe('a,b')
  expect((await get(later, attempt.token)).status).toBe(403)

  const moved = 'default/landing/gateway/_processed/x/a b.csv'
  await catalog.objects.put(moved, new TextEncoder().encode('a,b'))
  await catalog.objects.delete(file.path)
  await catalog.sql`update landing_file set path = ${moved}, archived_by_run = ${newId()} where id = ${file.id}`
  expect(await (await get(encoded, attempt.token, `?version=${file.versionId}`)).text()).toBe('a,b')
  expect(await (await get(encodeURI(moved), attempt.token)).text()).toBe('a,b')
})

test('a landing file with special characters is read under its original name', async () => {
  const zone = await aZone(catalog.sql, 'names')
  const names = ['100%0A.csv', '%2e%2e%2fx.csv', '%252e.csv', '50%.csv', '[a]{b}*?#.csv', 'ü😀.csv']
  const files = await Promise.all(names.map((name) => anUpload(catalog, zone, name, name)))
  const attempt = await catalog.attempt(target)
  await aRun(catalog.sql, attempt)
  await freeze(attempt, 'names')
  for (const [index, { path, versionId }] of files.entries()) {
    const encoded = path.split('/').map(encodeURIComponent).join('/')
    const read = await get(encoded, attempt.token, `?version=${versionId}`)
    expect([names[index], await read.text()]).toEqual([names[index], names[index]])
  }
  // A path that decodes to another place is refused.
  expect((await get('default/landing/names/..%2f..%2fx.csv', attempt.token)).status).toBe(400)
})

test('an invalid or traversing path never reaches the store', async () => {
  const attempt = await catalog.attempt(target)
  const { hostname, port } = new URL(catalog.url)
  // Sends the raw request, because an HTTP client would normalize the path.
  const status = (method: string, path: string) =>
    new Promise<number>((resolve) => {
      const socket = connect(Number(port), hostname, () =>
        socket.write(
          `${method} /lake/objects/${path} HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer ${attempt.token}\r\ncontent-length: 1\r\n\r\nx`,
        ),
      )
      socket.once('data', (data) => {
        resolve(Number(data.toString().split(' ')[1]))
        socket.destroy()
      })
    })
  const paths = [
    '_lake/default/gold/target-01234567/data/..%2f..%2fx',
    '_lake/default/gold/target-01234567/data/..%5cx',
    '_lake/%252e%252e/%252e%252e/etc/passwd',
    '_lake/%25252e%25252e/x',
    '_lake/a%00b',
    '_lake//x',
    '_lake/x/',
    '_lake/x%2f',
    '%2fetc/passwd',
    '_lake/%E0%A4%A',
    '_lake/%c0%ae%c0%ae/x',
    '',
  ]
  for (const path of paths)
    for (const method of ['GET', 'PUT'])
      expect([method, path, await status(method, path)]).toEqual([method, path, 400])
  // URL normalization turns these paths into unknown routes.
  for (const path of ['../../etc/passwd', '_lake/%2e%2e/%2e%2e/%2e%2e/etc/passwd'])
    expect([path, await status('GET', path)]).toEqual([path, 404])
})
