// The OpenAPI document, whatever routes there are: complete enough for Swagger UI to execute every one of them.
import { expect, test } from '@playwright/test'

type Json = Record<string, unknown>
interface Operation {
  operationId?: string
  summary?: string
  tags?: string[]
  parameters?: { name: string; in: string; required?: boolean; schema?: Json }[]
  requestBody?: { content: Record<string, { schema?: Json }> }
  responses: Record<
    string,
    { $ref?: string; description?: string; content?: Record<string, { schema?: Json }> }
  >
}
interface Document {
  openapi: string
  paths: Record<string, Record<string, Operation>>
  components: Json
}

let document: Document
test.beforeAll(async ({ request }) => {
  document = await (await request.get('/swagger/json')).json()
})

const operations = () =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      path,
      at: `${method.toUpperCase()} ${path}`,
      operation,
    })),
  )

/** Every object in the document, with the way to it. */
function* objectsIn(value: unknown, at = '#'): Generator<[string, Json]> {
  if (typeof value !== 'object' || value === null) return
  if (!Array.isArray(value)) yield [at, value as Json]
  for (const [key, inner] of Object.entries(value)) yield* objectsIn(inner, `${at}/${key}`)
}

test('it is OpenAPI 3.1 and describes every endpoint of this service @versioning.v1', () => {
  expect(document.openapi).toMatch(/^3\.1\.\d$/)
  const pipeline = '/pipelines/{ns}/{layer}/{name}'
  const zone = '/landing-zones/{ns}/{name}'
  const table = '/tables/{ns}/{layer}/{name}'
  const expected: Record<string, string> = {
    '/audit': 'get',
    '/features': 'get',
    '/namespaces': 'get post',
    '/namespaces/{name}': 'put delete',
    '/pipelines': 'get post',
    [pipeline]: 'get put delete',
    [`${pipeline}/publish`]: 'post',
    [`${pipeline}/versions`]: 'get',
    [`${pipeline}/versions/{number}`]: 'get',
    [`${pipeline}/rollback`]: 'post',
    [`${pipeline}/tests`]: 'get post',
    [`${pipeline}/tests/{testName}`]: 'delete',
    [`${pipeline}/tests/run`]: 'post',
    '/files': 'get',
    '/files/{path}': 'get put delete',
    '/files/upload': 'post',
    '/landing-zones': 'get post',
    [zone]: 'get put delete',
    [`${zone}/files`]: 'get post',
    [`${zone}/files/{id}`]: 'get delete',
    [`${zone}/lifecycle`]: 'get put',
    [`${zone}/samples`]: 'get post',
    [`${zone}/samples/{filename}`]: 'delete',
    '/runs': 'get post',
    '/runs/{id}': 'get',
    '/runs/{id}/cancel': 'post',
    '/runs/{id}/logs': 'get',
    '/query': 'post',
    '/schema': 'get',
    '/tables': 'get',
    [table]: 'get',
    [`${table}/preview`]: 'get',
    [`${table}/metadata`]: 'put',
  }
  const missing = Object.entries(expected).flatMap(([path, methods]) =>
    methods
      .split(' ')
      .filter((method) => !document.paths[`/api/v1${path}`]?.[method])
      .map((method) => `${method} ${path}`),
  )
  expect(missing).toEqual([])
  for (const path of ['/health', '/health/live', '/health/ready', '/metrics'])
    expect(document.paths[path]).toHaveProperty('get')
})

test('every operation has an id of its own, a summary, a tag and described answers', () => {
  const ids = operations().map(({ operation }) => operation.operationId)
  expect(new Set(ids).size).toBe(ids.length)
  for (const { at, operation } of operations()) {
    expect(operation.operationId, at).toMatch(/^[A-Za-z][A-Za-z0-9]*$/)
    expect(operation.summary, at).toBeTruthy()
    expect(operation.tags, at).toHaveLength(1)
    const successes = Object.keys(operation.responses).filter((status) => status.startsWith('2'))
    expect(successes.length, at).toBeGreaterThan(0)
    for (const [status, response] of Object.entries(operation.responses)) {
      if (response.$ref) continue
      expect(response.description, `${at} ${status}`).toBeTruthy()
      if (status === '204' || status === '304') expect(response.content, `${at} ${status}`).toBeUndefined()
      else
        for (const media of Object.values(response.content ?? { none: {} }))
          expect(media.schema, `${at} ${status}`).toBeTruthy()
    }
  }
})

test('errors of the API are the envelope @errors.envelope', () => {
  for (const { path, at, operation } of operations().filter(({ path }) => path.startsWith('/api/v1'))) {
    expect(operation.responses.default, at).toEqual({ $ref: '#/components/responses/Error' })
    for (const [status, response] of Object.entries(operation.responses)) {
      // The specification gives a refused publish a body of its own.
      if (!/^[45]/.test(status) || (status === '422' && path.endsWith('/publish'))) continue
      const schema = response.content?.['application/json']?.schema
      expect(schema, `${at} ${status}`).toEqual({ $ref: '#/components/schemas/Error' })
    }
  }
})

