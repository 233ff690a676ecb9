import { describe, expect, test } from 'bun:test'
import { Type as t } from '@sinclair/typebox'
import { Elysia, t as elysiaType } from 'elysia'
import { requestTo, testApp } from '../composition/test-app.ts'
import { documentedAs } from '../core/documented.ts'
import { ErrorBody, Layer, NamespaceName, nullable } from '../core/names.ts'

const things = new Elysia({ prefix: '/things', tags: ['things'] })
  .get('', () => ({ things: [] }), {
    query: t.Object({
      search: t.Optional(t.String({ description: 'Part of a name', examples: ['fli'] })),
      limit: t.Optional(documentedAs(t.String(), t.Integer({ minimum: 1 }))),
    }),
    response: {
      200: t.Object({ things: t.Array(t.Object({ owner: nullable(t.String()) })) }),
      400: ErrorBody,
    },
    detail: { operationId: 'listThings', summary: 'List' },
  })
  .post('/:ns/:layer', ({ status }) => status(201, { rows: {} }), {
    params: t.Object({ ns: NamespaceName, layer: Layer }),
    body: t.Object({
      kind: t.Literal('a'),
      size: t.Integer({ minimum: 1, default: 5 }),
      names: t.Record(t.String(), t.String()),
    }),
    response: { 201: t.Object({ rows: t.Record(t.String(), nullable(t.Integer())) }) },
  })
  .post('/:ns/:layer/publish', () => 'done', {
    body: t.Optional(t.Object({ message: t.Optional(t.String()) })),
    response: { 200: t.String() },
  })
  .delete('/:ns/:layer', ({ status }) => status(204, undefined), { response: { 204: t.Void() } })
  .post('/upload', () => ({}), { body: elysiaType.Object({ path: t.String(), file: elysiaType.File() }) })
  .get('/files/*', () => ({}))

interface Operation {
  operationId: string
  parameters?: { in: string; name: string; schema: object; required: boolean; example?: string }[]
  requestBody?: { required: boolean; content: Record<string, { schema: object }> }
  responses: Record<string, { description?: string; content?: Record<string, { schema: object }> }>
  security?: object[]
}
interface Document {
  openapi: string
  servers: object[]
  security: object[]
  tags: { name: string }[]
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, object>; securitySchemes: object }
}

const documentOf = async (apiKey: string | null = null) => {
  const response = await requestTo(testApp({ api: [things], config: { apiKey } }), 'GET', '/swagger/json')
  expect(response.headers.get('content-type')).toBe('application/json')
  return (await response.json()) as Document
}
const operation = async (path: string, method: string) => {
  const found = (await documentOf()).paths[`/api/v1/things${path}`]?.[method]
  if (found === undefined) throw new Error(`no ${method} ${path}`)
  return found
}

