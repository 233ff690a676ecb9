// Attack class: texts and files that are made to break or to block their parser. Each is refused with a message, or read as
// plain data. Other clients are answered meanwhile and afterwards.
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { DuckDBInstance } from '@duckdb/node-api'
import { type APIRequestContext, expect, test } from '@playwright/test'
import { rawRequest } from '../../kit/raw-request.ts'
import { fresh, getJson, newPipeline, newZone, writeFile } from '../../kit/resources.ts'
import { newTable, requestRun } from '../../kit/runs.ts'
import { ended, expectHealthy, expectNothingTold, newPreview } from './attempts.ts'

/** Longest wait for the answer to a text of limited size. */
const PATIENCE_MS = 45_000
const YAML_BYTES = 65_536
const filled = (part: (index: number) => string) => {
  let text = ''
  for (let index = 0; text.length < YAML_BYTES - 100; index++) text += part(index)
  return text
}
const YAML: [what: string, text: string][] = [
  ['keys without end', filled((index) => `a${index.toString(36)}:\n`)],
  ['keys in braces', `{${filled((index) => `a${index.toString(36)},`)}}`],
  ['a set without end', `columns: !!set {${filled((index) => `a${index},`)}}`],
  ['brackets', '['.repeat(YAML_BYTES)],
  ['braces', '{'.repeat(YAML_BYTES)],
  ['lists in lists', '- '.repeat(YAML_BYTES / 2)],
  ['keys that are maps', '? '.repeat(YAML_BYTES / 2)],
  ['aliases of aliases', `a0: &b0 [x]\n${filled((i) => `a${i + 1}: &b${i + 1} [*b${i}, *b${i}]\n`)}`],
  ['an alias of itself', 'columns: &a [*a]\n'],
  ['merges', `${filled((index) => `a${index}: &b${index} {<<: [*b${index - 1}]}\n`)}`],
  ['tags', 'description: !!js/function "process.exit()"\nowner: !!python/object/apply:os.system [id]\n'],
  ['directives', `%${'FORGED '.repeat(9_000)}\n---\na: 1\n`],
  ['documents', '---\n'.repeat(16_000)],
  ['more than may be', `description: ${'x'.repeat(1_000_000)}`],
  [
    'prototypes',
    '__proto__: {owner: evil}\nconstructor: {prototype: {owner: evil}}\ncolumns: {__proto__: evil}\n',
  ],
]

test('hostile YAML is ignored or refused with a message', async ({ request }) => {
  const table = await newTable(request, { namespace: 'default', layer: 'silver' }, 'select 1 as a')
  const shown = `/api/v1/tables/${table.namespace}/${table.layer}/${table.name}`
  await writeFile(request, `${table.prefix}.meta.yaml`, 'description: plain\nowner: ada\ncolumns: {a: one}\n')
  expect(await getJson(request, shown)).toMatchObject({
    description: 'plain',
    owner: 'ada',
    columns: [{ name: 'a', description: 'one' }],
  })
  for (const [what, text] of YAML) {
    await writeFile(request, `${table.prefix}.meta.yaml`, text)
    await writeFile(request, `${table.prefix}config.yaml`, text)
    const timeout = PATIENCE_MS
    const [described, listed, previewed, published, alive] = await Promise.all([
      request.get(shown, { timeout }),
      request.get('/api/v1/tables?layer=silver', { timeout }),
      request.post(`${table.url}/preview`, { data: {}, timeout }),
      request.post(`${table.url}/publish`, { data: {}, timeout }),
      request.get('/health', { timeout: PATIENCE_MS }),
    ])
    expect([what, described.status(), listed.status(), alive.status()]).toEqual([what, 200, 200, 200])
    expect((await described.json()).owner).not.toBe('evil')
    expect([what, [200, 400].includes(previewed.status()), [200, 422].includes(published.status())]).toEqual([
      what,
      true,
      true,
    ])
    expectNothingTold(await previewed.text(), text.slice(0, 2_000))
  }
  await expectHealthy(request)
})

test('an annotation as long as a whole source is refused', async ({ request }) => {
  const { ask } = await newPreview(request)
  const keys = Array.from({ length: 60_000 }, (_, index) => `a${index}`).join(',')
  for (const value of [`[${keys}]`, keys, '['.repeat(500_000), `{${keys}}`]) {
    const code = `-- @merge_strategy: incremental\n-- @unique_key: ${value}\nselect 1 as a`
    const response = await ask(code)
    expect([value.slice(0, 10), response.status()]).toEqual([value.slice(0, 10), 400])
    expect((await response.json()).error.message).toMatch(/unique_key/)
  }
  await expectHealthy(request)
})

