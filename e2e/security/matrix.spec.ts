// Attack classes: function-level and object-level authorization. Every kind of caller calls every documented route, on
// resources on which the caller has exactly one right. Specification: Access grant, Errors.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@playwright/test'
import { fresh } from '../resources.ts'
import { type Caller, type ProService, startProService } from './pro-service.ts'

type Right = 'none' | 'read' | 'write' | 'admin'
const LEVEL: Record<Right, number> = { none: 0, read: 1, write: 2, admin: 3 }

/** Rights of a caller on a pipeline and a zone (`thing`), on their namespace (`space`), and on the installation. */
interface Role {
  thing: Right
  space: Right
  isAdministrator?: boolean
  /** Owners may transfer a resource and revoke grants that others gave. */
  isOwner?: boolean
}

const ROLES: Record<string, Role> = {
  stranger: { thing: 'none', space: 'none' },
  reader: { thing: 'read', space: 'none' },
  writer: { thing: 'write', space: 'none' },
  'admin grantee': { thing: 'admin', space: 'none' },
  owner: { thing: 'admin', space: 'none', isOwner: true },
  'namespace reader': { thing: 'read', space: 'read' },
  'namespace writer': { thing: 'write', space: 'write' },
  'namespace admin': { thing: 'admin', space: 'admin' },
  'namespace owner': { thing: 'admin', space: 'admin' },
  administrator: { thing: 'admin', space: 'admin', isAdministrator: true, isOwner: true },
  'API key': { thing: 'admin', space: 'admin', isAdministrator: true, isOwner: true },
}

/** Resources on which the rights of a caller are known. */
interface PluginResources {
  namespace: string
  pipeline: string
  pipelineId: string
  zone: string
  fileId: string
  runId: string
  scheduleId: string
  triggerId: string
  grantId: string
}

type Expected = 'anybody' | 'administrators' | 'owners' | { of: 'thing' | 'space'; needs: Right }
const thing = (needs: Right): Expected => ({ of: 'thing', needs })
const space = (needs: Right): Expected => ({ of: 'space', needs })

interface MatrixRequest {
  expected: Expected
  path?: (things: PluginResources) => string
  body?: (things: PluginResources) => object | FormData
  /** The resource does not exist here. A permitted caller gets that answer; any other caller is still refused. */
  isAbsent?: boolean
}

const form = () => {
  const data = new FormData()
  data.set('file', new File(['a,b\n1,2\n'], 'a.csv'))
  return data
}
const formTo = (path: string) => {
  const data = new FormData()
  data.set('path', path)
  data.set('file', new File(['x'], 'up.txt'))
  return data
}

const P = '/api/v1/pipelines/{ns}/{layer}/{name}'
const Z = '/api/v1/landing-zones/{ns}/{name}'
const T = '/api/v1/tables/{ns}/{layer}/{name}'
const I = '/api/v1/inspector/{machine}'
const inZone = (rest = '') => ({
  path: ({ namespace, zone }: PluginResources) => `/api/v1/landing-zones/${namespace}/${zone}${rest}`,
})
const grantTo =
  (grantee: string) =>
  ({ pipelineId }: PluginResources) => ({
    grantee_id: grantee,
    resource_type: 'pipeline',
    resource_id: pipelineId,
    permission: 'read',
  })
const fileOfPipeline = {
  path: ({ namespace, pipeline }: PluginResources) =>
    `/api/v1/files/${namespace}/pipelines/bronze/${pipeline}/notes.md`,
}

