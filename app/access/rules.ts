// Who may use each route of the API, in one table: what a request is about, and which right on it is needed. The server
// asks before a handler runs, and does not start with a route that is not here. See docs/adr/0024-central-rules.md.

import assert from 'node:assert'
import type { Access, Permission, Resource } from '../core/access.ts'
import { bindTo } from '../core/bound.ts'
import { type AppError, alreadyExists, forbidden, invalid, notFound } from '../core/errors.ts'
import { DEFAULT_NAMESPACE } from '../core/names.ts'
import { filePath, pathFromUrl } from '../core/paths.ts'
import { noPipeline, type PipelineRef } from '../core/pipeline-ref.ts'
import { noZone } from '../core/zone-ref.ts'
import type { PipelinePart, Resources } from './service.ts'

/** One request, after its parts have the shapes that its route declares. */
export interface Asked {
  readonly params: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, unknown>>
  readonly body: unknown
  readonly access: Access
}

export interface Rule {
  /** For readers: what a caller needs. */
  readonly says: string
  /** Rejects with 403, or with 404 in the words of what does not exist. */
  check(asked: Asked, resources: Resources): void | Promise<void>
}

type Needed = Permission | ((asked: Asked) => Permission)

const ANYBODY: Rule = { says: 'anybody who is known', check: () => {} }
/** Lists, totals, queries: what the caller may not see is absent from them. */
const SEEN: Rule = { says: 'anybody who is known; shows what they may read', check: () => {} }
/** Where what is asked for is known only in the middle of the handler, or who may is a question of its own. */
const asksItself = (says: string): Rule => ({ says, check: () => {} })

const ADMINS: Rule = { says: 'administrators', check: ({ access }) => requireAdmin(access) }

function requireAdmin({ isAdmin }: Access) {
  if (!isAdmin) throw forbidden('this is for administrators only')
}

/** A right on a thing that `find` finds; null: there is none, which is said in `missing`'s words. */
const right = (
  needed: Needed,
  of: string,
  find: (asked: Asked, resources: Resources) => Promise<Resource | null>,
  missing: (asked: Asked) => AppError,
  also?: (asked: Asked, resource: Resource, resources: Resources) => void | Promise<void>,
): Rule => ({
  says: `${typeof needed === 'string' ? needed : 'read or write'} on ${of}`,
  async check(asked, resources) {
    const resource = await find(asked, resources)
    const permission = typeof needed === 'string' ? needed : needed(asked)
    if (resource === null) throw missing(asked)
    if (!(await asked.access.may(resource, permission))) {
      // Who may not even read it is told what they would be told if it were not there.
      if (permission === 'read') throw missing(asked)
      throw forbidden(`this needs the right to ${VERBS[permission]} ${of}`)
    }
    await also?.(asked, resource, resources)
    bindTo(asked.params, resource)
  },
})

const VERBS = { read: 'read', write: 'write', admin: 'administer' }

const pipelineRef = ({ params }: Asked): PipelineRef => ({
  namespace: named(params, 'ns'),
  layer: named(params, 'layer'),
  name: named(params, 'name'),
})
const pipeline = (needed: Needed, also?: Parameters<typeof right>[4]) =>
  right(
    needed,
    'the pipeline',
    (asked, resources) => resources.pipeline(pipelineRef(asked)),
    (asked) => noPipeline(pipelineRef(asked)),
    also,
  )

const zoneRef = ({ params }: Asked) => ({ namespace: named(params, 'ns'), name: named(params, 'name') })
const zone = (needed: Needed, also?: Parameters<typeof right>[4]) =>
  right(
    needed,
    'the landing zone',
    (asked, resources) => resources.zone(zoneRef(asked)),
    (asked) => noZone(zoneRef(asked)),
    also,
  )

/** A parameter of the path, which the pattern of the route names. */
function named(params: Asked['params'], name: string): string {
  const value = params[name]
  assert(value !== undefined, `the route has no parameter ${name}`)
  return value
}

const namespace = (needed: Permission) =>
  right(
    needed,
    'the namespace',
    ({ params }, resources) => resources.namespace(named(params, 'name')),
    ({ params }) => notFound(`namespace ${params.name}`),
  )

