// Specification: Storage (pipeline files); Limits.
import { expect, test } from '@playwright/test'
import { rawRequest } from '../kit/raw-request.ts'
import {
  expectError,
  fresh,
  getJson,
  instant,
  MAX_UPLOAD_BYTES,
  newNamespace,
  TOO_LARGE,
  writeFile,
} from '../kit/resources.ts'

const path = '/api/v1/files'
const upload = (name: string, content: string | Buffer, mimeType = 'text/plain') => ({
  name,
  mimeType,
  buffer: Buffer.from(content),
})

test('a file is written as versions, read, listed and deleted @files.read @files.read.404 @files.write @files.delete', async ({
  request,
}) => {
  const file = `default/notes/${fresh('life')}.md`
  const written = await request.put(`${path}/${file}`, { data: { content: '# One\n' } })
  expect(written.status()).toBe(200)
  const first = await written.json()
  expect(first).toEqual({ path: file, status: 'written', version_id: expect.any(String) })
  expect(await writeFile(request, file, '# Deux é\n')).not.toBe(first.version_id)

  const read = await request.get(`${path}/${file}`)
  expect(read.status()).toBe(200)
  const content = await read.json()
  expect(content).toEqual({
    path: file,
    content: '# Deux é\n',
    encoding: 'utf-8',
    size: 10,
    modified: instant,
    version_id: expect.any(String),
  })
  const listed = await getJson(request, path, { prefix: file })
  expect(listed).toEqual({
    files: [{ path: file, size: 10, modified: instant, type: 'doc', version_id: content.version_id }],
    total: 1,
  })

  const deleted = await request.delete(`${path}/${file}`)
  expect([deleted.status(), await deleted.text()]).toEqual([204, ''])
  await expectError(await request.get(`${path}/${file}`), 404)
  expect((await request.delete(`${path}/${file}`)).status()).toBe(204)
})

test('a path with encoded slashes names the same file', async ({ request }) => {
  const file = `default/notes/${fresh('encoded')} 50% é?.md`
  const written = await request.put(`${path}/${encodeURIComponent(file)}`, { data: { content: 'x' } })
  expect(await written.json()).toMatchObject({ path: file })
  const byParts = file.split('/').map(encodeURIComponent).join('/')
  expect(await getJson(request, `${path}/${byParts}`)).toMatchObject({ path: file, content: 'x' })
})

const badPaths = [
  '',
  '/default/a.sql',
  '%2Fdefault%2Fa.sql',
  'default/%252e%252e/a.sql',
  'default/%25252e%25252e/a.sql',
  'default/..%2fa.sql',
  'default/..%252fa.sql',
  'default%2F..%2Fa.sql',
  'default/a%00.sql',
  'default/a%2500.sql',
  'default/a%5Cb.sql',
  'default/a%255cb.sql',
  'default/a%0ab.sql',
  'default//a.sql',
  'default/a/',
  'default',
  'Default/a.sql',
  'ab/a.sql',
  '_lake/default/silver/a.parquet',
  'default/%ff.sql',
]
test('an invalid path is 400 for reads, writes and deletes', {
  tag: [
    '@files.path.empty',
    '@files.path.dots',
    '@files.path.relative',
    '@files.path.nul',
    '@files.path.backslash',
    '@files.path.namespace',
  ],
}, async ({ request }) => {
  for (const bad of badPaths) {
    const url = `${path}/${bad}`
    for (const response of [
      await request.get(url),
      await request.put(url, { data: { content: 'x' } }),
      await request.delete(url),
    ])
      expect([bad, response.status(), (await response.json()).error.code]).toEqual([
        bad,
        400,
        'INVALID_ARGUMENT',
      ])
  }
})