/** Routes and the callers who may use them, in the order of the requests: deletions come last. */
const ROUTES: Record<string, MatrixRequest> = {
  'GET /api/v1/features': { expected: 'anybody' },
  'GET /api/v1/audit': { expected: 'administrators' },
  'GET /api/v1/namespaces': { expected: 'anybody' },
  'POST /api/v1/namespaces': { expected: 'anybody', body: () => ({ name: fresh('made') }) },
  'GET /api/v1/namespaces/{name}': { expected: space('read') },
  'PUT /api/v1/namespaces/{name}': { expected: space('write'), body: () => ({ description: 'x' }) },
  'GET /api/v1/pipelines': { expected: 'anybody' },
  'POST /api/v1/pipelines': {
    expected: space('write'),
    body: ({ namespace }) => ({ namespace, layer: 'gold', name: fresh('made') }),
  },
  [`GET ${P}`]: { expected: thing('read') },
  [`PUT ${P}`]: { expected: thing('write'), body: () => ({ description: 'x' }) },
  [`GET ${P}/versions`]: { expected: thing('read') },
  [`POST ${P}/publish`]: { expected: thing('write'), body: () => ({ message: 'x' }) },
  [`GET ${P}/versions/{number}`]: { expected: thing('read') },
  [`POST ${P}/rollback`]: { expected: thing('write'), body: () => ({ version: 1 }) },
  [`POST ${P}/preview`]: { expected: thing('write'), body: () => ({ code: 'select 1 as a' }) },
  [`GET ${P}/tests`]: { expected: thing('read') },
  [`POST ${P}/tests`]: {
    expected: thing('write'),
    body: () => ({ name: fresh('made'), sql: 'select 1', severity: 'warn' }),
  },
  [`POST ${P}/tests/run`]: { expected: thing('write') },
  [`GET ${P}/triggers`]: { expected: thing('read') },
  [`POST ${P}/triggers`]: {
    expected: thing('write'),
    body: ({ namespace, zone }) => ({
      type: 'landing_zone_upload',
      config: { namespace, zone_name: zone },
    }),
  },
  [`GET ${P}/triggers/{id}`]: { expected: thing('read') },
  [`PUT ${P}/triggers/{id}`]: { expected: thing('write'), body: () => ({ enabled: true }) },
  [`GET ${P}/retention`]: { expected: thing('read') },
  [`PUT ${P}/retention`]: { expected: thing('write'), body: () => ({}) },
  'GET /api/v1/branches': { expected: 'anybody' },
  'POST /api/v1/branches': { expected: 'anybody', body: () => ({ name: fresh('branch') }) },
  'GET /api/v1/branches/{branch}': { expected: 'anybody' },
  'GET /api/v1/branches/{branch}/commits': { expected: 'anybody' },
  'GET /api/v1/branches/{branch}/diff': { expected: 'anybody' },
  'GET /api/v1/branches/{branch}/diff/{ns}/{layer}/{name}': { expected: thing('read') },
  'POST /api/v1/branches/{branch}/merge': {
    expected: 'anybody',
    path: () => '/api/v1/branches/absent/merge',
    body: () => ({}),
    isAbsent: true,
  },
  'POST /api/v1/branches/{branch}/rebase': {
    expected: 'anybody',
    path: () => '/api/v1/branches/absent/rebase',
    isAbsent: true,
  },
  'DELETE /api/v1/branches/{branch}': {
    expected: 'anybody',
    path: () => '/api/v1/branches/absent',
    isAbsent: true,
  },
  'GET /api/v1/tags': { expected: 'anybody' },
  'POST /api/v1/tags': { expected: 'anybody', body: () => ({ name: fresh('tag') }) },
  'DELETE /api/v1/tags/{name}': { expected: 'anybody', path: () => '/api/v1/tags/absent', isAbsent: true },
  'GET /api/v1/commits': { expected: 'anybody' },
  [`GET ${T}/history`]: { expected: thing('read'), isAbsent: true },
  [`POST ${T}/restore`]: { expected: thing('write'), body: () => ({ commit: 1 }), isAbsent: true },
  'GET /api/v1/runs': { expected: 'anybody' },
  'POST /api/v1/runs': {
    expected: thing('write'),
    body: ({ namespace, pipeline }) => ({ namespace, layer: 'bronze', pipeline }),
  },
  'GET /api/v1/runs/{id}': { expected: thing('read') },
  'GET /api/v1/runs/{id}/logs': { expected: thing('read') },
  'GET /api/v1/runs/{id}/tests': { expected: thing('read') },
  'GET /api/v1/runs/{id}/inputs': { expected: thing('read') },
  'GET /api/v1/runs/{id}/diff': { expected: thing('read') },
  'GET /api/v1/runs/{id}/diff/rows': { expected: thing('read') },
  'GET /api/v1/schedules': { expected: 'anybody' },
  'POST /api/v1/schedules': {
    expected: thing('write'),
    body: ({ namespace, pipeline }) => ({ namespace, layer: 'bronze', pipeline, cron: '0 6 * * *' }),
  },
  'GET /api/v1/schedules/{id}': { expected: thing('read') },
  'PUT /api/v1/schedules/{id}': { expected: thing('write'), body: () => ({ enabled: false }) },
  'GET /api/v1/landing-zones': { expected: 'anybody' },
  'POST /api/v1/landing-zones': {
    expected: space('write'),
    body: ({ namespace }) => ({ namespace, name: fresh('made') }),
  },
  [`GET ${Z}`]: { expected: thing('read'), ...inZone() },
  [`PUT ${Z}`]: { expected: thing('write'), ...inZone(), body: () => ({ description: 'x' }) },
  [`GET ${Z}/files`]: { expected: thing('read'), ...inZone('/files') },
  [`POST ${Z}/files`]: { expected: thing('write'), ...inZone('/files'), body: form },
  [`GET ${Z}/files/{id}`]: {
    expected: thing('read'),
    path: (things) => `${inZone('/files').path(things)}/${things.fileId}`,
  },
  [`GET ${Z}/files/{id}/content`]: {
    expected: thing('read'),
    path: (things) => `${inZone('/files').path(things)}/${things.fileId}/content`,
  },
  [`GET ${Z}/samples`]: { expected: thing('read'), ...inZone('/samples') },
  [`POST ${Z}/samples`]: { expected: thing('write'), ...inZone('/samples'), body: form },
  [`GET ${Z}/reads`]: { expected: thing('read'), ...inZone('/reads') },
  [`GET ${Z}/schema`]: { expected: thing('read'), ...inZone('/schema') },
  [`GET ${Z}/lifecycle`]: { expected: thing('read'), ...inZone('/lifecycle') },
  [`PUT ${Z}/lifecycle`]: {
    expected: thing('write'),
    ...inZone('/lifecycle'),
    body: () => ({ auto_purge: false }),
  },
  'GET /api/v1/files': { expected: 'anybody', path: ({ namespace }) => `/api/v1/files?prefix=${namespace}/` },
  'POST /api/v1/files/upload': {
    expected: thing('write'),
    body: ({ namespace, pipeline }) => formTo(`${namespace}/pipelines/bronze/${pipeline}/up.txt`),
  },
  'PUT /api/v1/files/{path}': { expected: thing('write'), ...fileOfPipeline, body: () => ({ content: 'x' }) },
  'GET /api/v1/files/{path}': { expected: thing('read'), ...fileOfPipeline },
  'POST /api/v1/query': { expected: 'anybody', body: () => ({ sql: 'select 1' }) },
  'GET /api/v1/schema': { expected: 'anybody' },
  'GET /api/v1/tables': { expected: 'anybody' },
  // Without a query service, a permitted caller gets 500 for a table.
  [`GET ${T}`]: { expected: thing('read') },
  [`GET ${T}/preview`]: { expected: thing('read') },
  [`GET ${T}/files`]: { expected: thing('read') },
  [`GET ${T}/statistics`]: { expected: thing('read') },
  [`PUT ${T}/metadata`]: { expected: thing('write'), body: () => ({ description: 'x' }), isAbsent: true },
  'GET /api/v1/lineage': { expected: 'anybody' },
  'GET /api/v1/attention': { expected: 'anybody' },
  'GET /api/v1/inspector/machines': { expected: 'anybody' },
  'GET /api/v1/inspector/machines/run.svg': { expected: 'anybody' },
  'GET /api/v1/inspector/machines/draft.svg': { expected: 'anybody' },
  'GET /api/v1/inspector/machines/trigger.svg': { expected: 'anybody' },
  [`GET ${I}/instances`]: { expected: 'anybody' },
  [`GET ${I}/events`]: { expected: 'anybody' },
  [`GET ${I}/instances/{id}`]: { expected: thing('read') },
  [`GET ${I}/instances/{id}/events`]: { expected: thing('read') },
  [`GET ${I}/instances/{id}/export.json`]: { expected: thing('read') },
  [`GET ${I}/instances/{id}/export.svg`]: { expected: thing('read') },
  'GET /api/v1/admin/replicas': { expected: 'administrators' },
  'GET /api/v1/admin/retention/config': { expected: 'administrators' },
  'PUT /api/v1/admin/retention/config': { expected: 'administrators', body: () => ({}) },
  'GET /api/v1/admin/retention/status': { expected: 'administrators' },
  'POST /api/v1/admin/retention/run': { expected: 'administrators' },
  'POST /api/v1/sharing': { expected: thing('admin'), body: grantTo('somebody') },
  'GET /api/v1/sharing': {
    expected: 'anybody',
    path: ({ pipelineId }) => `/api/v1/sharing?resource_type=pipeline&resource_id=${pipelineId}`,
  },
  'DELETE /api/v1/sharing/{id}': {
    expected: 'owners',
    path: ({ grantId }) => `/api/v1/sharing/${grantId}`,
  },
  'POST /api/v1/sharing/transfer': {
    expected: 'owners',
    // The owner stays the same, so that later routes find the same rights.
    body: ({ pipelineId }) => ({ resource_type: 'pipeline', resource_id: pipelineId, to_user_id: 'OWNER' }),
  },
  'POST /api/v1/runs/{id}/cancel': { expected: thing('write') },
  'POST /api/v1/runs/{id}/approve': { expected: thing('write') },
  'POST /api/v1/runs/{id}/reject': { expected: thing('write'), body: () => ({ message: 'no' }) },
  'DELETE /api/v1/schedules/{id}': { expected: thing('write') },
  [`DELETE ${P}/triggers/{id}`]: { expected: thing('write') },
  [`DELETE ${P}/tests/{testName}`]: { expected: thing('write') },
  [`POST ${Z}/files/{id}/quarantine`]: {
    expected: thing('write'),
    path: (things) => `${inZone('/files').path(things)}/${things.fileId}/quarantine`,
  },
  [`DELETE ${Z}/files/{id}/quarantine`]: {
    expected: thing('write'),
    path: (things) => `${inZone('/files').path(things)}/${things.fileId}/quarantine`,
  },
  [`DELETE ${Z}/files/{id}`]: {
    expected: thing('write'),
    path: (things) => `${inZone('/files').path(things)}/${things.fileId}`,
  },
  [`DELETE ${Z}/samples/{filename}`]: { expected: thing('write'), ...inZone('/samples/sample.csv') },
  'DELETE /api/v1/files/{path}': { expected: thing('write'), ...fileOfPipeline },
  [`DELETE ${Z}`]: { expected: thing('admin'), ...inZone() },
  [`DELETE ${P}`]: { expected: thing('admin') },
  'DELETE /api/v1/namespaces/{name}': { expected: space('admin') },
}