const tableText = ({ params: { ns, layer, name } }: Asked) => `${ns}.${layer}.${name}`
const table = (needed: Permission) =>
  right(
    needed,
    'the pipeline of the table',
    (asked, resources) => resources.table(pipelineRef(asked)),
    (asked) => notFound(`table ${tableText(asked)}`),
  )

const file = (needed: Permission) =>
  right(
    needed,
    'what the file belongs to',
    ({ params }, resources) => resources.file(pathFromUrl(named(params, '*'))),
    ({ params }) => notFound(`file ${pathFromUrl(named(params, '*'))}`),
  )

/** What has an id of its own and belongs to a pipeline. */
const partOfPipeline = (needed: Permission, part: PipelinePart) =>
  right(
    needed,
    'the pipeline',
    ({ params }, resources) => resources.pipelineOf(part, named(params, 'id')),
    ({ params }) => notFound(`${part} ${params.id}`),
  )

/** Instances of the inspector are runs, the drafts of pipelines, and triggers. */
const instance = right(
  'read',
  'the pipeline',
  ({ params }, resources) => {
    const machine = named(params, 'machine')
    const part = machine === 'draft' ? 'pipeline' : machine === 'run' ? 'run' : 'trigger'
    return resources.pipelineOf(part, named(params, 'id'))
  },
  ({ params: { machine, id } }) =>
    notFound(`${machine} ${id} (it may have been removed by retention, or with its pipeline)`),
)

/** Runs and schedules are asked for with the pipeline in the body. */
const pipelineOfBody = right(
  'write',
  'the pipeline',
  async ({ body }, resources) => resources.pipeline(refOfBody(body)),
  ({ body }) => noPipeline(refOfBody(body)),
)

const refOfBody = (body: unknown): PipelineRef => ({
  namespace: textOf(body, 'namespace'),
  layer: textOf(body, 'layer'),
  name: textOf(body, 'pipeline'),
})

/**
 * Anybody may build in the open namespace, where what they make is theirs; elsewhere it takes write on the namespace. What
 * somebody has left under the name (a table, files) does not become theirs with it. That a name is taken is said here: when
 * it is free a moment later, nobody has looked at what is left.
 */
const creates = (
  kind: string,
  find: (named: PipelineRef, resources: Resources) => Promise<Resource | null>,
  isLeft: (named: PipelineRef, resources: Resources, owner: string | null) => Promise<boolean>,
): Rule => ({
  says: `write on the namespace; anybody in ${DEFAULT_NAMESPACE}, unless others have left something under the name`,
  async check({ body, access }, resources) {
    const [namespaceName, layer, name] = [
      textOf(body, 'namespace'),
      textOf(body, 'layer'),
      textOf(body, 'name'),
    ]
    const space = await resources.namespace(namespaceName)
    // The handler says that there is none.
    if (space === null || (await access.may(space, 'write'))) return
    if (namespaceName !== DEFAULT_NAMESPACE) throw forbidden('this needs the right to write the namespace')
    const named = { namespace: namespaceName, layer, name }
    if ((await find(named, resources)) !== null)
      throw alreadyExists(`${kind} ${[namespaceName, layer, name].filter(Boolean).join('.')}`)
    if (await isLeft(named, resources, access.owner))
      throw forbidden('others have left data under this name: it takes write on the namespace')
  },
})

const createsPipeline = creates(
  'pipeline',
  (named, resources) => resources.pipeline(named),
  (named, resources, owner) => resources.isLeftOfPipeline(named, owner),
)
const createsZone = creates(
  'landing zone',
  (named, resources) => resources.zone(named),
  (named, resources) => resources.isLeftOfZone(named),
)

const createsNamespace: Rule = {
  says: 'anybody who is known, unless something is in a namespace of that name',
  async check({ body }, resources) {
    const name = textOf(body, 'name')
    if ((await resources.namespace(name)) !== null) throw alreadyExists(`namespace ${name}`)
    if (await resources.isLeftOfNamespace(name))
      throw forbidden('a namespace of this name still holds what others made: only administrators create it')
  },
}

/** By the field `owner` a thing changes hands, so it is as a transfer. The service looks again under its lock. */
const changesOwner = ({ body, access }: Asked, resource: Resource) => {
  if (typeof body !== 'object' || body === null || !('owner' in body)) return
  if (body.owner === resource.owner || access.isAdmin || resource.owner === access.owner) return
  throw forbidden('only the owner hands it over')
}

