// Helpers that the tests of pipelines, files, zones and quality tests share. Names are new with every run, so that a service
// can be tested twice.
import { type APIRequestContext, type APIResponse, expect } from '@playwright/test'
import { eventually } from './eventually.ts'

const run = `${Date.now().toString(36)}${process.pid.toString(36)}`
let freshNames = 0

/** `prefix` with a suffix that no other run and no other call has. */
export const fresh = (prefix: string) => `${prefix}-${run}-${freshNames++}`

/** Expects exactly `{error: {code, type, message}}`, with this status and its code and type. */
export async function expectError(
  response: APIResponse,
  status: keyof typeof MEANING,
  message: RegExp | string = /./,
): Promise<void> {
  const body = await response.json()
  expect(response.headers()['content-type']).toContain('application/json')
  expect([response.status(), body]).toEqual([
    status,
    {
      error: {
        ...MEANING[status],
        message: typeof message === 'string' ? message : expect.stringMatching(message),
      },
    },
  ])
}

const MEANING = {
  400: { code: 'INVALID_ARGUMENT', type: 'VALIDATION' },
  404: { code: 'NOT_FOUND', type: 'NOT_FOUND' },
  405: { code: 'INVALID_ARGUMENT', type: 'VALIDATION' },
  409: { code: 'ALREADY_EXISTS', type: 'CONFLICT' },
  412: { code: 'ALREADY_EXISTS', type: 'CONFLICT' },
  413: { code: 'INVALID_ARGUMENT', type: 'VALIDATION' },
  500: { code: 'INTERNAL', type: 'INTERNAL' },
  501: { code: 'UNAVAILABLE', type: 'UNAVAILABLE' },
  503: { code: 'UNAVAILABLE', type: 'UNAVAILABLE' },
  507: { code: 'UNAVAILABLE', type: 'UNAVAILABLE' },
} as const

interface Readiness {
  status: string
  services: Record<string, string>
  details: Record<string, string>
  engines: { runner?: string; query?: string }
  python: { sandbox: string; version: string } | null
}
const READY_LIMIT_MS = 120_000

/** Waits until all parts are well and returns the report. A busy part may once answer too late. */
export async function readiness(request: APIRequestContext) {
  let found: Readiness | undefined
  await expect(async () => {
    const response = await request.get('/health/ready')
    found = await response.json()
    expect([response.status(), found]).toMatchObject([200, { status: 'ok' }])
  }).toPass({ timeout: READY_LIMIT_MS })
  return found as Readiness
}

/** The sandbox of Python pipelines; null where they cannot run. Fails if `REQUIRE_PYTHON` is set and they cannot run. */
export async function pythonOf(request: APIRequestContext): Promise<Readiness['python']> {
  const python = async () => (await readiness(request)).python
  if (process.env.REQUIRE_PYTHON) await eventually(python).not.toBeNull()
  return python()
}

export interface AuditEntry {
  id: string
  user_id: string
  action: string
  resource: string
  detail: string
  ip: string
  peer: string
  status: number
  key: string
  count: number
  created_at: string
}

/**
 * Entries whose resource matches, newest first, among the last `among` entries. Other tests add hundreds of entries meanwhile.
 */
export async function auditOf(
  request: APIRequestContext,
  isMeant: (resource: string) => boolean = () => true,
  among = 1_000,
): Promise<AuditEntry[]> {
  const found = new Map<string, AuditEntry>()
  for (let offset = 0; offset < among; offset += 200) {
    const response = await request.get('/api/v1/audit', { params: { limit: 200, offset } })
    expect(response.status()).toBe(200)
    const entries: AuditEntry[] = await response.json()
    for (const entry of entries) if (isMeant(entry.resource)) found.set(entry.id, entry)
    if (entries.length < 200) break
  }
  return [...found.values()]
}

/** Makes a namespace, so that lists hold only what the test creates. */
export async function newNamespace(request: APIRequestContext): Promise<string> {
  const name = fresh('e2e')
  expect((await request.post('/api/v1/namespaces', { data: { name } })).status()).toBe(201)
  return name
}

/** SQL that executes until its run is cancelled, however long a test observes it. */
export const ENDLESS = 'select max(hash(x.range, y.range)) as a from range(1000000) x, range(1000000) y'

