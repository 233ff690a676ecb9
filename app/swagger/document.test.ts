// Tests the OpenAPI document as a whole, in its committed form. A check keeps that file equal to the routes.
import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv } from 'ajv'
import type { Json } from './schema.ts'

interface Content {
  [mediaType: string]: { schema: Json; example?: unknown }
}
interface Operation {
  operationId?: string
  summary?: string
  tags?: string[]
  parameters?: { name: string; in: string; schema: Json; example?: unknown }[]
  requestBody?: { content: Content }
  responses: Record<string, { description?: string; content?: Content }>
}

const PATH = join(import.meta.dirname, '..', '..', 'docs', 'openapi.json')
const document: Json & { components: Json; paths: Record<string, Record<string, Operation>> } =
  await Bun.file(PATH).json()
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    name: `${method.toUpperCase()} ${path}`,
    ...operation,
  })),
)
const isApi = ({ name }: { name: string }) => name.includes(' /api/v1/')

test('the document is valid OpenAPI 3.1', async () => {
  const validator = new Validator()
  const { valid, errors } = await validator.validate(structuredClone(document))
  expect(errors).toBeUndefined()
  expect([valid, validator.version]).toEqual([true, '3.1'])
})

test('no schema within another one has the generated name of a component', () => {
  // Generators name such a schema after its component and field. Two schemas of one name leave the client without both.
  const components = document.components.schemas as Record<string, { properties?: Record<string, Json> }>
  const generated = Object.entries(components).flatMap(([title, { properties }]) =>
    Object.entries(properties ?? {})
      .filter(([, schema]) => 'enum' in schema || schema.type === 'object')
      .map(([field]) => `${title}_${field}`.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase())),
  )
  expect(generated.length).toBeGreaterThan(0)
  expect(generated.filter((name) => name in components)).toEqual([])
})

describe('every operation', () => {
  test('every operation has a summary, one tag and a unique id', () => {
    expect(operations.length).toBeGreaterThan(70)
    const without = operations.filter(({ summary, tags, operationId }) => {
      return !summary || tags?.length !== 1 || !operationId
    })
    expect(without.map(({ name }) => name)).toEqual([])
    expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(operations.length)
  })

  test('every JSON body and response has an example that its schema accepts', () => {
    const ajv = new Ajv({ strict: false, validateFormats: false })
    // Compiles each component once.
    ajv.addSchema({ $id: 'document', components: document.components })
    const within = (schema: Json): Json =>
      JSON.parse(JSON.stringify(schema).replaceAll('"#/components', '"document#/components'))
    const problems: string[] = []
    const check = (where: string, content: Content = {}) => {
      const json = content['application/json']
      if (json === undefined) return
      if (json.example === undefined) problems.push(`${where}: no example`)
      else if (!ajv.validate(within(json.schema), json.example))
        problems.push(`${where}: ${ajv.errorsText()} in ${JSON.stringify(json.example)}`)
    }
    for (const { name, requestBody, responses } of operations) {
      check(`${name} body`, requestBody?.content)
      for (const [status, { content }] of Object.entries(responses))
        if (status !== 'default') check(`${name} ${status}`, content)
    }
    expect(problems).toEqual([])
  })

  test('every response has a description', () => {
    for (const { name, responses } of operations)
      for (const [status, response] of Object.entries(responses))
        if (status !== 'default')
          expect([name, status, typeof response.description]).toEqual([name, status, 'string'])
  })

  test('every operation declares the errors that the specification lists', () => {
    const missing = operations.filter(isApi).flatMap(({ name, responses }) => {
      const own = name === 'POST /api/v1/webhooks' ? [] : [401]
      const errors = [...ANY, ...own, ...(ERRORS[name.replace('/api/v1', '')] ?? [])]
      return errors.filter((status) => !(status in responses)).map((status) => `${name} ${status}`)
    })
    expect(missing).toEqual([])
    const names = new Set(operations.map(({ name }) => name.replace('/api/v1', '')))
    expect(Object.keys(ERRORS).filter((name) => !names.has(name))).toEqual([])
  })
})