/** Routes of the OpenAPI document that accept a credential of ours. */
function documented(): string[] {
  const text = readFileSync(join(import.meta.dirname, '../../docs/openapi.json'), 'utf8')
  const { paths }: { paths: Record<string, Record<string, { security?: object[] }>> } = JSON.parse(text)
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).flatMap(([method, { security }]) =>
      security === undefined ? [`${method.toUpperCase()} ${path}`] : [],
    ),
  )
}

let service: ProService
test.beforeAll(async () => {
  service = await startProService()
})
test.afterAll(async () => {
  await service?.stop()
})

/**
 * Makes a namespace with a pipeline, a zone and everything that belongs to them. `subject` gets exactly the rights of the role.
 */
async function prepare(name: string, role: Role, subject: string): Promise<PluginResources> {
  const { root, must } = service
  const [namespace, pipeline, zone] = [fresh('space'), fresh('pipe'), fresh('zone')]
  const spaceOwner = name === 'namespace owner' ? service.user(subject) : root
  const space = await must(201, spaceOwner, 'POST', '/api/v1/namespaces', { name: namespace })
  const createdPipeline = await must(201, root, 'POST', '/api/v1/pipelines', {
    namespace,
    layer: 'bronze',
    name: pipeline,
  })
  const zoneMade = await must(201, root, 'POST', '/api/v1/landing-zones', { namespace, name: zone })
  const at = `/api/v1/pipelines/${namespace}/bronze/${pipeline}`
  const zoneAt = `/api/v1/landing-zones/${namespace}/${zone}`
  await must(201, root, 'POST', `${at}/tests`, { name: 'fixed', sql: 'select 1', severity: 'warn' })
  await must(200, root, 'POST', `${at}/publish`, {})
  const run = await must(202, root, 'POST', '/api/v1/runs', { namespace, layer: 'bronze', pipeline })
  const schedule = await must(201, root, 'POST', '/api/v1/schedules', {
    namespace,
    layer: 'bronze',
    pipeline,
    cron: '0 6 * * *',
  })
  const trigger = await must(201, root, 'POST', `${at}/triggers`, {
    type: 'cron',
    config: { cron_expr: '0 6 * * *' },
  })
  const file = await service.ask(root, 'POST', `${zoneAt}/files`, form())
  const sample = new FormData()
  sample.set('file', new File(['a\n1\n'], 'sample.csv'))
  await service.ask(root, 'POST', `${zoneAt}/samples`, sample)
  const notes = `/api/v1/files/${namespace}/pipelines/bronze/${pipeline}/notes.md`
  await must(200, root, 'PUT', notes, { content: 'x' })
  const grant = (type: string, id: unknown, permission: Right, grantee = subject) =>
    must(201, root, 'POST', '/api/v1/sharing', {
      grantee_id: grantee,
      resource_type: type,
      resource_id: id,
      permission,
    })
  const otherGrant = await grant('pipeline', createdPipeline.id, 'read', 'somebody-else')
  if (name === 'owner') {
    await must(200, root, 'PUT', at, { owner: subject })
    await must(200, root, 'PUT', zoneAt, { owner: subject })
  } else if (name !== 'namespace owner' && role.space !== 'none' && !role.isAdministrator) {
    await grant('namespace', space.id, role.space)
  } else if (role.space === 'none' && role.thing !== 'none') {
    await grant('pipeline', createdPipeline.id, role.thing)
    await grant('landing_zone', zoneMade.id, role.thing)
  }
  return {
    namespace,
    pipeline,
    zone,
    pipelineId: String(createdPipeline.id),
    fileId: String((file.json as { id?: unknown }).id),
    runId: String(run.run_id),
    scheduleId: String(schedule.id),
    triggerId: String(trigger.id),
    grantId: String(otherGrant.id),
  }
}

