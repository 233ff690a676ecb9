// Error statuses of the OpenAPI document: those that an operation may return beside its own, with an example of each.
import { type RouteStatus, TYPE_OF } from '../core/errors.ts'
import { isJsonObject, type Json } from './schema.ts'

/** The properties of an operation that determine its errors. */
export interface Failing {
  operationId: string
  /** As the document writes it: `/api/v1/runs/{id}`. */
  path: string
  isWrite: boolean
  /** The webhook has a token of its own, so it needs no key. */
  needsIdentity: boolean
  /** The resolved schema of its JSON body; null: the operation has no JSON body. */
  body: Json | null
  isForm: boolean
  /** Example values of the parameters, by name. */
  parameters: Record<string, unknown>
}

export const isErrorStatus = (status: string): status is `${RouteStatus}` => status in TYPE_OF

/** Statuses that the service returns before and beside the handler of the operation. */
export function commonErrors({ path, body, isForm, needsIdentity }: Failing): RouteStatus[] {
  // A malformed address or Host header is refused everywhere.
  if (!path.startsWith('/api/')) return [400]
  return [
    400,
    ...(needsIdentity ? ([401] as const) : []),
    403,
    // A file can be written whether or not its path exists.
    ...(path.replace('{path}', '').includes('{') ? ([404] as const) : []),
    ...(body !== null || isForm ? ([413] as const) : []),
    429,
    500,
    503,
  ]
}

/** A response with the error envelope and an example message of this operation. */
export function errorResponse(status: `${RouteStatus}`, failing: Failing): Json {
  const error = { code: CODES[status], type: TYPE_OF[status], message: messageOf(status, failing) }
  return {
    description: DESCRIPTIONS[status],
    content: { 'application/json': { schema: ERROR, example: { error } } },
  }
}

const ERROR = { $ref: '#/components/schemas/Error' }

/** For statuses that a later version may add. */
export const ANY_ERROR: Json = {
  description: 'Any other error, in the same envelope',
  content: { 'application/json': { schema: ERROR } },
}

export const DESCRIPTIONS: Record<string, string> = {
  '200': 'Done',
  '201': 'Created',
  '202': 'Accepted',
  '204': 'Done; the response has no body',
  '304': 'The client has the current version',
  '400': 'A field, a parameter or a header is missing or wrong; the message names it',
  '401': 'Credentials are missing or wrong',
  '403': 'The caller lacks the permission, or a page of another site sent the request',
  '404': 'The resource does not exist, or the caller may not see it',
  '405': 'The path does not support this method',
  '409': 'The resource already exists, or its state forbids the operation',
  '412': 'The file has another version than the request names',
  '413': 'The body is too large',
  '422': 'The request is well-formed, but its content is not valid',
  '429': 'Too many requests; `Retry-After` is the number of seconds to wait',
  '500': 'An unexpected error',
  '501': 'Not available in this edition',
  '503': 'A dependency, such as a runner or the query service, does not respond',
  '507': 'The disk has too little free space; nothing is stored',
}

const CODES: Record<RouteStatus, string> = {
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
  507: 'UNAVAILABLE',
}

/** Messages that only one operation has. */
const OWN_MESSAGES: Record<string, Partial<Record<RouteStatus, string>>> = {
  createPipeline: { 409: 'pipeline default.silver.flights already exists' },
  publishPipeline: { 409: 'Idempotency-Key: was already used with another request: send a new key' },
  createRun: {
    404: 'pipeline default.gold.route_delays not found',
    409: 'Idempotency-Key: was already used with another request: send a new key',
  },
  cancelRun: { 409: 'run 0198f0c2-7a4e-7c1b-9d0a-5b1f6c2e8d43 has already ended' },
  getRunLogs: { 429: 'too many open event streams: close one, or retry in 5 s' },
  createQualityTest: { 409: 'test no-null-keys already exists' },
  callWebhook: { 404: 'no webhook has this token', 429: 'the trigger is cooling down: retry in 42 s' },
  createSchedule: { 404: 'pipeline default.silver.flights not found' },
  uploadFile: { 409: 'Idempotency-Key: was already used with another request: send a new key' },
  writeFile: { 413: 'file too large (max 32MB)' },
  createLandingZone: { 409: 'landing zone default.flights already exists' },
  uploadLandingFile: { 409: 'Idempotency-Key: was already used with another request: send a new key' },
  uploadSample: { 409: 'Idempotency-Key: was already used with another request: send a new key' },
  createNamespace: { 409: 'namespace air-traffic already exists' },
  deleteNamespace: { 403: 'namespace default cannot be deleted' },
  runRetention: { 503: 'the reaper is not available' },
  createBranch: {
    403: 'write permission on a namespace required: ask the owner of one',
    409: 'branch or tag late-flights already exists',
  },
  createTag: {
    403: 'write permission on a namespace required: ask the owner of one',
    409: 'branch or tag year-end already exists',
  },
  deleteTag: { 403: 'tag year-end belongs to another user: ask its creator or an administrator' },
  deleteBranch: {
    403: 'branch main is protected: it cannot be deleted',
    409: 'branch late-flights has unfinished runs: cancel them or wait for their end',
  },
  createGrant: { 404: 'pipeline 0198f0c2-7a4e-7c1b-9d0a-5b1f6c2e8d43 not found' },
  transferPipeline: { 404: 'pipeline 0198f0c2-7a4e-7c1b-9d0a-5b1f6c2e8d43 not found' },
  listAuditEntries: { 404: 'audit log not found' },
  followInstances: { 429: 'too many open event streams: close one, or retry in 5 s' },
  followInstance: { 429: 'too many open event streams: close one, or retry in 5 s' },
  executeQuery: { 503: 'query service is not available' },
  getSchema: { 503: 'query service is not available' },
  previewTable: { 503: 'query service is not available' },
  updateTableMetadata: { 503: 'metadata store is not available' },
  previewPipeline: { 503: 'runner is not available' },
  runQualityTests: { 503: 'runner is not available' },
}

