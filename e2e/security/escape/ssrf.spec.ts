// Attack class: server-side request forgery. Every field that takes an address, or a name that could become one, gets the
// address of a listener. Nothing may call the listener.
import { createServer, type Server } from 'node:http'
import {
  type AddressInfo,
  connect,
  createServer as createTcpServer,
  type Server as TcpServer,
} from 'node:net'
import { expect, test } from '@playwright/test'
import { rawRequest } from '../../kit/raw-request.ts'
import { fresh, getJson, newPipeline, newZone, pythonOf, writeFile } from '../../kit/resources.ts'
import { requestRun } from '../../kit/runs.ts'
import { addTrigger } from '../../kit/triggers.ts'
import { ended, expectHealthy, newPreview } from './attempts.ts'

let listener: Server
let socket: TcpServer
const received: string[] = []
let address: string
let plain: string

test.describe.configure({ mode: 'serial' })
test.beforeAll(async () => {
  listener = createServer((request, response) => {
    received.push(`${request.method} ${request.url}`)
    response.end('a,b\n1,2\n')
  })
  // Detects a connection of any protocol.
  socket = createTcpServer((connection) => {
    received.push('a connection')
    connection.destroy()
  })
  for (const server of [listener, socket])
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  address = `127.0.0.1:${(listener.address() as AddressInfo).port}`
  plain = `127.0.0.1:${(socket.address() as AddressInfo).port}`
})
test.afterAll(() => {
  listener?.close()
  socket?.close()
})
test.afterEach(() => expect(received).toEqual([]))

test('control: the listener records its callers', async () => {
  await fetch(`http://${address}/control`)
  const [host, port] = plain.split(':')
  const calling = connect(Number(port), host)
  await new Promise((resolve) => calling.once('close', resolve))
  expect(received.splice(0)).toEqual(['GET /control', 'a connection'])
})

/** SQL statements for queries and for pipelines. */
const statements = () =>
  [address, plain].flatMap((at) => [
    `select * from read_csv('http://${at}/a.csv')`,
    `select * from read_csv_auto(['http://${at}/a.csv', 'http://${at}/b.csv'])`,
    `select * from read_text('http://${at}/a')`,
    `select * from read_blob('hf://datasets/${at}/a')`,
    `select * from read_parquet('http://${at}/*.parquet')`,
    `select * from read_json('http://user:pass@${at}/a.json')`,
    `select * from parquet_metadata('http://${at}/a.parquet')`,
    `select * from sniff_csv('http://${at}/a.csv')`,
    `select * from glob('http://${at}/*')`,
    `select * from read_parquet('s3://bucket/a?s3_endpoint=${at}&s3_use_ssl=false')`,
    `select * from read_parquet('gcs://bucket/a?s3_endpoint=${at}')`,
    `select * from iceberg_scan('http://${at}/table')`,
    `select * from delta_scan('http://${at}/table')`,
    `from 'http://${at}/a.csv'`,
    `from "http://${at}/a.parquet"`,
    `from '\\\\${at}\\share\\a.csv'`,
    `attach 'http://${at}/a.db' as a (read_only)`,
    `attach 'host=127.0.0.1 port=${at.split(':')[1]}' as a (type postgres)`,
    `attach 'http://${at}' as a (type iceberg)`,
    `select * from postgres_scan('host=127.0.0.1 port=${at.split(':')[1]}', 'public', 'a')`,
    `select * from mysql_query('host=127.0.0.1 port=${at.split(':')[1]}', 'select 1')`,
    `install a from 'http://${at}'`,
    `load 'http://${at}/a.duckdb_extension'`,
    `copy (select 1) to 'http://${at}/a.csv'`,
    `set custom_extension_repository = 'http://${at}'`,
    `set http_proxy = '${at}'`,
    `create secret (type s3, endpoint '${at}')`,
    `export database 'http://${at}/a'`,
    `import database 'http://${at}/a'`,
  ])

test('SQL of queries and previews calls no address', async ({ request }) => {
  const { ask } = await newPreview(request)
  for (const sql of statements()) {
    const query = await request.post('/api/v1/query', { data: { sql } })
    expect([sql, query.status()]).toEqual([sql, 400])
    expect([sql, (await ask(sql)).status()]).toEqual([sql, 400])
  }
})