function pathOf(route: string, things: PluginResources): string {
  const path = route.slice(route.indexOf(' ') + 1)
  const id = path.startsWith(P)
    ? things.triggerId
    : path.startsWith('/api/v1/schedules')
      ? things.scheduleId
      : things.runId
  return path
    .replace('/namespaces/{name}', `/namespaces/${things.namespace}`)
    .replace('{branch}', 'main')
    .replace('{ns}', things.namespace)
    .replace('{layer}', 'bronze')
    .replace('{name}', things.pipeline)
    .replace('{machine}', 'run')
    .replace('{number}', '1')
    .replace('{testName}', 'fixed')
    .replace('{id}', id)
}

/** `allowed`, or the one status that refuses. */
function verdict(method: string, expected: Expected, role: Role): 'allowed' | 403 | 404 {
  if (expected === 'anybody') return 'allowed'
  if (expected === 'administrators') return role.isAdministrator ? 'allowed' : 403
  if (expected === 'owners') return role.isOwner ? 'allowed' : 403
  if (LEVEL[role[expected.of]] >= LEVEL[expected.needs]) return 'allowed'
  return method === 'GET' ? 404 : 403
}

test('the matrix has exactly the documented routes', () => {
  expect(Object.keys(ROUTES).sort()).toEqual(documented().sort())
})

