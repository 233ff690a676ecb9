// The OpenAPI document is complete enough for Swagger UI to execute every route.
import { expect, test } from '@playwright/test'
import { getJson } from '../kit/resources.ts'

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
  document = await getJson(request, '/swagger/json')
})

const operations = () =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      path,
      at: `${method.toUpperCase()} ${path}`,
      operation,
    })),
  )

test('the OpenAPI 3.1 document describes every endpoint of the service @versioning.v1', () => {
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

test('documented API errors use the error envelope @errors.envelope', () => {
  for (const { path, at, operation } of operations().filter(({ path }) => path.startsWith('/api/v1'))) {
    expect(operation.responses.default, at).toEqual({ $ref: '#/components/responses/Error' })
    for (const [status, response] of Object.entries(operation.responses)) {
      // The specification defines a separate body for a refused publish.
      if (!/^[45]/.test(status) || (status === '422' && path.endsWith('/publish'))) continue
      const schema = response.content?.['application/json']?.schema
      // A refused merge or rebase has its reasons beside the envelope.
      const name = status === '409' && /\/(merge|rebase)$/.test(path) ? 'MergeRefused' : 'Error'
      expect(schema, `${at} ${status}`).toEqual({ $ref: `#/components/schemas/${name}` })
      expect(document.components).toMatchObject({
        schemas: {
          [name]: {
            required: ['error'],
            properties: { error: { $ref: '#/components/schemas/ErrorDetail' } },
          },
        },
      })
    }
  }
})