test('templates, configuration and tests call no address', async ({ request }) => {
  const url = `http://${address}/a`
  const { ask, prefix, url: pipeline } = await newPreview(request)
  for (const template of [
    `select * from read_csv('{{ landing_zone("${url}") }}')`,
    `select * from {{ ref("${url}") }}`,
    `select * from read_csv('{{ "http://" ~ "${address}/a" }}')`,
    `{% include "${url}" %}`,
    `{% import "${url}" as a %}`,
    `{% extends "${url}" %}`,
  ])
    expect([template, (await ask(template)).status()]).toEqual([template, 400])
  for (const config of [
    `description: !include ${url}`,
    `$ref: ${url}`,
    `extends: ${url}`,
    `%TAG ! ${url}\n---\ndescription: a`,
    `location: ${url}\nwarehouse: ${url}\ncatalog: ${url}`,
  ]) {
    await writeFile(request, `${prefix}config.yaml`, config)
    await writeFile(request, `${prefix}.meta.yaml`, config)
    expect([200, 400]).toContain((await request.post(`${pipeline}/preview`, { data: {} })).status())
    expect([200, 422]).toContain((await request.post(`${pipeline}/publish`, { data: {} })).status())
  }
  await writeFile(request, `${prefix}config.yaml`, '')
  await writeFile(request, `${prefix}tests/quality/calls.sql`, `select * from read_csv('${url}')`)
  const tests = await request.post(`${pipeline}/tests/run`, { data: {} })
  expect((await tests.json()).results).toMatchObject([{ name: 'calls', status: 'failed' }])
})

test('addresses in fields and names are never called', async ({ request }) => {
  const url = `http://${address}/a.csv`
  const pipeline = await newPipeline(request)
  const zone = await newZone(request)
  const bodies: [string, object][] = [
    ['/api/v1/pipelines', { namespace: 'default', layer: 'bronze', name: fresh('s'), source: url }],
    ['/api/v1/pipelines', { namespace: url, layer: 'bronze', name: fresh('s') }],
    [`${pipeline.url}/preview`, { sample_files: [url, `//${address}/a`, `\\\\${address}\\a`] }],
    [`${pipeline.url}/triggers`, { type: 'webhook', config: { url } }],
    [`${pipeline.url}/triggers`, { type: 'webhook', config: {}, webhook_url: url, callback: url }],
    [`${pipeline.url}/triggers`, { type: 'pipeline_success', config: { url } }],
    [`${pipeline.url}/tests`, { name: 'a', sql: 'select 0', severity: 'warn', description: url }],
    ['/api/v1/landing-zones', { namespace: 'default', name: fresh('s'), description: url, s3_path: url }],
    ['/api/v1/runs', { namespace: 'default', layer: 'bronze', pipeline: pipeline.name, trigger: url }],
    ['/api/v1/query', { sql: 'select 1', namespace: url, url, endpoint: url }],
  ]
  for (const [path, data] of bodies) expect((await request.post(path, { data })).status()).toBeLessThan(500)
  await request.put(pipeline.url, { data: { description: url, owner: url } })
  await request.put(zone.url, { data: { description: url, owner: url, expected_schema: `a:${url}` } })
  const file = { name: 'http:a.csv', mimeType: 'text/csv', buffer: Buffer.from(url) }
  await request.post(`${zone.url}/files`, { multipart: { file: { ...file, name: url } } })
  await request.post(`${zone.url}/samples`, { multipart: { file } })
  await request.post('/api/v1/files/upload', { multipart: { path: url, file } })
  for (const path of [url, `//${address}/a`, `http:${address}`, encodeURIComponent(url)]) {
    await request.get(`/api/v1/files/${path}`)
    await request.get('/api/v1/files', { params: { prefix: path } })
    await request.get(`/api/v1/tables/default/bronze/${encodeURIComponent(path)}/preview`)
  }
})

