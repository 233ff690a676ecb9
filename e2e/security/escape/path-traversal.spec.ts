// Attack class: path traversal. Every route that takes a path is called with ways out of it, in every spelling.
import { expect, test } from '@playwright/test'
import { rawRequest } from '../../kit/raw-request.ts'
import { getJson, newPipeline, newZone, writeFile } from '../../kit/resources.ts'
import { expectHealthy, expectNothingTold, newPreview } from './attempts.ts'

const UP = [
  '..',
  '%2e%2e',
  '.%2e',
  '%2e.',
  '%252e%252e',
  '%25252e%25252e',
  '..%00',
  '..%2f',
  '%2e%2e%2f',
  '..%5c',
  '..\\',
  '%c0%ae%c0%ae',
  '%e0%80%ae%e0%80%ae',
  '%uff0e%uff0e',
  '．．',
  '‥',
  '..;',
  '....//',
  '..%ef%bc%8f',
  '.%00.',
]
const TARGETS = ['etc/passwd', 'postgres/password', 'run/processes.json', '_lake/a', 'other/pipelines/a']
/** Paths as they are sent in an address. */
const ENCODED = UP.flatMap((up) => TARGETS.map((target) => `${`${up}/`.repeat(6)}${target}`))
/** Names as they are sent in a body or a form. */
const NAMES = [
  ...['../../', '..\\', '../../', '/', '//', '\\\\server\\share\\', 'C:\\', 'file:///', '~/', '....//'].map(
    (start) => `${start.repeat(start.startsWith('.') ? 5 : 1)}etc/passwd`,
  ),
  '..',
  '.',
  'a/../../b',
  'a/./b',
  'a//b',
  'a\0b',
  'a\nb',
  '%2e%2e%2fetc%2fpasswd',
  '%252e%252e%252fetc',
  'CON',
  'NUL.txt',
  'aux.sql:$DATA',
  'a.sql::$INDEX_ALLOCATION',
  '_lake/default/a',
  '~lock',
  'a~0000000000000001~5',
]
const DATA = /root:x:|"database_url"|PG_VERSION|daemon:|PRIVATE KEY/

let service: string
let key: Record<string, string>
test.beforeAll(({ baseURL }) => {
  service = baseURL ?? ''
  key = { 'X-Api-Key': process.env.SLUICE_KEY ?? '' }
})
const raw = (method: string, target: string) =>
  rawRequest(service, [
    `${method} ${target} HTTP/1.1`,
    'Host: sluice.test',
    ...Object.entries(key).map(([name, value]) => `${name}: ${value}`),
    'Content-Length: 0',
  ])

test('control: a plain path is read', async ({ request }) => {
  const { prefix } = await newPipeline(request)
  await writeFile(request, `${prefix}a b.sql`, 'select 1')
  const answer = await raw('GET', `/api/v1/files/${prefix}a%20b.sql`)
  expect([answer.status, JSON.parse(answer.body).content]).toEqual([200, 'select 1'])
})

test(`path traversal in addresses reaches nothing: ${ENCODED.length} paths per route`, async ({
  request,
}) => {
  const pipeline = await newPipeline(request)
  const zone = await newZone(request)
  const routes = [
    '/api/v1/files/',
    `/api/v1/files/${pipeline.prefix}`,
    `${zone.url}/files/`,
    `${zone.url}/samples/`,
    '/api/v1/landing-zones/default/',
    '/api/v1/pipelines/default/bronze/',
    `${pipeline.url}/versions/`,
    '/api/v1/tables/default/bronze/',
    '/api/v1/runs/',
    '/api/v1/inspector/run/instances/',
    '/api/v1/inspector/machines/',
    '/swagger/',
    '/inspector/',
    '/lake/objects/',
    '/catalog/sluice/v1/landing/default/',
  ]
  for (const route of routes)
    for (let from = 0; from < ENCODED.length; from += 25)
      await Promise.all(
        ENCODED.slice(from, from + 25).map(async (path) => {
          const target = route + path
          const { status, body } = await raw('GET', target)
          expect([target, [400, 401, 404, 405].includes(status)]).toEqual([target, true])
          expect([target, DATA.exec(body)?.[0]]).toEqual([target, undefined])
          expectNothingTold(body, target)
        }),
      )
})