test('every route is 401 without a credential', async () => {
  const things: PluginResources = {
    namespace: 'default',
    pipeline: 'p',
    zone: 'z',
    pipelineId: 'x',
    fileId: 'x',
    runId: 'x',
    scheduleId: 'x',
    triggerId: 'x',
    grantId: 'x',
  }
  for (const [route, { path, body }] of Object.entries(ROUTES)) {
    const method = route.split(' ')[0] ?? ''
    const { status } = await service.ask({}, method, path?.(things) ?? pathOf(route, things), body?.(things))
    expect.soft([route, status]).toEqual([route, 401])
  }
})

for (const [name, role] of Object.entries(ROLES)) {
  test(`every route answers the ${name} according to its rule`, async () => {
    const subject = fresh('user')
    const caller: Caller =
      name === 'API key'
        ? service.machine
        : service.user(subject, role.isAdministrator ? { roles: ['admin'] } : {})
    const things = await prepare(name, role, subject)
    for (const [route, { expected, path, body, isAbsent }] of Object.entries(ROUTES)) {
      const method = route.split(' ')[0] ?? ''
      const refusals = isAbsent ? [401, 403] : [401, 403, 404]
      const sent = body?.(things)
      const sentBody =
        sent !== undefined && 'to_user_id' in sent ? { ...sent, to_user_id: ownerAs(name, subject) } : sent
      const { status, text } = await service.ask(
        caller,
        method,
        path?.(things) ?? pathOf(route, things),
        sentBody,
      )
      const wanted = verdict(method, expected, role)
      if (wanted === 'allowed')
        expect
          .soft([route, refusals.includes(status), text.slice(0, 200)])
          .toEqual([route, false, expect.anything()])
      else expect.soft([route, status, text.slice(0, 200)]).toEqual([route, wanted, expect.anything()])
    }
  })
}

const ownerAs = (name: string, subject: string) => (name === 'owner' ? subject : 'root')
