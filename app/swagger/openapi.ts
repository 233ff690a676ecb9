// Generates the OpenAPI document from the schemas that check the routes. Only this file uses
// @elysiajs/swagger, which writes the paths. Parameters, bodies and responses are written here, because the
// plugin supports neither references nor OpenAPI 3.1.

import assert from 'node:assert/strict'
import { filterPaths, registerSchemaPath } from '@elysiajs/swagger/utils'
import { KindGuard, type TSchema, Type as t } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { AnyElysia } from 'elysia'
import { DESCRIBED, type Described } from '../core/documented.ts'
import { ErrorBody } from '../core/names.ts'
import { documentedPath } from '../wire/route-table.ts'
import {
  ANY_ERROR,
  commonErrors,
  DESCRIPTIONS,
  errorResponse,
  type Failing,
  isErrorStatus,
} from './errors.ts'
import { exampleOf } from './example.ts'
import { isJsonObject, type Json, makeSchemaWriter, type SchemaWriter } from './schema.ts'
import { inOrderOfTags, tagsInOrder } from './tags.ts'

type InternalRoute = AnyElysia['routes'][number]

interface DocumentInput {
  routes: readonly InternalRoute[]
  version: string
  /** Accepted credentials: keys, access tokens, either of them, or none. */
  hasKeys: boolean
  hasTokens: boolean
  /** The right that a route needs in the Pro edition; undefined for a route without an access rule. */
  neededRight(method: string, pattern: string): string | undefined
}

const WEBHOOK_SCHEMES = {
  WebhookToken: { type: 'apiKey', in: 'header', name: 'X-Webhook-Token' },
  WebhookBearer: { type: 'http', scheme: 'bearer', description: 'The token of a webhook' },
}

/** OpenAPI 3.1.0. Addresses are relative to the server that the document was read from. */
export function openApiDocument({ routes, version, hasKeys, hasTokens, neededRight }: DocumentInput): Json {
  const schemas = makeSchemaWriter()
  schemas.write(ErrorBody)
  const registered: Parameters<typeof registerSchemaPath>[0]['schema'] = {}
  for (const route of routes)
    registerSchemaPath({
      schema: registered,
      path: route.path.replace(/\*$/, ':path'),
      method: route.method,
      models: {},
      hook: {
        detail: { ...operationOf(route, schemas), ...accessOf(neededRight(route.method, route.path)) },
      },
    })
  const paths: Json = filterPaths(registered, { excludeStaticFile: false, exclude: [] })
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sluice',
      version,
      description:
        'A data-pipeline platform service: a run is a pull request for data. Errors share one envelope, `{error: {code, type, message}}`. `x-access` of an operation names the right that it needs in the Pro edition.',
      license: { name: 'Apache License 2.0', identifier: 'Apache-2.0' },
      contact: { name: 'The maintainers of Sluice' },
    },
    servers: [{ url: '/', description: 'The server that returned this document' }],
    security: [...(hasKeys ? [{ ApiKey: [] }] : []), ...(hasTokens ? [{ AccessToken: [] }] : [])],
    tags: tagsInOrder(routes),
    paths: inOrderOfTags(paths, routes),
    components: {
      securitySchemes: {
        ...(hasKeys ? { ApiKey: { type: 'apiKey', in: 'header', name: 'X-Api-Key' } } : {}),
        ...(hasTokens ? { AccessToken: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } } : {}),
        ...WEBHOOK_SCHEMES,
      },
      schemas: schemas.components(),
      responses: { Error: ANY_ERROR },
    },
  }
}

const accessOf = (right: string | undefined): Json => (right === undefined ? {} : { 'x-access': right })