test('path traversal writes and deletes nothing', async ({ request }) => {
  const { prefix } = await newPipeline(request)
  for (const path of ENCODED.filter((_, index) => index % 3 === 0))
    for (const method of ['PUT', 'DELETE']) {
      const target = `/api/v1/files/${prefix}${path}`
      const response = await rawRequest(
        service,
        [
          `${method} ${target} HTTP/1.1`,
          'Host: sluice.test',
          `X-Api-Key: ${key['X-Api-Key']}`,
          'Content-Type: application/json',
          'Content-Length: 15',
        ],
        '{"content":"x"}',
      )
      // A spelling that no decoding turns into `..` is an unusual name, which stays in its folder.
      if (response.status === 200 || response.status === 204)
        expect(target).toMatch(/．．|‥|%u|%ef%bc|%c0|%e0/i)
      else expect([method, target, response.status]).toEqual([method, target, expect.any(Number)])
      expect([target, response.status < 500]).toEqual([target, true])
    }
  const { files } = await getJson(request, `/api/v1/files?prefix=${prefix}&limit=200`)
  for (const { path } of files) expect(path.startsWith(prefix)).toBe(true)
})

test('traversal in names of forms, bodies and queries has no effect', async ({ request }) => {
  const pipeline = await newPipeline(request)
  const zone = await newZone(request)
  const buffer = Buffer.from('a\n1\n')
  for (const name of NAMES) {
    const file = { name, mimeType: 'text/csv', buffer }
    const stored = [
      await request.post(`${zone.url}/files`, { multipart: { file } }),
      await request.post(`${zone.url}/samples`, { multipart: { file } }),
      await request.post('/api/v1/files/upload', { multipart: { path: pipeline.prefix, file } }),
      await request.post('/api/v1/files/upload', {
        multipart: { path: `${pipeline.prefix}${name}`, file: { ...file, name: 'a.csv' } },
      }),
      await request.post('/api/v1/files/upload', {
        multipart: { path: name, file: { ...file, name: 'a.csv' } },
      }),
    ]
    for (const response of stored) {
      const text = await response.text()
      expect([name, [201, 400].includes(response.status()), text]).toEqual([name, true, text])
      expectNothingTold(text, name)
      if (response.status() !== 201) continue
      const { path, s3_path } = JSON.parse(text)
      // The file is stored only below the requested folder, and its path has no way up.
      expect(path ?? s3_path).toMatch(/^default\/(pipelines\/bronze|landing)\//)
      expect(path ?? s3_path).not.toMatch(/(^|\/)\.\.?(\/|$)|\\|\0/)
    }
    for (const params of [{ prefix: name }, { prefix: `default/${name}` }]) {
      const listed = await request.get('/api/v1/files', { params })
      expect([name, [200, 400].includes(listed.status())]).toEqual([name, true])
      expect(await listed.text()).not.toMatch(/_lake\/|~lock|"\.\.\//)
    }
  }
})

test('a preview reads samples and files only from its own namespace', async ({ request }) => {
  const { url, ask } = await newPreview(request)
  for (const path of [...NAMES, 'other/landing/a/b.csv', 'default/pipelines/../../etc/passwd', '_lake/a']) {
    const response = await request.post(`${url}/preview`, { data: { sample_files: [path] } })
    const text = await response.text()
    expect([path, response.status()]).toEqual([path, 400])
    expectNothingTold(text, path)
  }
  for (const zone of NAMES) {
    const response = await ask(`select * from read_text('{{ landing_zone(${JSON.stringify(zone)}) }}')`)
    expect([zone, response.status()]).toEqual([zone, 400])
    expectNothingTold(await response.text(), zone)
  }
  await expectHealthy(request)
})

test('a zone whose files are named like paths can be read', async ({ request }) => {
  const zone = await newZone(request)
  for (const name of [
    "it's.csv",
    'a*b?.csv',
    '[a-z].csv',
    '{a,b}.csv',
    '100%25.csv',
    'ünïcode ☃.csv',
    '..csv',
  ])
    await zone.upload(name)
  const { ask } = await newPreview(request)
  const response = await ask(`select count(*) as n from read_csv('{{ landing_zone("${zone.name}") }}')`)
  expect([response.status(), (await response.json()).rows]).toEqual([200, [[7]]])
})