/** A trigger tells when something happens elsewhere: who makes it listen must be able to see that. */
async function listens({ body, access }: Asked, _: Resource, resources: Resources) {
  for (const { field, what, find } of sourcesOf(body)) {
    const resource = await find(resources)
    if (resource === null || !(await access.may(resource, 'read'))) throw notFound(`config.${field}: ${what}`)
  }
}

interface Listened {
  field: string
  what: string
  find(resources: Resources): Promise<Resource | null>
}

/** Whatever in a configuration could name one; whether it has its type's shape is checked later. */
function sourcesOf(body: unknown): Listened[] {
  const config = fieldOf(body, 'config')
  const [name, zoneName] = [textOf(config, 'namespace'), textOf(config, 'zone_name')]
  const pipelineName = textOf(config, 'pipeline')
  const dependencies = fieldOf(config, 'dependencies')
  const sources: Listened[] = []
  if (zoneName !== '')
    sources.push({
      field: 'zone_name',
      what: `landing zone ${name}.${zoneName}`,
      find: (resources) => resources.zone({ namespace: name, name: zoneName }),
    })
  if (pipelineName !== '') {
    const ref = { namespace: name, layer: textOf(config, 'layer'), name: pipelineName }
    sources.push(upstream('pipeline', ref))
  }
  for (const [index, dependency] of (Array.isArray(dependencies) ? dependencies : []).entries()) {
    const [namespaceName, layer, pipelineOf] = typeof dependency === 'string' ? dependency.split('.') : []
    if (namespaceName !== undefined && layer !== undefined && pipelineOf !== undefined)
      sources.push(upstream(`dependencies.${index}`, { namespace: namespaceName, layer, name: pipelineOf }))
  }
  return sources
}

const upstream = (field: string, ref: PipelineRef): Listened => ({
  field,
  what: `pipeline ${ref.namespace}.${ref.layer}.${ref.name}`,
  find: (resources) => resources.pipeline(ref),
})

/** Code of the caller's own is executed only for who may write. */
const PREVIEWS: Needed = ({ body }) => (fieldOf(body, 'code') === undefined ? 'read' : 'write')

/** Files that a preview is to read. */
async function reads({ body, access }: Asked, _: Resource, resources: Resources) {
  const given = fieldOf(body, 'sample_files')
  for (const path of Array.isArray(given) ? given : []) {
    const resource = await resources.file(filePath(String(path), 'sample_files'))
    if (!(await access.may(resource, 'read'))) throw invalid('sample_files', `${path} does not exist`)
  }
}

const countsAreOfAll: Rule = {
  says: 'anybody who is known; with counts, administrators',
  check: ({ query, access }) => {
    if (query.counts === '1') requireAdmin(access)
  },
}

function fieldOf(holder: unknown, key: string): unknown {
  return typeof holder === 'object' && holder !== null && Object.hasOwn(holder, key)
    ? holder[key as keyof typeof holder]
    : undefined
}

function textOf(holder: unknown, key: string): string {
  const value = fieldOf(holder, key)
  return typeof value === 'string' ? value : ''
}

const P = '/api/v1/pipelines/:ns/:layer/:name'
const Z = '/api/v1/landing-zones/:ns/:name'
const T = '/api/v1/tables/:ns/:layer/:name'
const I = '/api/v1/inspector/:machine'
const BY_SHARING = 'decided by the route: see Sharing'