const asSent = [
  ...['x/../y', 'x/%2e%2e/y', 'x/.%2E/y', 'x/./y', 'x/%2e/y', 'x/..', 'x/.', 'x/../', '../../y', 'x//../y'],
  ...['x\\y', 'x\\..\\y', 'x/..\\y', `${'a/'.repeat(80)}../y`, `${'x/../'.repeat(40)}y`],
]
test('a path is judged as sent: dot segments and backslashes are 400 @runtime @files.path.sent', async ({
  request,
  baseURL,
}) => {
  const folder = `default/notes/${fresh('sent')}`
  await writeFile(request, `${folder}/y`, 'kept')
  for (const host of ['localhost', 'a'])
    for (const target of asSent)
      for (const method of ['GET', 'PUT', 'DELETE']) {
        const { status, body } = await rawRequest(
          baseURL ?? '',
          [
            `${method} ${path}/${folder}/${target} HTTP/1.1`,
            `Host: ${host}`,
            'Content-Type: application/json',
            'Content-Length: 15',
          ],
          method === 'PUT' ? '{"content":"x"}' : '{}'.padEnd(15),
        )
        expect([host, method, target, status]).toEqual([host, method, target, 400])
        expect(JSON.parse(body).error).toMatchObject({
          code: 'INVALID_ARGUMENT',
          message: expect.stringMatching(/^path: /),
        })
      }
  const { files } = await getJson(request, `${path}?prefix=${folder}`)
  expect(files.map((file: { path: string }) => file.path)).toEqual([`${folder}/y`])
  expect((await getJson(request, `${path}/${folder}/y`)).content).toBe('kept')
})

test('an address that resolves to a file path reaches no file @files.path.resolved', async ({
  request,
  baseURL,
}) => {
  const namespace = await newNamespace(request)
  for (const file of ['notes/y', 'y']) await writeFile(request, `${namespace}/${file}`, 'kept')
  const statusOf = async (host: string, method: string, target: string) => {
    const head = [`${method} ${target} HTTP/1.1`, `Host: ${host}`, 'Content-Type: application/json']
    const { status } = await rawRequest(baseURL ?? '', [...head, 'Content-Length: 15'], '{"content":"x"}')
    return status
  }
  for (const target of [
    `/api/v1\\files/${namespace}/notes/../y`,
    `/api/v1/files\\${namespace}\\notes\\..\\y`,
    `/api/v1/files\\${namespace}\\y`,
    `/api/v1/x/../files/${namespace}/notes/y`,
    `/api/v1/./files/${namespace}/notes/../y`,
    `/api/v1/%2e/files/${namespace}/y`,
    `/health/%2E./api/v1/files/${namespace}/y`,
    `/api/v1/%66iles/${namespace}/y`,
  ])
    for (const host of ['localhost', 'a'])
      for (const method of ['GET', 'PUT', 'DELETE'])
        expect([400, 404], `${method} ${target} of '${host}'`).toContain(await statusOf(host, method, target))
  expect(await statusOf('localhost', 'GET', `http://localhost/api/v1/files/${namespace}/y`)).toBe(200)
  const { files } = await getJson(request, `${path}?prefix=${namespace}/`)
  expect(files.map((file: { path: string }) => file.path).sort()).toEqual([
    `${namespace}/notes/y`,
    `${namespace}/y`,
  ])
  for (const file of ['notes/y', 'y'])
    expect((await getJson(request, `${path}/${namespace}/${file}`)).content).toBe('kept')
})

test('a path has at most 64 segments @files.path.segments', async ({ request }) => {
  const deepest = `default/${fresh('deep')}${'/a'.repeat(62)}`
  await writeFile(request, deepest, 'x')
  expect((await getJson(request, `${path}/${deepest}`)).content).toBe('x')
  await expectError(await request.put(`${path}/${deepest}/a`, { data: { content: 'x' } }), 400, /^path: .*64/)
})

test('a write without text content is 400 @files.write.400', async ({ request }) => {
  const url = `${path}/default/notes/${fresh('refused')}.md`
  for (const data of [{}, { content: 7 }, { content: null }, { content: ['x'] }])
    await expectError(await request.put(url, { data }), 400, /^content: /)
  for (const body of ['{"content":', '[]', '"text"'])
    await expectError(
      await request.put(url, { data: Buffer.from(body), headers: { 'content-type': 'application/json' } }),
      400,
      /^body: /,
    )
  await expectError(await request.get(url), 404)
})