function operationOf(route: InternalRoute, schemas: SchemaWriter): Json {
  const { [DESCRIBED]: shown = {}, ...detail }: Json = route.hooks.detail ?? {}
  const { params, query, headers, body, form, events }: Described & { headers?: TSchema } = {
    ...route.hooks,
    ...(isJsonObject(shown) ? shown : {}),
  }
  const isApi = route.path.startsWith('/api/')
  const parameters = [
    ...parametersOf('header', headers, schemas),
    ...parametersOf('path', withWildcard(route.path, params), schemas),
    ...parametersOf('query', query, schemas),
  ]
  const isForm = form !== undefined || hasFile(body)
  const requestBody = isForm
    ? { required: true, content: { 'multipart/form-data': { schema: schemas.write(form ?? body) } } }
    : body && { required: isBodyNeeded(body), content: jsonContent(body, schemas, 'request') }
  const failing: Failing = {
    operationId: String(detail.operationId),
    path: documentedPath(route.path),
    isWrite: route.method !== 'GET',
    needsIdentity: detail.security === undefined,
    body: body && !isForm ? (schemas.resolve(schemas.write(body)) as Json) : null,
    isForm,
    parameters: Object.fromEntries(parameters.map(({ name, example }) => [String(name), example])),
  }
  return {
    tags: route.hooks.tags,
    ...detail,
    ...(isApi ? {} : { security: [] }),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(requestBody ? { requestBody } : {}),
    responses: responsesOf(route.hooks.response, { failing, events, schemas, isApi }),
  }
}

function responsesOf(
  declared: Record<string, TSchema> | undefined,
  {
    failing,
    events,
    schemas,
    isApi,
  }: { failing: Failing; events?: TSchema; schemas: SchemaWriter; isApi: boolean },
): Json {
  const responses: Json = {}
  for (const status of commonErrors(failing)) responses[status] = errorResponse(`${status}`, failing)
  for (const [status, schema] of Object.entries(declared ?? {})) {
    if (schema.title === ErrorBody.title && isErrorStatus(status)) {
      responses[status] = errorResponse(status, failing)
      continue
    }
    const description = DESCRIPTIONS[status]
    assert(
      description !== undefined,
      `status ${status} has no description: add it to DESCRIPTIONS in app/swagger/errors.ts`,
    )
    if (schema.type === 'void') responses[status] = { description }
    else {
      const content =
        schema.type === 'string' ? textContent(schema, schemas) : jsonContent(schema, schemas, 'answer')
      // Last, because the page requests the first media type by default.
      if (events && status === '200') content['text/event-stream'] = { schema: schemas.write(events) }
      responses[status] = { description, content }
    }
  }
  if (isApi) responses.default = { $ref: '#/components/responses/Error' }
  return responses
}

function jsonContent(schema: TSchema, schemas: SchemaWriter, of: 'request' | 'answer'): Json {
  const written = schemas.write(schema)
  return { 'application/json': { schema: written, example: exampleOf(written, schemas.resolve, of) } }
}

/** The schema of a text names its media type. */
function textContent(schema: TSchema, schemas: SchemaWriter): Json {
  const { contentMediaType = 'text/plain' } = schema
  return { [String(contentMediaType)]: { schema: schemas.write(schema) } }
}

/** A missing body is read as an empty object, so a body is optional if its schema accepts that object. */
const isBodyNeeded = (schema: TSchema) => !KindGuard.IsSchema(schema) || !Value.Check(schema, {})

function parametersOf(
  location: 'header' | 'path' | 'query',
  schema: TSchema | undefined,
  schemas: SchemaWriter,
): Json[] {
  const required: unknown[] = schema?.required ?? []
  return Object.entries(schema?.properties ?? {}).map(([name, field]): Json => {
    const written = schemas.write(field)
    const resolved = schemas.resolve(written)
    const { description, examples } = isJsonObject(resolved) ? resolved : {}
    const example = Array.isArray(examples) ? examples[0] : undefined
    const { description: _, examples: __, ...bare } = written
    return {
      in: location,
      name,
      required: required.includes(name),
      ...(description === undefined ? {} : { description }),
      ...(example === undefined ? {} : { example }),
      schema: bare,
    }
  })
}

/** `*` has no name in an OpenAPI path, and the framework cannot check it as a parameter. */
const withWildcard = (path: string, params: TSchema | undefined): TSchema | undefined =>
  path.endsWith('*') ? FILE_PATH : params

const FILE_PATH = t.Object({
  path: t.String({
    description: 'Path in the object store, starting with a namespace',
    examples: ['default/pipelines/silver/flights/pipeline.sql'],
  }),
})

const hasFile = (body: TSchema | undefined) =>
  Object.values(body?.properties ?? {}).some((field) => isJsonObject(field) && field.format === 'binary')