describe('the OpenAPI document', () => {
  test('the document is OpenAPI 3.1 with the routes under their tags', async () => {
    const { openapi, servers, tags, paths } = await documentOf()
    expect(openapi).toBe('3.1.0')
    expect(servers).toMatchObject([{ url: '/' }])
    expect(tags.map(({ name }) => name)).toEqual(['features', 'health', 'things'])
    expect(Object.keys(paths)).toContain('/health/ready')
    expect(Object.keys(paths).filter((path) => path.startsWith('/swagger'))).toEqual([])
  })
  test('requires the configured credential, but none for health', async () => {
    expect((await documentOf()).security).toEqual([])
    const { security, paths } = await documentOf('secret')
    expect(security).toEqual([{ ApiKey: [] }])
    expect(paths['/health']?.get?.security).toEqual([])
    const oidc = {
      issuer: 'https://id.test',
      audience: 'a',
      clockSkewSeconds: 0,
      rolesClaim: 'roles',
      admins: [],
    }
    const users = await requestTo(testApp({ config: { oidc } }), 'GET', '/swagger/json')
    expect(await users.json()).toMatchObject({
      security: [{ AccessToken: [] }],
      components: {
        securitySchemes: { AccessToken: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } },
      },
    })
  })
  test('describes parameters with their examples', async () => {
    const { parameters, operationId } = await operation('', 'get')
    expect(operationId).toBe('listThings')
    expect(parameters?.slice(0, 1)).toEqual([
      {
        in: 'query',
        name: 'search',
        required: false,
        description: 'Part of a name',
        example: 'fli',
        schema: { type: 'string' },
      },
    ] as never)
  })
  test('writes literals as enums and null as a type', async () => {
    const { parameters } = await operation('/{ns}/{layer}', 'post')
    const layer = { $ref: '#/components/schemas/Layer' }
    expect(parameters?.find(({ name }) => name === 'layer')?.schema).toEqual(layer)
    expect((await documentOf()).components.schemas.Layer).toMatchObject({
      type: 'string',
      enum: ['bronze', 'silver', 'gold'],
    })
    const list = (await operation('', 'get')).responses['200']?.content?.['application/json']?.schema
    expect(list).toMatchObject({
      properties: { things: { items: { properties: { owner: { type: ['string', 'null'] } } } } },
    })
  })
  test('declares the errors of every request, each with an example', async () => {
    const { responses } = await operation('/{ns}/{layer}', 'post')
    expect(Object.keys(responses)).toEqual([
      '201',
      '400',
      '401',
      '403',
      '404',
      '413',
      '429',
      '500',
      '503',
      'default',
    ])
    expect(responses['404']?.content?.['application/json']).toMatchObject({
      example: { error: { code: 'NOT_FOUND', type: 'NOT_FOUND' } },
    })
  })
  test('builds an example of every body from its fields', async () => {
    const { requestBody } = await operation('/{ns}/{layer}', 'post')
    expect(requestBody?.content['application/json']).toMatchObject({
      example: { kind: 'a', names: {} },
    })
  })
  test('keeps defaults, bounds and maps of a body', async () => {
    const { requestBody, responses } = await operation('/{ns}/{layer}', 'post')
    expect(requestBody?.required).toBe(true)
    expect(requestBody?.content['application/json']?.schema).toMatchObject({
      properties: {
        kind: { type: 'string', const: 'a' },
        size: { type: 'integer', minimum: 1, default: 5 },
        names: { type: 'object', additionalProperties: { type: 'string' } },
      },
    })
    expect(responses['201']?.content?.['application/json']?.schema).toMatchObject({
      properties: { rows: { additionalProperties: { type: ['integer', 'null'] } } },
    })
  })
  test('describes optional bodies, text responses and empty responses', async () => {
    const publish = await operation('/{ns}/{layer}/publish', 'post')
    expect(publish.requestBody?.required).toBe(false)
    expect(Object.keys(publish.responses['200']?.content ?? {})).toEqual(['text/plain'])
    expect(publish.parameters?.map(({ name }) => name)).toEqual(['ns', 'layer'])
    expect((await operation('/{ns}/{layer}', 'delete')).responses['204']?.content).toBeUndefined()
  })
  test('describes uploads as forms', async () => {
    const { requestBody } = await operation('/upload', 'post')
    expect(requestBody?.content).toEqual({
      'multipart/form-data': {
        schema: {
          type: 'object',
          required: ['path', 'file'],
          properties: { path: { type: 'string' }, file: { type: 'string', format: 'binary' } },
        },
      },
    } as never)
  })
  test('names the wildcard of a path', async () => {
    const { parameters } = await operation('/files/{path}', 'get')
    expect(parameters).toEqual([
      {
        in: 'path',
        name: 'path',
        required: true,
        description: 'Path in the object store, starting with a namespace',
        example: 'default/pipelines/silver/flights/pipeline.sql',
        schema: { type: 'string' },
      },
    ] as never)
  })
  test('shows the stricter schema where the check is looser', async () => {
    const { parameters } = await operation('', 'get')
    expect(parameters?.find(({ name }) => name === 'limit')?.schema).toEqual({ type: 'integer', minimum: 1 })
  })
  test('lists only the configured credentials and those of webhooks', async () => {
    const schemesOf = async (key: string | null) =>
      Object.keys((await documentOf(key)).components.securitySchemes)
    expect(await schemesOf(null)).toEqual(['WebhookToken', 'WebhookBearer'])
    expect(await schemesOf('secret')).toEqual(['ApiKey', 'WebhookToken', 'WebhookBearer'])
  })
})

describe('the Swagger page', () => {
  const app = testApp({ api: [things], config: { apiKey: 'secret' } })
  test('serves the page with its files, under a strict content policy', async () => {
    const page = await requestTo(app, 'GET', '/swagger')
    expect(page.headers.get('content-type')).toStartWith('text/html')
    expect(page.headers.get('content-security-policy')).toStartWith("default-src 'self';")
    const html = await page.text()
    expect(html).not.toMatch(/https?:/)
    for (const [, address] of html.matchAll(/(?:src|href)="([^"]+)"/g)) {
      const response = await requestTo(app, 'GET', `/${address}`)
      expect([address, response.status]).toEqual([address, 200])
      expect((await response.arrayBuffer()).byteLength).toBeGreaterThan(20)
    }
  })
  test('redirects the address with a trailing slash', async () => {
    const response = await requestTo(app, 'GET', '/swagger/')
    expect([response.status, response.headers.get('location')]).toEqual([301, '../swagger'])
  })
  test('answers 304 for an unchanged file', async () => {
    const etag = (await requestTo(app, 'GET', '/swagger/page.js')).headers.get('etag') ?? ''
    const again = await requestTo(app, 'GET', '/swagger/page.js', undefined, { 'if-none-match': etag })
    expect([again.status, await again.text()]).toEqual([304, ''])
  })
  test('serves the same document before and after other requests', async () => {
    const routes = () =>
      new Elysia().post('/things', () => ({ name: 'a' }), {
        body: t.Object({ name: t.String() }),
        response: { 200: t.Object({ name: t.String() }) },
        detail: { operationId: 'createThing', summary: 'Create a thing' },
      })
    const [quiet, used] = [testApp({ api: [routes()] }), testApp({ api: [routes()] })]
    expect((await requestTo(used, 'POST', '/api/v1/things', { name: 'a' })).status).toBe(200)
    const [first, second] = await Promise.all(
      [quiet, used].map(async (each) => (await requestTo(each, 'GET', '/swagger/json')).text()),
    )
    expect(second).toBe(first as string)
  })
  test('serves no other file', async () => {
    for (const name of [
      'package.json',
      '..%2fpackage.json',
      'swagger-ui.css.map',
      'constructor',
      'index.html%00',
    ])
      expect([400, 404]).toContain((await requestTo(app, 'GET', `/swagger/${name}`)).status)
  })
})
