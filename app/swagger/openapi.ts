// The document, from the schemas the routes are checked by. The one file that knows @elysiajs/swagger: the plugin writes
// the operations, and what it writes is brought from JSON Schema to OpenAPI 3.0 (its schemas are neither).

import { filterPaths, registerSchemaPath } from '@elysiajs/swagger/utils'
import { OptionalKind } from '@sinclair/typebox'
import type { AnyElysia } from 'elysia'
import { ErrorBody } from '../http/names.ts'
import { isJsonObject, type Json, toOpenApiSchema } from './schema.ts'

type InternalRoute = AnyElysia['routes'][number]

export interface DocumentInput {
  routes: readonly InternalRoute[]
  version: string
  /** Whether the API asks for a key. */
  locked: boolean
}

/** OpenAPI 3.0.3, with addresses relative to the server it was read from. */
export function openApiDocument({ routes, version, locked }: DocumentInput): Json {
  const registered: Parameters<typeof registerSchemaPath>[0]['schema'] = {}
  for (const route of routes) {
    const path = route.path.replace(/\*$/, ':path')
    registerSchemaPath({
      schema: registered,
      path,
      method: route.method,
      models: {},
      hook: {
        ...route.hooks,
        params: namedWildcard(route.path, route.hooks.params),
        parse: ['application/json'],
      },
    })
  }
  const paths: Json = filterPaths(registered, { excludeStaticFile: false, exclude: [] })
  for (const route of routes) {
    const operations = paths[openApiPath(route.path)]
    const method = route.method.toLowerCase()
    if (!isJsonObject(operations)) continue
    const operation = operations[method]
    if (isJsonObject(operation)) operations[method] = mended(operation, route)
  }
  return {
    openapi: '3.0.3',
    info: {
      title: 'Sluice',
      version,
      description:
        'A data-pipeline platform service: a run is a pull request for data. Errors share one envelope, `{error: {code, type, message}}`.',
    },
    servers: [{ url: '/' }],
    security: locked ? [{ ApiKey: [] }] : [],
    tags: [...new Set(routes.flatMap(tagsOf))].map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: {
        ApiKey: { type: 'apiKey', in: 'header', name: 'X-Api-Key' },
        WebhookToken: { type: 'apiKey', in: 'header', name: 'X-Webhook-Token' },
        WebhookBearer: { type: 'http', scheme: 'bearer' },
      },
      schemas: { Error: toOpenApiSchema(ErrorBody) },
      responses: {
        Error: { description: 'The error envelope', content: ERROR_CONTENT },
      },
    },
  }
}

const ERROR_CONTENT = { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } }

/** What the plugin leaves out or gets wrong. */
function mended(operation: Json, route: InternalRoute): Json {
  const isForm = hasFile(route.hooks.body)
  const { requestBody, responses, parameters, ...rest } = operation
  const isApi = route.path.startsWith('/api/')
  return {
    ...rest,
    operationId: operationId(route),
    ...(Array.isArray(parameters) && parameters.length > 0
      ? { parameters: parameters.map(parameterOf) }
      : {}),
    ...(isJsonObject(requestBody)
      ? {
          requestBody: {
            required: !(isJsonObject(route.hooks.body) && OptionalKind in route.hooks.body),
            content: contentOf(requestBody, isForm ? 'multipart/form-data' : 'application/json'),
          },
        }
      : {}),
    responses: {
      ...responsesOf(responses),
      ...(isApi ? { default: { $ref: '#/components/responses/Error' } } : {}),
    },
    ...(isApi ? {} : { security: [] }),
  }
}

function responsesOf(responses: unknown): Json {
  if (!isJsonObject(responses)) return {}
  return Object.fromEntries(
    Object.entries(responses).map(([status, response]) => {
      if (!isJsonObject(response)) return [status, response]
      const described = { description: DESCRIPTIONS[status] ?? 'Done' }
      if (!isJsonObject(response.content)) return [status, described]
      // The plugin moves what it does not know of a schema, its title too, up to the response.
      if (response.title === ErrorBody.title) return [status, { ...described, content: ERROR_CONTENT }]
      return [status, { ...described, content: contentOf(response, 'application/json') }]
    }),
  )
}

/** The plugin writes one content type; a text answer and a form have their own. */
function contentOf({ content }: Json, mediaType: string): Json {
  if (!isJsonObject(content)) return {}
  return Object.fromEntries(
    Object.entries(content).map(([given, entry]) => {
      const schema = isJsonObject(entry) ? toOpenApiSchema(entry.schema) : {}
      const isText = given === 'application/json' && isJsonObject(schema) && schema.type === 'string'
      return [given === 'application/json' ? (isText ? 'text/plain' : mediaType) : given, { schema }]
    }),
  )
}

function parameterOf(parameter: unknown): unknown {
  if (!isJsonObject(parameter)) return parameter
  const { examples, schema, ...rest } = parameter
  return {
    ...rest,
    ...(Array.isArray(examples) ? { example: examples[0] } : {}),
    schema: toOpenApiSchema(schema),
  }
}

/** `GET /api/v1/runs/:id/logs` is `getRunsByIdLogs`. */
const operationId = ({ method, path }: InternalRoute) =>
  method.toLowerCase() +
  path
    .replace(/^\/api\/v1/, '')
    .replace('*', ':path')
    .split(/[/.-]/)
    .map((word) => (word.startsWith(':') ? `By${capitalized(word.slice(1))}` : capitalized(word)))
    .join('')

const capitalized = (word: string) => word.charAt(0).toUpperCase() + word.slice(1)

const openApiPath = (path: string) => path.replace(/\*$/, ':path').replace(/:(\w+)/g, '{$1}')

/** `*` has no name of its own in an OpenAPI path, and none that the framework could check as a parameter. */
const namedWildcard = (path: string, params: unknown): unknown =>
  path.endsWith('*')
    ? {
        type: 'object',
        properties: {
          path: { type: 'string', description: 'Path in the object store, starting with a namespace' },
        },
        required: ['path'],
      }
    : params

const hasFile = (body: unknown) =>
  isJsonObject(body) &&
  isJsonObject(body.properties) &&
  Object.values(body.properties).some((field) => isJsonObject(field) && field.format === 'binary')

const tagsOf = ({ hooks }: InternalRoute): string[] => hooks.detail?.tags ?? []

const DESCRIPTIONS: Record<string, string> = {
  '200': 'Done',
  '201': 'Created',
  '202': 'Accepted',
  '204': 'Done, with nothing to say',
  '304': 'The reader has the present version',
  '400': 'A field is missing or wrong; the message names it',
  '401': 'Credentials are missing or wrong',
  '403': 'Not allowed',
  '404': 'There is no such thing',
  '409': 'It exists already, or its state forbids this',
  '412': 'It is not, or no longer, the version that the request names',
  '413': 'Too large',
  '422': 'Well-formed, but wrong in meaning',
  '429': 'Too many requests',
  '500': 'An unexpected error',
  '501': 'Not available in this edition',
  '503': 'A dependency does not answer',
}