test('a file has an ETag, and a matching If-None-Match is 304', async ({ request }) => {
  const url = `${path}/default/notes/${fresh('tagged')}.md`
  const written = await request.put(url, { data: { content: 'one' } })
  const { version_id } = await written.json()
  const etag = `"${version_id}"`
  expect(written.headers().etag).toBe(etag)
  const read = await request.get(url)
  expect([read.headers().etag, read.headers()['cache-control']]).toEqual([etag, 'private, no-cache'])
  for (const condition of [etag, `W/${etag}`, `"other", ${etag}`, `, ${etag},`, '*']) {
    const again = await request.get(url, { headers: { 'if-none-match': condition } })
    expect([again.status(), again.headers().etag, await again.text()]).toEqual([304, etag, ''])
  }
  expect((await request.get(url, { headers: { 'if-none-match': '"other"' } })).status()).toBe(200)
  await request.put(url, { data: { content: 'a later text' } })
  const earlier = await request.get(url, { params: { version_id } })
  expect([(await earlier.json()).version_id, earlier.headers().etag]).toEqual([version_id, etag])
  for (const [wrong, status] of [
    ['no-such-version', 404],
    ['..%2F..%2Fx', 400],
    ['a/b', 400],
  ] as const)
    await expectError(await request.get(`${url}?version_id=${wrong}`), status)
  for (const bad of ['x', ',', '"a" "b"', `${etag}, x`])
    await expectError(await request.get(url, { headers: { 'if-none-match': bad } }), 400, /^If-None-Match: /)
  const nothing = `${path}/default/notes/${fresh('nothing')}.md`
  await expectError(await request.get(nothing, { headers: { 'if-none-match': '*' } }), 404)
})

test('a write or delete is 412 unless If-Match names the current version', async ({ request }) => {
  const url = `${path}/default/notes/${fresh('matched')}.md`
  const put = (content: string, headers: Record<string, string>) =>
    request.put(url, { data: { content }, headers })
  await expectError(await put('x', { 'if-match': '*' }), 412)
  const created = await put('one', { 'if-none-match': '*' })
  expect(created.status()).toBe(200)
  const first = created.headers().etag ?? ''
  await expectError(await put('two', { 'if-none-match': '*' }), 412)
  expect((await put('two', { 'if-match': first })).status()).toBe(200)
  for (const stale of [first, `"other", ${first}`])
    await expectError(await put('three', { 'if-match': stale }), 412)
  await expectError(await request.delete(url, { headers: { 'if-match': first } }), 412)
  await expectError(await put('three', { 'if-match': 'unquoted' }), 400, /^If-Match: /)
  const read = await request.get(url)
  expect(await read.json()).toMatchObject({ content: 'two' })
  const etag = read.headers().etag ?? ''
  await expectError(await request.delete(url, { headers: { 'if-match': `W/${etag}` } }), 412)
  const deleted = await request.delete(url, { headers: { 'if-match': `"a",, ${etag},` } })
  expect(deleted.status()).toBe(204)
  await expectError(await request.delete(url, { headers: { 'if-match': '*' } }), 412)
  expect((await request.delete(url)).status()).toBe(204)
})

