// One table of access rules for all API routes: the resource of a request, and the right that it needs. The server checks the
// rule before the handler runs. The server does not start when a route has no rule. See docs/adr/0024-central-rules.md.

import assert from 'node:assert'
import type { Access, Permission, Resource } from '../core/access.ts'
import { bindTo } from '../core/bound.ts'
import { type AppError, alreadyExists, forbidden, invalid, notFound } from '../core/errors.ts'
import { DEFAULT_NAMESPACE } from '../core/names.ts'
import { filePath, pathFromUrl } from '../core/paths.ts'
import { noPipeline, type PipelineRef } from '../core/pipeline-ref.ts'
import { noZone } from '../core/zone-ref.ts'
import type { PipelinePart, Resources } from './service.ts'

/** One request, after validation against the schemas of its route. */
export interface RuleRequest {
  readonly params: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, unknown>>
  readonly body: unknown
  readonly access: Access
}

export interface Rule {
  /** The needed right, for readers of the table. */
  readonly says: string
  /** Throws 403, or the 404 of a missing resource. */
  check(asked: RuleRequest, resources: Resources): void | Promise<void>
}

type Needed = Permission | ((asked: RuleRequest) => Permission)

const ANYBODY: Rule = { says: 'anybody who is known', check: () => {} }
/** Lists, totals and queries: resources that the caller may not see are left out. */
const SEEN: Rule = { says: 'anybody who is known; shows what they may read', check: () => {} }
/** For routes whose handler checks the right: the resource is known only later, or the rule is special. */
const asksItself = (says: string): Rule => ({ says, check: () => {} })

const ADMINS: Rule = { says: 'administrators', check: ({ access }) => requireAdmin(access) }

function requireAdmin({ isAdmin }: Access) {
  if (!isAdmin) throw forbidden('this is for administrators only')
}

/** Requires a right on the resource that `find` returns. When `find` returns null, throws the error of `missing`. */
const right = (
  needed: Needed,
  of: string,
  find: (asked: RuleRequest, resources: Resources) => Promise<Resource | null>,
  missing: (asked: RuleRequest) => AppError,
  also?: (asked: RuleRequest, resource: Resource, resources: Resources) => void | Promise<void>,
): Rule => ({
  says: `${typeof needed === 'string' ? needed : 'read or write'} on ${of}`,
  async check(asked, resources) {
    const resource = await find(asked, resources)
    const permission = typeof needed === 'string' ? needed : needed(asked)
    if (resource === null) throw missing(asked)
    if (!(await asked.access.may(resource, permission))) {
      // A caller without the right to read gets the same 404 as for a missing resource.
      if (permission === 'read') throw missing(asked)
      throw forbidden(`this needs the right to ${VERBS[permission]} ${of}`)
    }
    await also?.(asked, resource, resources)
    bindTo(asked.params, resource)
  },
})

const VERBS = { read: 'read', write: 'write', admin: 'administer' }

const pipelineRef = ({ params }: RuleRequest): PipelineRef => ({
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

const zoneRef = ({ params }: RuleRequest) => ({ namespace: named(params, 'ns'), name: named(params, 'name') })
const zone = (needed: Needed, also?: Parameters<typeof right>[4]) =>
  right(
    needed,
    'the landing zone',
    (asked, resources) => resources.zone(zoneRef(asked)),
    (asked) => noZone(zoneRef(asked)),
    also,
  )

/** A parameter of the path; the route's pattern must contain the name. */
function named(params: RuleRequest['params'], name: string): string {
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

const tableText = ({ params: { ns, layer, name } }: RuleRequest) => `${ns}.${layer}.${name}`
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

/** A resource with its own id that belongs to a pipeline. */
const partOfPipeline = (needed: Permission, part: PipelinePart) =>
  right(
    needed,
    'the pipeline',
    ({ params }, resources) => resources.pipelineOf(part, named(params, 'id')),
    ({ params }) => notFound(`${part} ${params.id}`),
  )

/** Instances in the inspector are runs, drafts of pipelines, and triggers. */
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

/** Requests of runs and schedules name the pipeline in the body. */
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
 * Every user may create resources in the default namespace and then owns them. Other namespaces need write on the namespace.
 * Another owner's data under the same name, such as files, must not pass to the new owner. A taken name throws 409 here. If the
 * handler checked this later, the name could become free without a check of the data left behind.
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
    // The handler reports the missing namespace.
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

/**
 * A new value of `owner` is a transfer, so only the owner or an administrator may set it. The service checks again under its
 * row lock.
 */
const changesOwner = ({ body, access }: RuleRequest, resource: Resource) => {
  if (typeof body !== 'object' || body === null || !('owner' in body)) return
  if (body.owner === resource.owner || access.isAdmin || resource.owner === access.owner) return
  throw forbidden('only the owner hands it over')
}

/** A trigger reveals events of its source, so its creator must have the right to read the source. */
async function listens({ body, access }: RuleRequest, _: Resource, resources: Resources) {
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

/** All possible sources in a configuration. The shape of each trigger type is validated later. */
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

/** Only callers with write may execute their own code. */
const PREVIEWS: Needed = ({ body }) => (fieldOf(body, 'code') === undefined ? 'read' : 'write')

/** Checks the right to read the files of a preview. */
async function reads({ body, access }: RuleRequest, _: Resource, resources: Resources) {
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

/** The key is method and pattern. */
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