const JSON_BODIES: [what: string, body: string | Buffer][] = [
  ['nested', `{"name":${'['.repeat(200_000)}${']'.repeat(200_000)}}`],
  ['nested in objects', '{"a":'.repeat(50_000) + 1 + '}'.repeat(50_000)],
  ['never closed', `{"a":${'['.repeat(500_000)}`],
  ['of a million values', `{"name":[${'1,'.repeat(400_000)}1]}`],
  ['of many keys', `{${Array.from({ length: 120_000 }, (_, i) => `"${i}":1`).join(',')}}`],
  ['too long', `{"name":"${'x'.repeat(1_200_000)}"}`],
  ['one long number', `{"name":${'9'.repeat(900_000)}}`],
  ['beyond all numbers', '{"name":1e999}'],
  ['not a number', '{"name":NaN}'],
  ['with comments', '{"name":"a"/* */}'],
  ['with more behind it', '{"name":"abc"}{"name":"abd"}'],
  ['a list', '[{"name":"abc"}]'],
  ['a text', '"abc"'],
  ['null', 'null'],
  ['half a character', '{"name":"\\ud800"}'],
  ['a null byte', '{"name":"a\\u0000b"}'],
  ['not UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
  ['UTF-16', Buffer.from('\ufeff{"name":"abc"}', 'utf16le')],
]

test(`an invalid body is 400 or 413: ${JSON_BODIES.length} bodies per route`, async ({
  request,
  baseURL,
}) => {
  const headers = { 'content-type': 'application/json' }
  const { url } = await newPipeline(request)
  for (const [what, data] of JSON_BODIES)
    for (const path of ['/api/v1/namespaces', '/api/v1/query', `${url}/triggers`]) {
      const response = await request.post(path, { data, headers, timeout: PATIENCE_MS })
      expect([what, path, [400, 413].includes(response.status())]).toEqual([what, path, true])
      expect((await response.text()).length).toBeLessThan(2_000)
    }
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/jsonx',
    'application/json-seq',
  ]) {
    const response = await request.post('/api/v1/namespaces', {
      data: '{"name":"abc"}',
      headers: { 'content-type': type },
    })
    expect([type, response.status()]).toEqual([type, 400])
  }
  // A false length, and an encoding that is not accepted.
  const key = `X-Api-Key: ${process.env.SLUICE_KEY}`
  const start = [
    'POST /api/v1/namespaces HTTP/1.1',
    'Host: sluice.test',
    key,
    'Content-Type: application/json',
  ]
  const zipped = gzipSync(JSON.stringify({ name: fresh('zipped') }))
  const answers = [
    await rawRequest(baseURL ?? '', [...start, 'Content-Length: -1'], '{}').catch(() => null),
    await rawRequest(baseURL ?? '', [...start, 'Content-Length: 99999999999'], '{}').catch(() => null),
    await rawRequest(
      baseURL ?? '',
      [...start, 'Content-Encoding: gzip', `Content-Length: ${zipped.length}`],
      zipped,
    ),
    await rawRequest(baseURL ?? '', [...start, 'Transfer-Encoding: chunked'], 'zz\r\n{}\r\n0\r\n\r\n').catch(
      () => null,
    ),
  ]
  for (const answer of answers) expect([0, 400, 413, undefined]).toContain(answer?.status)
  await expectHealthy(request)
})

test('duplicate keys and JavaScript names in JSON have no side effects', async ({ request }) => {
  const headers = { 'content-type': 'application/json' }
  const name = fresh('twice')
  const twice = await request.post('/api/v1/namespaces', {
    data: `{"name":"default","name":"${name}","__proto__":{"name":"evil","polluted":1},"constructor":{"prototype":{"polluted":1}}}`,
    headers,
  })
  expect([[201, 400].includes(twice.status()), await twice.text()]).toEqual([
    true,
    expect.not.stringContaining('evil'),
  ])
  const { url } = await newPipeline(request)
  const trigger = await request.post(`${url}/triggers`, {
    data: '{"type":"cron","config":{"cron_expr":"* * * * *","__proto__":{"polluted":1}},"__proto__":{"enabled":false}}',
    headers,
  })
  expect([201, 400]).toContain(trigger.status())
  const after = await getJson(request, '/api/v1/features')
  expect(after).not.toHaveProperty('polluted')
  expect((await getJson(request, '/api/v1/namespaces')).polluted).toBeUndefined()
})

const boundary = 'sluice-boundary'
const part = (headers: string, body = 'x') => `--${boundary}\r\n${headers}\r\n\r\n${body}\r\n`
const end = `--${boundary}--\r\n`
const file = (name = 'a.csv', body = 'a\n1\n') =>
  part(`Content-Disposition: form-data; name="file"; filename="${name}"\r\nContent-Type: text/csv`, body)
