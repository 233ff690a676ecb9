import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { stringifyJson } from '../format/json.ts'
import type { Schema } from '../format/types.ts'
import { parseCommitRequest } from '../format/wire.ts'
import { newTable } from '../write/new-table.ts'
import {
  ATTEMPTS_LIMIT,
  CatalogError,
  type ClientOptions,
  Conflict,
  catalogClient,
  NotFound,
  ServerError,
} from './client.ts'

interface RecordedRequest {
  readonly method: string
  readonly url: string
  readonly authorization: string | undefined
  readonly body: string
}
type Answer = (response: ServerResponse) => void

// The server sends the answers of a test in order, and records the requests.
let requests: RecordedRequest[] = []
let answers: Answer[] = []
const json =
  (status: number, value: unknown): Answer =>
  (response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(stringifyJson(value))
  }
const refused = (status: number, type: string) =>
  json(status, { error: { message: `no: ${type}`, type, code: status } })
const silent: Answer = () => {}
const hangUp: Answer = (response) => response.destroy()

const server = createServer((request, response) => {
  read(request).then((body) => {
    const { method = '', url = '', headers } = request
    requests.push({ method, url, authorization: headers.authorization, body })
    const answer = answers.shift() ?? refused(500, 'Unexpected')
    answer(response)
  })
})
let baseUrl = ''
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  baseUrl = `http://127.0.0.1:${port}/catalog`
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})
beforeEach(() => {
  requests = []
  answers = []
})

const schema: Schema = {
  type: 'struct',
  'schema-id': 0,
  fields: [{ id: 1, name: 'a', required: false, type: 'int' }],
}
const metadata = newTable({ uuid: crypto.randomUUID(), location: 's3://bucket/_lake/t', schema, at: 1 })
const loaded = {
  'metadata-location': 's3://bucket/_lake/t/metadata/1.json',
  metadata,
  config: { a: 'b', c: 5 },
}
const table = { namespace: ['default', 'gold'], name: 'route delays' }
const TABLE_URL = '/catalog/v1/main@run-1/namespaces/default%1Fgold/tables/route%20delays'

const connect = (options: Partial<ClientOptions> = {}) =>
  catalogClient({ baseUrl, prefix: 'main@run-1', token: 'secret', ...options })

test('loads a table', async () => {
  const client = connect()
  answers.push(json(200, loaded))
  expect(await client.loadTable(table)).toEqual({
    metadata,
    metadataLocation: 's3://bucket/_lake/t/metadata/1.json',
    config: { a: 'b' },
  })
  expect(requests).toEqual([{ method: 'GET', url: TABLE_URL, authorization: 'Bearer secret', body: '' }])
})

test('commits with exact 64-bit ids', async () => {
  const client = connect()
  answers.push(json(200, loaded))
  const requirements = [
    { type: 'assert-ref-snapshot-id' as const, ref: 'main', 'snapshot-id': 9007199254740993n },
  ]
  const updates = [{ action: 'remove-snapshots' as const, 'snapshot-ids': [9007199254740995n] }]
  expect(await client.commit(table, { requirements, updates })).toEqual({ a: 'b' })
  expect(requests).toMatchObject([{ method: 'POST', url: TABLE_URL }])
  expect(parseCommitRequest(requests[0]?.body ?? '')).toEqual({ identifier: table, requirements, updates })
})

describe('an error of the catalog', () => {
  test.each([
    [404, 'NoSuchTableException', NotFound],
    [409, 'CommitFailedException', Conflict],
    [409, 'AlreadyExistsException', Conflict],
    [401, 'NotAuthorizedException', CatalogError],
    [403, 'ForbiddenException', CatalogError],
    [400, 'BadRequestException', CatalogError],
    [500, 'InternalServerError', ServerError],
    [503, 'ServiceUnavailable', ServerError],
  ])('maps %i %s to its class', async (status, type, kind) => {
    const client = connect()
    answers.push(refused(status, type))
    const error = await client.commit(table, { requirements: [], updates: [] }).catch((cause) => cause)
    expect(error).toBeInstanceOf(kind)
    expect(error).toMatchObject({ status, type, message: `no: ${type}` })
  })

  test('reports an answer that is not from the catalog', async () => {
    const client = connect()
    answers.push((response) => response.writeHead(403).end('<html>proxy</html>'))
    await expect(client.loadTable(table)).rejects.toThrow('the catalog answered with status 403')
    answers.push(json(200, { config: {} }), json(200, {}), json(200, 'x'))
    await expect(client.loadTable(table)).rejects.toThrow('contains no table metadata')
  })
})

describe('retries only read-only calls', () => {
  test('loads a table after two failures', async () => {
    const client = connect()
    answers.push(refused(503, 'ServiceUnavailable'), hangUp, json(200, loaded))
    expect((await client.loadTable(table)).metadata).toEqual(metadata)
    expect(requests).toHaveLength(3)
  })

  test('gives up loading after the last attempt', async () => {
    const client = connect()
    answers.push(...Array.from({ length: 5 }, () => refused(500, 'InternalServerError')))
    await expect(client.loadTable(table)).rejects.toThrow(ServerError)
    expect(requests).toHaveLength(ATTEMPTS_LIMIT)
  })

  test('loads a missing table only once', async () => {
    const client = connect()
    answers.push(refused(404, 'NoSuchTableException'))
    await expect(client.loadTable(table)).rejects.toThrow(NotFound)
    expect(requests).toHaveLength(1)
  })

  test.each([refused(503, 'ServiceUnavailable'), hangUp])('sends a commit only once (%#)', async (answer) => {
    const client = connect()
    answers.push(answer, json(200, loaded))
    await expect(client.commit(table, { requirements: [], updates: [] })).rejects.toThrow(ServerError)
    expect(requests).toHaveLength(1)
  })
})

test('reports a timeout of the catalog as a server error', async () => {
  const client = connect({ timeoutMs: 1_000 })
  answers.push(silent)
  await expect(client.commit(table, { requirements: [], updates: [] })).rejects.toThrow(
    'no answer within 1000 ms',
  )
})

test('aborts a call and the pause before the next attempt', async () => {
  const stop = new AbortController()
  const client = connect({ signal: stop.signal })
  answers.push(() => stop.abort(new Error('cancelled')))
  await expect(client.loadTable(table)).rejects.toThrow('cancelled')
  expect(requests).toHaveLength(1)
  await expect(client.loadTable(table)).rejects.toThrow('cancelled')
  expect(requests).toHaveLength(1)
})

test('reports an unreachable catalog as a server error', async () => {
  const nowhere = connect({ baseUrl: 'http://127.0.0.1:1/catalog' })
  await expect(nowhere.loadTable(table)).rejects.toThrow('the catalog does not answer GET')
})

async function read(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}