const ANY = [400, 403, 429, 500, 503, 'default']
const PIPELINE = '/pipelines/{ns}/{layer}/{name}'
const TABLE = '/tables/{ns}/{layer}/{name}'
const ZONE = '/landing-zones/{ns}/{name}'
/** By operation, as the specification lists them in its part on endpoints. */
const ERRORS: Record<string, number[]> = {
  'POST /pipelines': [400, 409],
  [`GET ${PIPELINE}`]: [404],
  [`PUT ${PIPELINE}`]: [400, 403, 404],
  [`DELETE ${PIPELINE}`]: [403, 404],
  [`POST ${PIPELINE}/preview`]: [400, 404, 503],
  [`POST ${PIPELINE}/publish`]: [404, 422],
  [`GET ${PIPELINE}/versions`]: [404],
  [`GET ${PIPELINE}/versions/{number}`]: [400, 404],
  [`POST ${PIPELINE}/rollback`]: [400, 404],
  'POST /runs': [400, 404],
  'GET /runs/{id}': [404],
  'POST /runs/{id}/cancel': [404, 409],
  'GET /runs/{id}/logs': [404],
  'POST /query': [400, 500, 503],
  'GET /schema': [500, 503],
  'GET /tables': [500, 503],
  [`GET ${TABLE}`]: [404, 500, 503],
  [`GET ${TABLE}/preview`]: [404, 500, 503],
  [`PUT ${TABLE}/metadata`]: [400, 404, 503],
  'GET /files': [400],
  'GET /files/{path}': [404, 500],
  'PUT /files/{path}': [400, 500],
  'DELETE /files/{path}': [500],
  'POST /files/upload': [400, 413],
  'POST /landing-zones': [400, 409],
  [`GET ${ZONE}`]: [404],
  [`PUT ${ZONE}`]: [400, 404],
  [`DELETE ${ZONE}`]: [404],
  [`GET ${ZONE}/files`]: [404],
  [`POST ${ZONE}/files`]: [400, 404, 413],
  [`GET ${ZONE}/files/{id}`]: [404],
  [`DELETE ${ZONE}/files/{id}`]: [404],
  [`GET ${ZONE}/samples`]: [404],
  [`POST ${ZONE}/samples`]: [400, 404, 413],
  [`DELETE ${ZONE}/samples/{filename}`]: [404],
  [`GET ${ZONE}/lifecycle`]: [404],
  [`PUT ${ZONE}/lifecycle`]: [400, 404],
  [`GET ${PIPELINE}/triggers`]: [404],
  [`POST ${PIPELINE}/triggers`]: [400, 404],
  [`GET ${PIPELINE}/triggers/{id}`]: [404],
  [`PUT ${PIPELINE}/triggers/{id}`]: [400, 404],
  [`DELETE ${PIPELINE}/triggers/{id}`]: [404],
  'POST /schedules': [400, 404],
  'GET /schedules/{id}': [404],
  'PUT /schedules/{id}': [400, 404],
  'DELETE /schedules/{id}': [404],
  [`GET ${PIPELINE}/tests`]: [404],
  [`POST ${PIPELINE}/tests`]: [400, 404, 409],
  [`DELETE ${PIPELINE}/tests/{testName}`]: [404],
  [`POST ${PIPELINE}/tests/run`]: [404, 503],
  'POST /namespaces': [400, 409],
  'PUT /namespaces/{name}': [400, 404],
  'DELETE /namespaces/{name}': [403, 404],
  'PUT /admin/retention/config': [400],
  'POST /admin/retention/run': [503],
  [`GET ${PIPELINE}/retention`]: [404],
  [`PUT ${PIPELINE}/retention`]: [400, 404],
  'POST /webhooks': [400, 404, 429],
  'POST /sharing': [400, 401, 403, 404, 501],
  'GET /sharing': [400, 401, 501],
  'DELETE /sharing/{id}': [401, 403, 404, 501],
  'POST /sharing/transfer': [400, 401, 403, 404, 501],
  'GET /audit': [404],
}