test('no request header makes the service call another address', async ({ request, baseURL }) => {
  const pipeline = await newPipeline(request, { layer: 'silver' })
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select 1 as a')
  const headers = {
    'X-Forwarded-Host': address,
    'X-Forwarded-Proto': 'http',
    'X-Forwarded-Server': address,
    Forwarded: `host=${address};proto=http`,
    'X-Original-URL': `http://${address}/`,
    'X-Host': address,
    Referer: `http://${address}/`,
    Origin: `http://${address}`,
    'X-Webhook-Url': `http://${address}/`,
    'Webhook-Request-Origin': address,
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    baggage: `url=http://${address}`,
  }
  const { namespace, layer, name } = pipeline
  const accepted = await request.post('/api/v1/runs', { data: { namespace, layer, pipeline: name }, headers })
  expect(accepted.status()).toBe(202)
  // A request does not decide where runners and query services reach the service.
  const run = await ended(request, (await accepted.json()).run_id)
  expect([run.status, run.error]).toEqual(['success', null])
  expect((await request.post(`${pipeline.url}/preview`, { data: {}, headers })).status()).toBe(200)
  const query = { sql: `select a from silver."${name}"` }
  expect((await request.post('/api/v1/query', { data: query, headers })).status()).toBe(200)
  const list = await request.get('/api/v1/runs?limit=1', { headers })
  expect(list.headers().link ?? '').not.toContain(address)

  const body = JSON.stringify(query)
  for (const [target, host] of [
    [`http://${address}/api/v1/query`, address],
    ['/api/v1/query', address],
    [`//${address}/api/v1/query`, 'sluice.test'],
    [`http://user@${address}/api/v1/query`, 'sluice.test'],
  ]) {
    const lines = [
      `POST ${target} HTTP/1.1`,
      `Host: ${host}`,
      `X-Api-Key: ${process.env.SLUICE_KEY}`,
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
    ]
    const { status } = await rawRequest(baseURL ?? '', lines, body)
    expect([target, [200, 400, 404].includes(status)]).toEqual([target, true])
  }
  const { status } = await rawRequest(baseURL ?? '', [`CONNECT ${address} HTTP/1.1`, `Host: ${address}`])
  expect([400, 401, 404, 405]).toContain(status)
})

test('a forwarded host changes the address of no webhook', async ({ request }) => {
  const pipeline = await newPipeline(request)
  const created = await request.post(`${pipeline.url}/triggers`, {
    data: { type: 'webhook', config: {} },
    headers: { 'X-Forwarded-Host': 'evil.test', Forwarded: 'host=evil.test' },
  })
  expect((await created.json()).webhook_url).not.toContain('evil.test')
  const { url } = await addTrigger(request, pipeline, 'webhook', {})
  expect(JSON.stringify(await getJson(request, url))).not.toContain('evil.test')
})

test('Python calls no address', async ({ request }) => {
  const python = await pythonOf(request)
  // biome-ignore lint/suspicious/noSkippedTests: a machine without Python runs everything else
  test.skip(python === null, 'pipelines in Python cannot run on this machine')
  const pipeline = await newPipeline(request, { type: 'python', name: fresh('ssrf') })
  const [host, port] = plain.split(':')
  await writeFile(
    request,
    `${pipeline.prefix}pipeline.py`,
    `
import http.client, socket, urllib.request
def tries(what, call):
    try:
        call()
        print("REACHED", what)
    except BaseException as error:
        print("REFUSED", what, type(error).__name__)
tries("socket", lambda: socket.create_connection(("${host}", ${port}), timeout=1))
tries("urllib", lambda: urllib.request.urlopen("http://${address}/a", timeout=1))
tries("http", lambda: http.client.HTTPConnection("${address}", timeout=1).request("GET", "/"))
tries("name", lambda: socket.gethostbyname("localhost"))
tries("datagram", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"a", ("${host}", ${port})))
tries("sql", lambda: sql("select * from read_csv('http://${address}/a')").fetchall())
tries("relation", lambda: duckdb_conn.sql("from 'http://${address}/a.csv'").fetchall())
tries("zone", lambda: landing_zone("http://${address}/a"))
tries("table", lambda: ref("http://${address}/a"))
result = [{"done": True}]
`,
  )
  const run = await ended(request, await requestRun(request, pipeline))
  expect([run.status, run.error]).toEqual(['success', null])
  const lines = run.log.map(({ message }) => message).filter((line) => /^(REACHED|REFUSED)/.test(line))
  expect(lines.length).toBe(9)
  expect(lines.filter((line) => line.startsWith('REACHED'))).toEqual([])
  await expectHealthy(request)
})