test.describe('file list', () => {
  test('the file list requires a prefix that starts with a namespace @files.list.prefix', async ({
    request,
  }) => {
    await expectError(await request.get(path), 400, /^prefix: /)
    for (const prefix of [
      '',
      '/',
      '/default',
      '_lake/',
      'Upper/',
      'ab',
      'default/../x',
      'default/%2e%2e/x',
      'a\\b',
    ])
      await expectError(await request.get(path, { params: { prefix } }), 400, /^prefix: /)
    await expectError(
      await request.get(path, { params: { prefix: 'default', namespace: 'Upper' } }),
      400,
      /^namespace: /,
    )
  })

  test('the file list honours prefix, namespace, exclude and page @files.list', async ({ request }) => {
    const namespace = await newNamespace(request)
    const written = [
      'pipelines/silver/a/pipeline.sql',
      'pipelines/silver/a/tests/quality/t.sql',
      'notes/README',
    ]
    for (const file of written) await writeFile(request, `${namespace}/${file}`, 'x')
    const list = async (params: Record<string, string>) => {
      const response = await request.get(path, { params })
      const { files, total } = await response.json()
      return { paths: files.map((file: { path: string }) => file.path.slice(namespace.length + 1)), total }
    }
    const all = { paths: [written[2], written[0], written[1]], total: 3 }
    expect(await list({ prefix: namespace })).toEqual(all)
    expect(await list({ prefix: `${namespace}/`, namespace })).toEqual(all)
    expect(await list({ prefix: `${namespace}/`, namespace: 'default' })).toEqual({ paths: [], total: 0 })
    expect(await list({ prefix: `${namespace}/pipe` })).toEqual({ paths: [written[0], written[1]], total: 2 })
    expect(await list({ prefix: namespace, exclude: 'tests,notes' })).toEqual({
      paths: [written[0]],
      total: 1,
    })
    expect(await list({ prefix: namespace, limit: '1', offset: '1' })).toEqual({
      paths: [written[0]],
      total: 3,
    })
    expect(await list({ prefix: namespace.slice(0, -1) })).toEqual({ paths: [], total: 0 })
  })

  test('the file list derives the type of a file from its path @files.types', async ({ request }) => {
    const namespace = await newNamespace(request)
    const types = {
      '.meta.yaml': 'meta',
      README: 'doc',
      'config.yaml': 'config',
      'hooks/notify.sh': 'hook',
      'other.bin': '',
      'pipeline.py': 'pipeline-py',
      'pipeline.sql': 'pipeline-sql',
      'pre_check.sql': 'hook',
      'schema.yml': 'config',
      'tests/quality/no-nulls.sql': 'test',
    }
    const prefix = `${namespace}/pipelines/silver/a/`
    for (const file of Object.keys(types)) await writeFile(request, prefix + file, 'x')
    const { files } = await getJson(request, path, { prefix })
    const found = files.map((file: { path: string; type: string }) => [
      file.path.slice(prefix.length),
      file.type,
    ])
    expect(Object.fromEntries(found)).toEqual(types)
  })
})

test.describe('file upload', () => {
  test('an upload is stored under the given path or its own name @files.upload', async ({ request }) => {
    const folder = `default/data/${fresh('upload')}/`
    const file = upload('C:\\data\\ä b.csv', 'a,b\n1,2\n', 'text/csv')
    const named = await request.post(`${path}/upload`, { multipart: { path: `${folder}own.csv`, file } })
    expect([named.status(), await named.json()]).toEqual([
      201,
      {
        path: `${folder}own.csv`,
        filename: 'ä b.csv',
        size: 8,
        status: 'uploaded',
        version_id: expect.any(String),
      },
    ])
    const inFolder = await request.post(`${path}/upload`, { multipart: { path: folder, file } })
    expect(await inFolder.json()).toMatchObject({ path: `${folder}ä b.csv` })
    const read = await request.get(`${path}/${folder}own.csv`)
    expect(await read.json()).toMatchObject({ content: 'a,b\n1,2\n', encoding: 'utf-8' })
  })

  test('an upload without a file or valid path is 400 naming it @files.upload.400', async ({ request }) => {
    const file = upload('a.csv', 'a')
    const post = (multipart: { [name: string]: string | typeof file }) =>
      request.post(`${path}/upload`, { multipart })
    await expectError(await post({ file }), 400, /^path: /)
    await expectError(await post({ path: 'default/data/a.csv' }), 400, /^file: /)
    await expectError(await post({ path: 'default/data/a.csv', file: 'text' }), 400, /^file: /)
    for (const bad of [
      '',
      '/default/a.csv',
      'default/../a.csv',
      'default/%2e%2e/a.csv',
      'default\\a.csv',
      'Up/a.csv',
    ])
      await expectError(await post({ path: bad, file }), 400, /^path: /)
  })

  test('an upload may have 32 MB but not one byte more @files.upload.413 @limit.upload.files', async ({
    request,
  }) => {
    const folder = `default/big/${fresh('uploaded')}/`
    const send = (name: string, bytes: number) =>
      request.post(`${path}/upload`, { multipart: { path: folder, file: upload(name, Buffer.alloc(bytes)) } })
    expect(await (await send('full.bin', MAX_UPLOAD_BYTES)).json()).toMatchObject({ size: MAX_UPLOAD_BYTES })
    await expectError(await send('over.bin', MAX_UPLOAD_BYTES + 1), 413, TOO_LARGE)
    await expectError(await send('far-over.bin', MAX_UPLOAD_BYTES + 1_000_000), 413, TOO_LARGE)
    const { files } = await getJson(request, path, { prefix: folder })
    expect(files).toMatchObject([{ path: `${folder}full.bin` }])
  })
})