function messageOf(status: `${RouteStatus}`, failing: Failing): string {
  const own = OWN_MESSAGES[failing.operationId]?.[status]
  if (own !== undefined) return own
  switch (status) {
    case '400':
      return problemOf(failing)
    case '401':
      return 'X-Api-Key header is missing'
    case '403':
      return rightOf(failing)
    case '404':
      return `${missingThing(failing)} not found`
    case '405':
      return 'method PATCH is not allowed: use GET, HEAD, OPTIONS'
    case '409':
      return 'the resource already exists'
    case '412':
      return 'the file does not match the condition of the request: read its current version'
    case '413':
      return failing.isForm ? 'file too large (max 32MB)' : 'body too large (max 1MiB)'
    case '422':
      return 'the template is not valid'
    case '429':
      return 'too many requests'
    case '500':
      return 'internal error'
    case '501':
      return 'sharing is not available in the community edition'
    case '503':
      return 'a dependency of the service is not available: retry in 5 s'
    case '507':
      return 'not enough disk space: 12 MB of disk space are free, and DISK_FLOOR is 1024 MB; free some space and send the request again'
  }
}

/** The 403 message of a rule of the Pro edition (app/access/rules.ts). */
function rightOf({ path, isWrite }: Failing): string {
  if (path.includes('/admin/')) return 'administrator role required'
  if (!isWrite) return 'refused by the authentication plugin: ask the operator for access'
  const resource = path.includes('/files/{path}')
    ? 'the pipeline, landing zone or namespace of the file'
    : path.includes('/landing-zones/')
      ? 'the landing zone'
      : path.includes('/namespaces')
        ? 'the namespace'
        : 'the pipeline'
  return `write permission on ${resource} required: ask its owner`
}

/** The validation message for a request without its first field, or with a field of the wrong kind. */
function problemOf({ body, isForm, parameters }: Failing): string {
  if (isForm) return 'file: is required'
  const [required] = Array.isArray(body?.required) ? body.required : []
  if (required !== undefined) return `${required}: is required`
  const [field] = isJsonObject(body?.properties) ? Object.keys(body.properties) : []
  if (field !== undefined) return `${field}: is not valid`
  if ('order' in parameters) return 'order: must be one of asc, desc'
  return 'query: is not valid percent-encoding'
}

/** By a part of the path, the most specific part first. */
const KINDS: [part: string, kind: string][] = [
  ['/triggers/{id}', 'trigger'],
  ['/tests/{testName}', 'test'],
  ['/versions/{number}', 'version'],
  ['/samples/{filename}', 'sample'],
  ['/files/{id}', 'file'],
  ['/files/{path}', 'file'],
  ['/instances/{id}', 'run'],
  ['/landing-zones', 'landing zone'],
  ['/pipelines', 'pipeline'],
  ['/tables', 'table'],
  ['/runs', 'run'],
  ['/schedules', 'schedule'],
  ['/namespaces', 'namespace'],
  ['/branches', 'branch'],
  ['/tags', 'tag'],
  ['/sharing', 'grant'],
]

/** The resource that the path names, with the values of its example. */
function missingThing({ path, parameters }: Failing): string {
  const [part = '', kind = 'resource'] = KINDS.find(([part]) => path.includes(part)) ?? []
  const name = /\{(\w+)\}$/.exec(part)?.[1]
  const names = name === undefined ? ['ns', 'layer', 'name', 'id'] : [name]
  return `${kind} ${names.flatMap((parameter) => (parameter in parameters ? [parameters[parameter]] : [])).join('.')}`
}
