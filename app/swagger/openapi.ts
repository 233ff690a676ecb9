// The document, from the schemas the routes are checked by. The one file that knows @elysiajs/swagger: the plugin writes
// the operations, and what it writes is brought from JSON Schema to OpenAPI 3.0 (its schemas are neither).

import { filterPaths, registerSchemaPath } from '@elysiajs/swagger/utils'
import { KindGuard } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { AnyElysia } from 'elysia'
import { type ErrorStatus, TYPE_OF } from '../http/errors.ts'
import { ErrorBody } from '../http/names.ts'
import { documentedPath } from '../http/route-table.ts'
import { exampleOf } from './example.ts'
import { isJsonObject, type Json, toOpenApiSchema } from './schema.ts'

type InternalRoute = AnyElysia['routes'][number]

export interface DocumentInput {
  routes: readonly InternalRoute[]
  version: string
  /** What opens the API: its keys, access tokens, either of them, or nothing is needed. */
  hasKeys: boolean
  hasTokens: boolean
}

/** OpenAPI 3.0.3, with addresses relative to the server it was read from. */
export function openApiDocument({ routes, version, hasKeys, hasTokens }: DocumentInput): Json {
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
    const operations = paths[documentedPath(route.path)]
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
    security: [...(hasKeys ? [{ ApiKey: [] }] : []), ...(hasTokens ? [{ AccessToken: [] }] : [])],
    tags: tagsInOrder(routes),
    paths: inOrderOfTags(paths, routes),
    components: {
      securitySchemes: {
        ApiKey: { type: 'apiKey', in: 'header', name: 'X-Api-Key' },
        AccessToken: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
        WebhookToken: { type: 'apiKey', in: 'header', name: 'X-Webhook-Token' },
        WebhookBearer: { type: 'http', scheme: 'bearer' },
      },
      schemas: { Error: toOpenApiSchema(ErrorBody) },
      responses: {
        Error: { description: 'The error envelope', content: errorContent(null) },
      },
    },
  }
}

/** What people come for first stands first; a tag that is not listed comes after these. */
const TAGS = new Map([
  ['pipelines', 'Transformations in SQL or Python, their versions and previews'],
  ['runs', 'Executions of pipelines, with their logs'],
  ['quality tests', 'Assertions that gate a run'],
  ['triggers', 'What starts runs by itself'],
  ['schedules', 'The older way to run by the clock'],
  ['query', 'Read-only SQL about the tables'],
  ['tables', 'What pipelines have written'],
  ['files', 'Source files of pipelines'],
  ['landing zones', 'Where raw files are dropped'],
  ['namespaces', 'What everything is organised by'],
  ['lineage', 'Which pipeline reads and writes what'],
  ['retention', 'How long things are kept'],
  ['sharing', 'Access of others, in the Pro edition'],
  ['audit', 'Who has changed what'],
  ['features', 'What this installation can do'],
  ['health', 'Whether it works'],
  ['inspector', 'The states of runs, drafts and triggers'],
])

function tagsInOrder(routes: readonly InternalRoute[]): Json[] {
  const used = new Set(routes.flatMap(tagsOf))
  return [...new Set([...TAGS.keys(), ...used])]
    .filter((name) => used.has(name))
    .map((name) => ({ name, ...(TAGS.has(name) ? { description: TAGS.get(name) } : {}) }))
}

/** Paths as their tags are ordered, so that the document reads as the page shows it. */
function inOrderOfTags(paths: Json, routes: readonly InternalRoute[]): Json {
  const order = tagsInOrder(routes).map(({ name }) => name)
  const place = new Map<string, number>()
  for (const route of routes) {
    const at = documentedPath(route.path)
    if (!place.has(at)) place.set(at, order.indexOf(tagsOf(route)[0]))
  }
  const placeOf = (path: string) => place.get(path) ?? order.length
  return Object.fromEntries(Object.entries(paths).toSorted(([a], [b]) => placeOf(a) - placeOf(b)))
}

/** The envelope, with an example of what it holds with this status. */
function errorContent(status: ErrorStatus | null) {
  const schema = { $ref: '#/components/schemas/Error' }
  if (status === null) return { 'application/json': { schema } }
  const error = { code: CODES[status], type: TYPE_OF[status], message: MESSAGES[status] }
  return { 'application/json': { schema, example: { error } } }
}
const isErrorStatus = (status: number): status is ErrorStatus => status in TYPE_OF

const errorResponseOf = (status: string) => ({
  description: DESCRIPTIONS[status] ?? 'Refused',
  content: errorContent(isErrorStatus(Number(status)) ? (Number(status) as ErrorStatus) : null),
})

/** What the plugin leaves out or gets wrong. */
/** No body is read as an empty one. Forms have no schema, and are needed. */
const isBodyNeeded = (schema: unknown) => !KindGuard.IsSchema(schema) || !Value.Check(schema, {})

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
            required: isBodyNeeded(route.hooks.body),
            content: withExamples(
              contentOf(requestBody, isForm ? 'multipart/form-data' : 'application/json'),
            ),
          },
        }
      : {}),
    responses: {
      ...(isApi ? commonErrors(route, { takesBody: isJsonObject(requestBody) }) : {}),
      ...responsesOf(responses, route),
      ...(isApi ? { default: { $ref: '#/components/responses/Error' } } : {}),
    },
    ...(isApi ? {} : { security: [] }),
  }
}