const FORMS: [what: string, body: string, type?: string][] = [
  ['nothing', ''],
  ['only the end', end],
  ['no end', file()],
  ['no boundary', file() + end, 'multipart/form-data'],
  ['an endless boundary', file() + end, `multipart/form-data; boundary=${'b'.repeat(9_000)}`],
  ['another boundary', file() + end, 'multipart/form-data; boundary=other'],
  ['another type', file() + end, `multipart/mixed; boundary=${boundary}`],
  ['two files', file() + file('b.csv') + end],
  ['many parts', part('Content-Disposition: form-data; name="a"').repeat(1_000) + file() + end],
  ['many files', file('b.csv').replace('name="file"', 'name="other"').repeat(1_000) + file() + end],
  ['a text in place of the file', part('Content-Disposition: form-data; name="file"') + end],
  [
    'many headers',
    part(`${'X-A: b\r\n'.repeat(5_000)}Content-Disposition: form-data; name="file"; filename="a"`) + end,
  ],
  [
    'one long header',
    part(`Content-Disposition: form-data; name="file"; filename="${'a'.repeat(100_000)}"`) + end,
  ],
  ['no disposition', part('Content-Type: text/csv') + end],
  ['names of JavaScript', part('Content-Disposition: form-data; name="__proto__"') + end],
  [
    'a form in a form',
    part(`Content-Type: multipart/mixed; boundary=inner`, '--inner\r\n\r\nx\r\n--inner--') + end,
  ],
]

test(`invalid forms are refused and store nothing: ${FORMS.length} per route`, async ({ request }) => {
  const zone = await newZone(request)
  const { prefix } = await newPipeline(request)
  for (const [what, data, type = `multipart/form-data; boundary=${boundary}`] of FORMS)
    for (const path of [`${zone.url}/files`, `${zone.url}/samples`, '/api/v1/files/upload']) {
      const response = await request.post(path, {
        data: data || Buffer.alloc(0),
        headers: { 'content-type': type },
        timeout: PATIENCE_MS,
      })
      expect([
        what,
        path,
        [400, 413].includes(response.status()),
        (await response.text()).slice(0, 300),
      ]).toEqual([what, path, true, expect.stringContaining('"error"')])
    }
  expect((await getJson(request, `${zone.url}/files`)).total).toBe(0)
  expect((await getJson(request, `${zone.url}/samples`)).total).toBe(0)
  const { files } = await getJson(request, `/api/v1/files?prefix=${prefix}`)
  expect(files.length).toBe(2)
  await zone.upload('plain.csv')
})

test('a long form field is refused without its value', async ({ request }) => {
  const zone = await newZone(request)
  const data = part('Content-Disposition: form-data; name="path"', 'x'.repeat(100_000)) + file() + end
  const headers = { 'content-type': `multipart/form-data; boundary=${boundary}` }
  const upload = await request.post('/api/v1/files/upload', { data, headers })
  expect([upload.status(), (await upload.json()).error.message]).toEqual([
    400,
    'path: is longer than 8192 bytes',
  ])
  const landingUpload = await request.post(`${zone.url}/files`, { data, headers })
  expect([landingUpload.status(), await landingUpload.text()]).toEqual([
    400,
    expect.not.stringContaining('xxx'),
  ])
})

/** A Parquet file of half a gigabyte in a few kilobytes, and damaged Parquet files. */
async function parquetFiles(): Promise<Record<string, Buffer>> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-parquet-'))
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  try {
    const path = join(folder, 'a.parquet')
    const written = async (sql: string) => {
      await connection.run(`copy (${sql}) to '${path}' (format parquet, compression zstd)`)
      return readFile(path)
    }
    const bomb = await written("select repeat('x', 1000000) as a from range(500)")
    const plain = await written('select range as a, range::varchar as b from range(10000)')
    const changed = (at: number, bytes: number[]) => {
      const copy = Buffer.from(plain)
      copy.set(bytes, at < 0 ? copy.length + at : at)
      return copy
    }
    return {
      bomb,
      empty: Buffer.alloc(0),
      'only its mark': Buffer.from('PAR1PAR1'),
      cut: plain.subarray(0, plain.length >> 1),
      'without its head': plain.subarray(100),
      'a footer beyond the file': changed(-8, [0xff, 0xff, 0xff, 0x7f]),
      'a footer of nothing': changed(-8, [0, 0, 0, 0]),
      'a damaged footer': changed(-60, Array(40).fill(0xff)),
      'damaged pages': changed(40, Array(200).fill(0xaa)),
      noise: Buffer.from(Array.from({ length: 5_000 }, (_, index) => (index * 7_919) % 256)),
    }
  } finally {
    connection.closeSync()
    await rm(folder, { recursive: true, force: true })
  }
}