export interface MadePipeline {
  namespace: string
  layer: string
  name: string
  /** Prefix of the pipeline's files, with a `/` at the end. */
  prefix: string
  /** `/api/v1/pipelines/...` */
  url: string
}

export async function newPipeline(
  request: APIRequestContext,
  data: { namespace?: string; layer?: string; name?: string; [field: string]: unknown } = {},
): Promise<MadePipeline> {
  const named = { namespace: 'default', layer: 'bronze', name: fresh('p'), ...data }
  const response = await request.post('/api/v1/pipelines', { data: named })
  expect([response.status(), await response.json()]).toEqual([201, expect.anything()])
  const { namespace, layer, name } = named
  return {
    namespace,
    layer,
    name,
    prefix: `${namespace}/pipelines/${layer}/${name}/`,
    url: `/api/v1/pipelines/${namespace}/${layer}/${name}`,
  }
}

export async function writeFile(request: APIRequestContext, path: string, content: string): Promise<string> {
  const response = await request.put(`/api/v1/files/${path}`, { data: { content } })
  expect([response.status(), await response.json()]).toEqual([200, expect.anything()])
  return (await response.json()).version_id
}

/** Makes a pipeline whose draft has this source. */
export async function pipelineWith(
  request: APIRequestContext,
  source: string,
  data: Parameters<typeof newPipeline>[1] = {},
): Promise<MadePipeline> {
  const pipeline = await newPipeline(request, data)
  await writeFile(request, `${pipeline.prefix}pipeline.${data.type === 'python' ? 'py' : 'sql'}`, source)
  return pipeline
}

export async function publishedPipeline(
  request: APIRequestContext,
  sql = 'select 1 as a',
  data: Parameters<typeof newPipeline>[1] = {},
): Promise<MadePipeline> {
  const pipeline = await pipelineWith(request, sql, { layer: 'gold', ...data })
  await publish(request, pipeline)
  return pipeline
}

export async function publish(request: APIRequestContext, { url }: Pick<MadePipeline, 'url'>) {
  const published = await request.post(`${url}/publish`)
  expect([published.status(), await published.text()]).toEqual([200, expect.anything()])
}

/** Adds a quality test to a pipeline's draft. */
export async function addTest(
  request: APIRequestContext,
  { url }: Pick<MadePipeline, 'url'>,
  test: { name: string; severity: 'error' | 'warn'; sql: string },
) {
  expect((await request.post(`${url}/tests`, { data: test })).status()).toBe(201)
}

/** A file as a field of a form. */
export const csv = (name = 'a.csv', content: string | Buffer = 'a,b\n1,2\n') => ({
  name,
  mimeType: 'text/csv',
  buffer: Buffer.from(content),
})

export async function newZone(request: APIRequestContext, namespace = 'default', name = fresh('zone')) {
  const response = await request.post('/api/v1/landing-zones', { data: { namespace, name } })
  expect(response.status()).toBe(201)
  const url = `/api/v1/landing-zones/${namespace}/${name}`
  const post = async (to: 'files' | 'samples', file: string, content?: string | Buffer) => {
    const uploaded = await request.post(`${url}/${to}`, { multipart: { file: csv(file, content) } })
    expect(uploaded.status()).toBe(201)
    return uploaded.json()
  }
  return {
    namespace,
    name,
    url,
    /** Prefix of the zone's files, with a `/` at the end. */
    prefix: `${namespace}/landing/${name}/`,
    /** Configuration of a trigger on this zone. */
    config: { namespace, zone_name: name },
    upload: (file: string, content?: string | Buffer) => post('files', file, content),
    uploadSample: (file: string, content?: string | Buffer) => post('samples', file, content),
  }
}

/** The rows of a query that must succeed. */
export async function rowsOf(request: APIRequestContext, sql: string, namespace?: string) {
  const response = await request.post('/api/v1/query', { data: { sql, namespace } })
  expect(response.status(), await response.text()).toBe(200)
  return (await response.json()).rows
}

/** The body of an answer that must be 200. */
export async function getJson(
  request: APIRequestContext,
  url: string,
  params?: Record<string, string | number>,
) {
  const response = await request.get(url, { params })
  expect([url, response.status()]).toEqual([url, 200])
  return response.json()
}

export const MAX_UPLOAD_BYTES = 33_554_432
export const TOO_LARGE = /^file too large \(max 32MB\)$/
export const instant = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
export const uuid = expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/)