/** By method and pattern. */
export const RULES: Readonly<Record<string, Rule>> = {
  'GET /api/v1/features': ANYBODY,
  'GET /api/v1/audit': ADMINS,

  'GET /api/v1/namespaces': SEEN,
  'POST /api/v1/namespaces': createsNamespace,
  'PUT /api/v1/namespaces/:name': namespace('write'),
  'DELETE /api/v1/namespaces/:name': namespace('admin'),

  'GET /api/v1/pipelines': SEEN,
  'POST /api/v1/pipelines': createsPipeline,
  [`GET ${P}`]: pipeline('read'),
  [`PUT ${P}`]: pipeline('write', changesOwner),
  [`DELETE ${P}`]: pipeline('admin'),
  [`POST ${P}/publish`]: pipeline('write'),
  [`GET ${P}/versions`]: pipeline('read'),
  [`GET ${P}/versions/:number`]: pipeline('read'),
  [`POST ${P}/rollback`]: pipeline('write'),
  [`POST ${P}/preview`]: pipeline(PREVIEWS, reads),
  [`GET ${P}/tests`]: pipeline('read'),
  [`POST ${P}/tests`]: pipeline('write'),
  [`DELETE ${P}/tests/:testName`]: pipeline('write'),
  [`POST ${P}/tests/run`]: pipeline('write'),
  [`GET ${P}/triggers`]: pipeline('read'),
  [`POST ${P}/triggers`]: pipeline('write', listens),
  [`GET ${P}/triggers/:id`]: pipeline('read'),
  [`PUT ${P}/triggers/:id`]: pipeline('write', listens),
  [`DELETE ${P}/triggers/:id`]: pipeline('write'),
  [`GET ${P}/retention`]: pipeline('read'),
  [`PUT ${P}/retention`]: pipeline('write'),

  'GET /api/v1/runs': SEEN,
  'POST /api/v1/runs': pipelineOfBody,
  'GET /api/v1/runs/:id': partOfPipeline('read', 'run'),
  'POST /api/v1/runs/:id/cancel': partOfPipeline('write', 'run'),
  'GET /api/v1/runs/:id/logs': partOfPipeline('read', 'run'),

  'GET /api/v1/schedules': SEEN,
  'POST /api/v1/schedules': pipelineOfBody,
  'GET /api/v1/schedules/:id': partOfPipeline('read', 'schedule'),
  'PUT /api/v1/schedules/:id': partOfPipeline('write', 'schedule'),
  'DELETE /api/v1/schedules/:id': partOfPipeline('write', 'schedule'),

  'GET /api/v1/landing-zones': SEEN,
  'POST /api/v1/landing-zones': createsZone,
  [`GET ${Z}`]: zone('read'),
  [`PUT ${Z}`]: zone('write', changesOwner),
  [`DELETE ${Z}`]: zone('admin'),
  [`GET ${Z}/files`]: zone('read'),
  [`POST ${Z}/files`]: zone('write'),
  [`GET ${Z}/files/:id`]: zone('read'),
  [`DELETE ${Z}/files/:id`]: zone('write'),
  [`GET ${Z}/samples`]: zone('read'),
  [`POST ${Z}/samples`]: zone('write'),
  [`DELETE ${Z}/samples/:filename`]: zone('write'),
  [`GET ${Z}/lifecycle`]: zone('read'),
  [`PUT ${Z}/lifecycle`]: zone('write'),

  'GET /api/v1/files': SEEN,
  'POST /api/v1/files/upload': asksItself(
    'write on what the file will belong to, asked when its path has arrived',
  ),
  'GET /api/v1/files/*': file('read'),
  'PUT /api/v1/files/*': file('write'),
  'DELETE /api/v1/files/*': file('write'),

  'POST /api/v1/query': SEEN,
  'GET /api/v1/schema': SEEN,
  'GET /api/v1/tables': SEEN,
  [`GET ${T}`]: table('read'),
  [`GET ${T}/preview`]: table('read'),
  [`PUT ${T}/metadata`]: table('write'),
  'GET /api/v1/lineage': SEEN,

  'GET /api/v1/inspector/machines': ANYBODY,
  'GET /api/v1/inspector/machines/run.svg': countsAreOfAll,
  'GET /api/v1/inspector/machines/draft.svg': countsAreOfAll,
  'GET /api/v1/inspector/machines/trigger.svg': countsAreOfAll,
  [`GET ${I}/instances`]: SEEN,
  [`GET ${I}/events`]: SEEN,
  [`GET ${I}/instances/:id`]: instance,
  [`GET ${I}/instances/:id/events`]: instance,
  [`GET ${I}/instances/:id/export.json`]: instance,
  [`GET ${I}/instances/:id/export.svg`]: instance,

  'GET /api/v1/admin/retention/config': ADMINS,
  'PUT /api/v1/admin/retention/config': ADMINS,
  'GET /api/v1/admin/retention/status': ADMINS,
  'POST /api/v1/admin/retention/run': ADMINS,

  'POST /api/v1/sharing': asksItself(BY_SHARING),
  'GET /api/v1/sharing': asksItself(BY_SHARING),
  'DELETE /api/v1/sharing/:id': asksItself(BY_SHARING),
  'POST /api/v1/sharing/transfer': asksItself(BY_SHARING),
}