async function textFiles(): Promise<Record<string, [reader: string, name: string, content: Buffer]>> {
  const csv = (name: string, text: string): [string, string, Buffer] => [
    'read_csv',
    `${name}.csv`,
    Buffer.from(text),
  ]
  const json = (name: string, text: string): [string, string, Buffer] => [
    'read_json_auto',
    `${name}.json`,
    Buffer.from(text),
  ]
  return {
    'a line of 20 MB': csv('line', `a,b\n${'x'.repeat(20_000_000)}`),
    'a quote that never ends': csv('quote', `a,b\n"${'x,\n'.repeat(2_000_000)}`),
    'columns by the hundred thousand': csv('columns', `${'a,'.repeat(100_000)}a\n${'1,'.repeat(100_000)}1\n`),
    'null bytes': csv('null', `a,b\n\0\0\0,\0\n${'\0'.repeat(100_000)}`),
    'no UTF-8': ['read_csv', 'latin.csv', Buffer.from([0x61, 0x0a, 0xff, 0xfe, 0xfd, 0x0a])],
    'a compressed gigabyte': ['read_csv', 'bomb.csv.gz', gzipSync(Buffer.alloc(100_000_000, 'x'))],
    'no compression at all': ['read_csv', 'none.csv.gz', Buffer.from('a,b\n1,2\n')],
    'nested JSON': json('nested', `${'['.repeat(1_000_000)}`),
    'nested JSON that closes': json('closed', `{"a":${'['.repeat(5_000)}${']'.repeat(5_000)}}`),
    'JSON of many keys': json(
      'keys',
      `{${Array.from({ length: 100_000 }, (_, i) => `"k${i}":1`).join(',')}}`,
    ),
    'JSON that stops': json('stops', '[{"a":1},{"a":'),
    'JSON of another kind': json('kind', '{"a":{"b":[1,{"c":2}]}}\n{"a":"text"}\n{"a":1e400}'),
  }
}

async function previewOf(
  request: APIRequestContext,
  reader: string,
  name: string,
  content: Buffer,
  what = '*',
) {
  const zone = await newZone(request)
  const multipart = { file: { name, mimeType: 'application/octet-stream', buffer: content } }
  expect((await request.post(`${zone.url}/samples`, { multipart })).status()).toBe(201)
  const pipeline = await newPipeline(request, { layer: 'silver' })
  const source = `select ${what} from ${reader}('{{ landing_zone("${zone.name}") }}')`
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, source)
  return request.post(`${pipeline.url}/preview?limit=1`, { data: {}, timeout: 90_000 })
}

test('hostile files end with a message, and the engine keeps working', async ({ request }) => {
  // Made before the first request, because an idle connection would be closed meanwhile.
  const attempts = [
    ...Object.entries(await parquetFiles()).map(
      ([what, content]) => [what, 'read_parquet', 'a.parquet', content] as const,
    ),
    ...Object.entries(await textFiles()).map(([what, file]) => [what, ...file] as const),
  ]
  const plain = await previewOf(request, 'read_csv', 'plain.csv', Buffer.from('a,b\n1,2\n'))
  expect([plain.status(), (await plain.json()).rows]).toEqual([200, [[1, 2]]])
  for (const [what, reader, name, content] of attempts) {
    // The whole bomb at once needs more memory than an engine has.
    const all = what === 'bomb' ? 'list(a || random()::varchar) as a' : '*'
    const response = await previewOf(request, reader, name, content, all)
    const text = await response.text()
    expect([what, [200, 400].includes(response.status()), text.slice(0, 300)]).toEqual([
      what,
      true,
      expect.any(String),
    ])
    expect([what, text.length < 40_000_000]).toEqual([what, true])
    if (response.status() === 400) expectNothingTold(JSON.parse(text).error.message, `${name} ${reader}`)
  }
  await expectHealthy(request)
})

test('a run on a hostile file fails and leaves its table unchanged', async ({ request }) => {
  const zone = await newZone(request)
  await zone.upload('a.csv', 'a,b\n1,2\n')
  const pipeline = await newPipeline(request, { layer: 'silver' })
  const source = `select * from read_csv('{{ landing_zone("${zone.name}") }}', header = true, columns = {'a': 'BIGINT', 'b': 'BIGINT'})`
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, source)
  expect((await ended(request, await requestRun(request, pipeline))).status).toBe('success')
  await zone.upload('b.csv', `a,b\n"${'x,\n'.repeat(1_000_000)}`)
  const run = await ended(request, await requestRun(request, pipeline))
  expect([run.status, run.error]).toEqual(['failed', expect.stringMatching(/^executing: pipeline\.sql/)])
  expectNothingTold(run.error ?? '', source)
  const answer = await request.post('/api/v1/query', {
    data: { sql: `select * from silver."${pipeline.name}"` },
  })
  expect((await answer.json()).rows).toEqual([{ a: 1, b: 2 }])
})