test('the parameters of a path are declared, and no others', () => {
  for (const { path, at, operation } of operations()) {
    const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
    const declared = (operation.parameters ?? []).filter((parameter) => parameter.in === 'path')
    expect(declared.map(({ name }) => name).sort(), at).toEqual(inPath.sort())
    for (const parameter of declared) expect(parameter.required, `${at} ${parameter.name}`).toBe(true)
    for (const parameter of operation.parameters ?? [])
      expect(parameter.schema, `${at} ${parameter.name}`).toBeTruthy()
  }
})

test('every body has a schema, and uploads are forms', () => {
  for (const { at, operation } of operations()) {
    for (const [type, { schema }] of Object.entries(operation.requestBody?.content ?? {})) {
      expect(schema, at).toBeTruthy()
      const isForm = /Upload(File|LandingFile)"/.test(JSON.stringify(schema))
      expect(type, at).toBe(isForm ? 'multipart/form-data' : 'application/json')
    }
  }
})

const FOREIGN = ['nullable', 'example', 'patternProperties', 'documented', '$id', '$defs']

test('every reference leads somewhere, and schemas have the keywords of 3.1', () => {
  const problems: string[] = []
  for (const [at, object] of objectsIn(document)) {
    if (typeof object.$ref === 'string' && !at.endsWith('/properties') && !resolves(object.$ref))
      problems.push(`${at}: ${object.$ref} leads nowhere`)
    // The keys under `properties` are names of fields.
    if (at.endsWith('/properties') || !isSchema(at)) continue
    for (const keyword of FOREIGN)
      if (keyword in object) problems.push(`${at}: ${keyword} is not a keyword of schemas in 3.1`)
    if (object.type === 'array' && !('items' in object)) problems.push(`${at}: the array has no items`)
  }
  expect(problems).toEqual([])
})

/** Media types and parameters may have an `example`. */
const isSchema = (at: string) =>
  /^#\/components\/schemas\/\w|\/(content\/.+|parameters\/\d+)\/schema(\/|$)/.test(at) &&
  !/\/examples?(\/|$)/.test(at)

test('every resource is a component that answers refer to', () => {
  const inline = operations().flatMap(({ at, operation }) =>
    Object.entries(operation.responses).flatMap(([status, { content }]) => {
      const schema = content?.['application/json']?.schema
      const refers = schema === undefined || '$ref' in schema || '$ref' in ((schema.items ?? {}) as Json)
      return refers ? [] : [`${at} ${status}`]
    }),
  )
  expect(inline).toEqual([])
})

test('the operations have the names that a person would choose', () => {
  const names = operations().map(({ operation }) => operation.operationId ?? '')
  expect(names).toEqual(expect.arrayContaining(['publishPipeline', 'listRuns', 'getRun', 'cancelRun']))
  expect(names.filter((name) => !/^[a-z]+([A-Z][a-z]+)+$/.test(name) || name.includes('By'))).toEqual([])
})

test('numbers are integers, choices are enums, and a config belongs to its type', () => {
  const parameter = (path: string, name: string) => {
    const found = document.paths[path]?.get?.parameters?.find((one) => one.name === name)?.schema ?? {}
    const { $ref } = found
    const component = typeof $ref === 'string' ? $ref.split('/').at(-1) : undefined
    return component === undefined ? found : ((document.components.schemas as Json)[component] as Json)
  }
  const runs = '/api/v1/runs'
  expect(parameter(runs, 'limit')).toMatchObject({ type: 'integer', minimum: 1, maximum: 200 })
  expect(parameter(runs, 'offset')).toMatchObject({ type: 'integer', minimum: 0 })
  expect(parameter(runs, 'order').enum).toEqual(['asc', 'desc'])
  expect(parameter(runs, 'sort').enum).toContain('started_at')
  expect(parameter(runs, 'status').enum).toContain('cancelled')
  const { schemas } = document.components as { schemas: Record<string, Json> }
  for (const name of ['Trigger', 'CreateTrigger']) {
    expect(schemas[name]?.oneOf, name).toHaveLength(6)
    expect(schemas[name]?.discriminator, name).toMatchObject({ propertyName: 'type' })
  }
  const { properties } = schemas.CreateCronTrigger as { properties: Record<string, Json> }
  expect(properties.type?.const).toBe('cron')
  expect(properties.config).toEqual({ $ref: '#/components/schemas/CronConfig' })
})

test('event streams and uploads are described', () => {
  const logs = document.paths['/api/v1/runs/{id}/logs']?.get?.responses['200']?.content
  expect(JSON.stringify(logs?.['text/event-stream']?.schema)).toContain('#/components/schemas/LogEntry')
  const form = document.paths['/api/v1/files/upload']?.post?.requestBody?.content['multipart/form-data']
  expect(form?.schema).toEqual({ $ref: '#/components/schemas/UploadFile' })
  const { UploadFile } = document.components.schemas as Record<string, { properties: Record<string, Json> }>
  expect(UploadFile?.properties.file).toMatchObject({ type: 'string', format: 'binary' })
})

const resolves = (reference: string) =>
  reference
    .slice(2)
    .split('/')
    .reduce<unknown>((value, key) => (value as Json | undefined)?.[key], document) !== undefined