/** What the service answers before and beside any route of the API; the route's own declarations come on top. */
function commonErrors({ path }: InternalRoute, { takesBody }: { takesBody: boolean }): Json {
  const statuses = ['400', '401', '403', '429', '500', '503']
  if (path.includes(':')) statuses.push('404')
  if (takesBody) statuses.push('413')
  return Object.fromEntries(statuses.map((status) => [status, errorResponseOf(status)]))
}

function responsesOf(responses: unknown, route: InternalRoute): Json {
  if (!isJsonObject(responses)) return {}
  return Object.fromEntries(
    Object.entries(responses).map(([status, response]) => {
      if (!isJsonObject(response)) return [status, response]
      const described = { description: DESCRIPTIONS[status] ?? 'Done' }
      if (!isJsonObject(response.content)) return [status, described]
      // The plugin moves what it does not know of a schema, its title too, up to the response.
      if (response.title === ErrorBody.title) return [status, errorResponseOf(status)]
      const content = contentOf(response, 'application/json')
      const json = content['application/json']
      if (isJsonObject(json)) json.example = exampleOf(json.schema, 'answer')
      // Last: the page asks for the first one unless its reader chooses.
      if (status === '200' && isEventStream(route)) Object.assign(content, EVENT_STREAM)
      return [status, { ...described, content }]
    }),
  )
}

const EVENT_STREAM = { 'text/event-stream': { schema: { type: 'string' } } }
/** Routes that answer with events to who accepts them say so with `x-event-stream`. */
const isEventStream = ({ hooks }: InternalRoute) =>
  isJsonObject(hooks.detail) && hooks.detail['x-event-stream'] === true

/** The plugin writes one content type; a text answer and a form have their own. */
function contentOf({ content }: Json, mediaType: string): Json {
  if (!isJsonObject(content)) return {}
  return Object.fromEntries(
    Object.entries(content).map(([given, entry]) => {
      const schema = isJsonObject(entry) ? toOpenApiSchema(entry.schema) : {}
      const isText = given === 'application/json' && isJsonObject(schema) && schema.type === 'string'
      return [given === 'application/json' ? (isText ? textType(schema) : mediaType) : given, { schema }]
    }),
  )
}

/** What has a default may be left out of a request, whatever the check of the filled-in body demands. */
function withoutDefaults(schema: unknown): unknown {
  if (!isJsonObject(schema) || !Array.isArray(schema.required) || !isJsonObject(schema.properties))
    return schema
  const { required, ...rest } = schema
  const { properties } = schema
  const needed = required.filter((name) => {
    const field = properties[String(name)]
    return !isJsonObject(field) || field.default === undefined
  })
  return needed.length > 0 ? { ...rest, required: needed } : rest
}

/** A body that can be sent as it stands. A form shows its fields one by one, each with its own example. */
const withExamples = (content: Json): Json =>
  Object.fromEntries(
    Object.entries(content).map(([type, entry]) => [
      type,
      type === 'application/json' && isJsonObject(entry)
        ? {
            ...entry,
            schema: withoutDefaults(entry.schema),
            example: exampleOf(withoutDefaults(entry.schema)),
          }
        : entry,
    ]),
  )

/** A text answer that is described by a media type has that one. */
const textType = ({ description }: Json) =>
  typeof description === 'string' && /^[a-z]+\/[a-z0-9.+-]+$/.test(description) ? description : 'text/plain'

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

/** `*` has no name of its own in an OpenAPI path, and none that the framework could check as a parameter. */
const namedWildcard = (path: string, params: unknown): unknown =>
  path.endsWith('*')
    ? {
        type: 'object',
        properties: {
          path: {
            type: 'string',
            description: 'Path in the object store, starting with a namespace',
            examples: ['default/pipelines/silver/flights/pipeline.sql'],
          },
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

const CODES: Record<ErrorStatus, string> = {
  400: 'INVALID_ARGUMENT',
  401: 'AUTHENTICATION',
  403: 'AUTHORIZATION',
  404: 'NOT_FOUND',
  405: 'INVALID_ARGUMENT',
  409: 'ALREADY_EXISTS',
  412: 'ALREADY_EXISTS',
  413: 'INVALID_ARGUMENT',
  422: 'INVALID_ARGUMENT',
  429: 'RATE_LIMITED',
  500: 'INTERNAL',
  501: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
}
const MESSAGES: Record<ErrorStatus, string> = {
  400: 'name: is required',
  401: 'credentials are missing or wrong',
  403: 'this needs another permission',
  404: 'pipeline default.silver.flights not found',
  405: 'PATCH is not allowed here',
  409: 'pipeline default.silver.flights already exists',
  412: 'the file is not, or no longer, what the request expects',
  413: 'file too large (max 32MB)',
  422: 'the template is not valid',
  429: 'too many requests',
  500: 'internal error',
  501: 'sharing is not available in the community edition',
  503: 'runner is not available',
}
