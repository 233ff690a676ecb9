// One table of access rules for all API routes: the resource of a request, and the right that it needs. The server checks the
// rule before the handler runs. The server does not start when a route has no rule. See docs/adr/0024-central-rules.md.

import assert from 'node:assert'
import { DEFAULT_NAMESPACE } from '../../ground/names.ts'
import type { Access, Permission, Resource } from '../core/access.ts'
import { bindTo } from '../core/bound.ts'
import { type AppError, alreadyExists, forbidden, invalid, notFound } from '../core/errors.ts'
import { noPipeline, type PipelineRef } from '../core/pipeline-ref.ts'
import { noZone } from '../core/zone-ref.ts'
import { filePath, pathFromUrl } from '../wire/paths.ts'
import { checkNewNamespace, type PipelinePart, type Resources } from './service.ts'

/** One request, after validation against the schemas of its route. */
export interface RuleRequest {
  readonly params: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, unknown>>
  readonly body: unknown
  readonly access: Access
}

export interface Rule {
  /** The needed right, for readers of the table and of the OpenAPI document. */
  readonly summary: string
  /** Throws 403, or the 404 of a missing resource. */
  check(request: RuleRequest, resources: Resources): void | Promise<void>
}

type Needed = Permission | ((request: RuleRequest) => Permission)

const AUTHENTICATED: Rule = { summary: 'any authenticated caller', check: () => {} }
/** Lists, totals and queries: resources that the caller may not see are left out. */
const VISIBLE_ONLY: Rule = {
  summary: 'any authenticated caller; the answer contains only resources they may read',
  check: () => {},
}
/** For routes whose handler checks the right: the resource is known only later, or the rule is special. */
const checkedByRoute = (summary: string): Rule => ({ summary, check: () => {} })

const ADMINS: Rule = { summary: 'administrators', check: ({ access }) => requireAdmin(access) }

function requireAdmin({ isAdmin }: Access) {
  if (!isAdmin) throw forbidden('administrator role required')
}

/** Requires a right on the resource that `find` returns. When `find` returns null, throws the error of `missing`. */
const requires = (
  needed: Needed,
  of: string,
  find: (request: RuleRequest, resources: Resources) => Promise<Resource | null>,
  missing: (request: RuleRequest) => AppError,
  furtherCheck?: (request: RuleRequest, resource: Resource, resources: Resources) => void | Promise<void>,
): Rule => ({
  summary: `${typeof needed === 'string' ? needed : 'read or write'} on ${of}`,
  async check(request, resources) {
    const resource = await find(request, resources)
    const permission = typeof needed === 'string' ? needed : needed(request)
    if (resource === null) throw missing(request)
    if (!(await request.access.may(resource, permission))) {
      // A caller without the right to read gets the same 404 as for a missing resource.
      if (permission === 'read') throw missing(request)
      throw forbidden(`${permission} permission on ${of} required: ask its owner`)
    }
    await furtherCheck?.(request, resource, resources)
    bindTo(request.params, resource)
  },
})

const pipelineRef = ({ params }: RuleRequest): PipelineRef => ({
  namespace: named(params, 'ns'),
  layer: named(params, 'layer'),
  name: named(params, 'name'),
})
const pipeline = (needed: Needed, furtherCheck?: Parameters<typeof requires>[4]) =>
  requires(
    needed,
    'the pipeline',
    (request, resources) => resources.pipeline(pipelineRef(request)),
    (request) => noPipeline(pipelineRef(request)),
    furtherCheck,
  )

const zoneRef = ({ params }: RuleRequest) => ({ namespace: named(params, 'ns'), name: named(params, 'name') })
const zone = (needed: Needed, furtherCheck?: Parameters<typeof requires>[4]) =>
  requires(
    needed,
    'the landing zone',
    (request, resources) => resources.zone(zoneRef(request)),
    (request) => noZone(zoneRef(request)),
    furtherCheck,
  )

/** A parameter of the path; the route's pattern must contain the name. */
function named(params: RuleRequest['params'], name: string): string {
  const value = params[name]
  assert(value !== undefined, `the route has no parameter ${name}`)
  return value
}

const namespace = (needed: Permission) =>
  requires(
    needed,
    'the namespace',
    ({ params }, resources) => resources.namespace(named(params, 'name')),
    ({ params }) => notFound(`namespace ${params.name}`),
  )

const tableText = ({ params: { ns, layer, name } }: RuleRequest) => `${ns}.${layer}.${name}`
const table = (needed: Permission) =>
  requires(
    needed,
    'the pipeline of the table',
    (request, resources) => resources.table(pipelineRef(request)),
    (request) => notFound(`table ${tableText(request)}`),
  )

const file = (needed: Permission) =>
  requires(
    needed,
    'the pipeline, landing zone or namespace of the file',
    ({ params }, resources) => resources.file(pathFromUrl(named(params, '*'))),
    ({ params }) => notFound(`file ${pathFromUrl(named(params, '*'))}`),
  )

/** A resource with its own id that belongs to a pipeline. */
const partOfPipeline = (needed: Permission, part: PipelinePart) =>
  requires(
    needed,
    'the pipeline',
    ({ params }, resources) => resources.pipelineOf(part, named(params, 'id')),
    ({ params }) => notFound(`${part} ${params.id}`),
  )

/** Instances in the inspector are runs, drafts of pipelines, and triggers. */
const instance = requires(
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
const pipelineOfBody = requires(
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
 * Another owner's data under the same name, such as files, must not pass to the new owner. A taken name throws 409 here.
 * Otherwise a deletion before the handler's own check could free the name, and nobody would check the remaining data.
 */
const creates = (
  kind: string,
  find: (named: PipelineRef, resources: Resources) => Promise<Resource | null>,
  hasLeftovers: (named: PipelineRef, resources: Resources, owner: string | null) => Promise<boolean>,
): Rule => ({
  summary: `write on the namespace; any authenticated caller in ${DEFAULT_NAMESPACE}, unless data of another owner has the name`,
  async check({ body, access }, resources) {
    const [namespaceName, layer, name] = [
      textOf(body, 'namespace'),
      textOf(body, 'layer'),
      textOf(body, 'name'),
    ]
    const parent = await resources.namespace(namespaceName)
    // The handler reports the missing namespace.
    if (parent === null || (await access.may(parent, 'write'))) return
    if (namespaceName !== DEFAULT_NAMESPACE)
      throw forbidden(`write permission on namespace ${namespaceName} required: ask its owner`)
    const named = { namespace: namespaceName, layer, name }
    if ((await find(named, resources)) !== null)
      throw alreadyExists(`${kind} ${[namespaceName, layer, name].filter(Boolean).join('.')}`)
    if (await hasLeftovers(named, resources, access.owner))
      throw forbidden(`name ${name} still has data of another owner: use another name`)
  },
})

const createsPipeline = creates(
  'pipeline',
  (named, resources) => resources.pipeline(named),
  (named, resources, owner) => resources.isLeftoverOfPipeline(named, owner),
)
const createsZone = creates(
  'landing zone',
  (named, resources) => resources.zone(named),
  (named, resources) => resources.isLeftoverOfZone(named),
)

const createsNamespace: Rule = {
  summary: 'any authenticated caller, unless data remains in a namespace of that name',
  check: ({ body }, resources) => checkNewNamespace(textOf(body, 'name'), resources),
}

const createsBranch: Rule = {
  summary: 'write on at least one namespace',
  async check({ access }, resources) {
    if (access.isAdmin) return
    const { namespaces } = await access.visible()
    for (const name of namespaces === 'all' ? [DEFAULT_NAMESPACE] : namespaces) {
      const found = await resources.namespace(name)
      if (found !== null && (await access.may(found, 'write'))) return
    }
    throw forbidden('write permission on a namespace required: ask the owner of one')
  },
}

/**
 * A new value of `owner` is a transfer, so only the owner or an administrator may set it. The service checks again under its
 * row lock.
 */
const changesOwner = ({ body, access }: RuleRequest, resource: Resource) => {
  if (typeof body !== 'object' || body === null || !('owner' in body)) return
  if (body.owner === resource.owner || access.isAdmin || resource.owner === access.owner) return
  throw forbidden('only the owner or an administrator may change the owner')
}

/** A trigger reveals events of its source, so its creator must have the right to read the source. */
async function readsSources({ body, access }: RuleRequest, _: Resource, resources: Resources) {
  for (const { field, what, find } of sourcesOf(body)) {
    const resource = await find(resources)
    if (resource === null || !(await access.may(resource, 'read'))) throw notFound(`config.${field}: ${what}`)
  }
}

interface TriggerSource {
  field: string
  what: string
  find(resources: Resources): Promise<Resource | null>
}

/** All possible sources in a configuration. The shape of each trigger type is validated later. */
function sourcesOf(body: unknown): TriggerSource[] {
  const config = fieldOf(body, 'config')
  const [name, zoneName] = [textOf(config, 'namespace'), textOf(config, 'zone_name')]
  const pipelineName = textOf(config, 'pipeline')
  const dependencies = fieldOf(config, 'dependencies')
  const sources: TriggerSource[] = []
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

const upstream = (field: string, ref: PipelineRef): TriggerSource => ({
  field,
  what: `pipeline ${ref.namespace}.${ref.layer}.${ref.name}`,
  find: (resources) => resources.pipeline(ref),
})

/** Only callers with write may execute their own code. */
const PREVIEW_PERMISSION: Needed = ({ body }) => (fieldOf(body, 'code') === undefined ? 'read' : 'write')

/** Checks the right to read the files of a preview. */
async function readsSamples({ body, access }: RuleRequest, _: Resource, resources: Resources) {
  const samplePaths = fieldOf(body, 'sample_files')
  for (const path of Array.isArray(samplePaths) ? samplePaths : []) {
    const resource = await resources.file(filePath(String(path), 'sample_files'))
    if (!(await access.may(resource, 'read'))) throw invalid('sample_files', `${path} does not exist`)
  }
}

const COUNTS_FOR_ADMINS: Rule = {
  summary: 'any authenticated caller; with counts, administrators',
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
const V = '/iceberg/v1'
const N = `${V}/:prefix/namespaces`

/** Bodies of Iceberg name tables, and only the catalog reads these bodies. */
const BY_CATALOG = checkedByRoute(
  'write on the pipeline of the table, or on the namespace of a table without a pipeline',
)

/** S3 requests carry credentials for one table; the rest of its lake does not exist for them. */
const BY_CREDENTIALS = checkedByRoute(
  'the grant of the credentials; their caller must still have the right on the table',
)

/** The key is method and pattern. */
export const RULES: Readonly<Record<string, Rule>> = {
  'GET /api/v1/features': AUTHENTICATED,
  'GET /api/v1/audit': ADMINS,

  'GET /api/v1/namespaces': VISIBLE_ONLY,
  'POST /api/v1/namespaces': createsNamespace,
  'GET /api/v1/namespaces/:name': checkedByRoute('read on the namespace'),
  'PUT /api/v1/namespaces/:name': namespace('write'),
  'DELETE /api/v1/namespaces/:name': namespace('admin'),

  'GET /api/v1/pipelines': VISIBLE_ONLY,
  'POST /api/v1/pipelines': createsPipeline,
  [`GET ${P}`]: pipeline('read'),
  [`PUT ${P}`]: pipeline('write', changesOwner),
  [`DELETE ${P}`]: pipeline('admin'),
  [`POST ${P}/publish`]: pipeline('write'),
  [`GET ${P}/versions`]: pipeline('read'),
  [`GET ${P}/versions/:number`]: pipeline('read'),
  [`POST ${P}/rollback`]: pipeline('write'),
  [`POST ${P}/preview`]: pipeline(PREVIEW_PERMISSION, readsSamples),
  [`GET ${P}/tests`]: pipeline('read'),
  [`POST ${P}/tests`]: pipeline('write'),
  [`DELETE ${P}/tests/:testName`]: pipeline('write'),
  [`POST ${P}/tests/run`]: pipeline('write'),
  [`GET ${P}/triggers`]: pipeline('read'),
  [`POST ${P}/triggers`]: pipeline('write', readsSources),
  [`GET ${P}/triggers/:id`]: pipeline('read'),
  [`PUT ${P}/triggers/:id`]: pipeline('write', readsSources),
  [`DELETE ${P}/triggers/:id`]: pipeline('write'),
  [`GET ${P}/retention`]: pipeline('read'),
  [`PUT ${P}/retention`]: pipeline('write'),

  'GET /api/v1/branches': AUTHENTICATED,
  'POST /api/v1/branches': createsBranch,
  'GET /api/v1/branches/:branch': AUTHENTICATED,
  'DELETE /api/v1/branches/:branch': checkedByRoute('the creator of the branch, and administrators'),
  'POST /api/v1/branches/:branch/merge': checkedByRoute(
    'write on the pipeline of every changed table, or on the namespace of a table without one',
  ),
  'POST /api/v1/branches/:branch/rebase': checkedByRoute('the creator of the branch, and administrators'),
  'GET /api/v1/branches/:branch/commits': VISIBLE_ONLY,
  'GET /api/v1/branches/:branch/diff': VISIBLE_ONLY,
  'GET /api/v1/branches/:branch/diff/:ns/:layer/:name': table('read'),
  'GET /api/v1/tags': AUTHENTICATED,
  'POST /api/v1/tags': createsBranch,
  'DELETE /api/v1/tags/:name': checkedByRoute('the creator of the tag, and administrators'),

  'GET /api/v1/commits': VISIBLE_ONLY,
  [`GET ${T}/history`]: table('read'),
  [`POST ${T}/restore`]: table('write'),

  'GET /api/v1/runs': VISIBLE_ONLY,
  'POST /api/v1/runs': pipelineOfBody,
  'GET /api/v1/runs/:id': partOfPipeline('read', 'run'),
  'POST /api/v1/runs/:id/cancel': partOfPipeline('write', 'run'),
  'POST /api/v1/runs/:id/approve': partOfPipeline('write', 'run'),
  'POST /api/v1/runs/:id/reject': partOfPipeline('write', 'run'),
  'GET /api/v1/runs/:id/logs': partOfPipeline('read', 'run'),
  'GET /api/v1/runs/:id/tests': partOfPipeline('read', 'run'),
  'GET /api/v1/runs/:id/inputs': partOfPipeline('read', 'run'),
  'GET /api/v1/runs/:id/diff': partOfPipeline('read', 'run'),
  'GET /api/v1/runs/:id/diff/rows': partOfPipeline('read', 'run'),

  'GET /api/v1/schedules': VISIBLE_ONLY,
  'POST /api/v1/schedules': pipelineOfBody,
  'GET /api/v1/schedules/:id': partOfPipeline('read', 'schedule'),
  'PUT /api/v1/schedules/:id': partOfPipeline('write', 'schedule'),
  'DELETE /api/v1/schedules/:id': partOfPipeline('write', 'schedule'),

  'GET /api/v1/landing-zones': VISIBLE_ONLY,
  'POST /api/v1/landing-zones': createsZone,
  [`GET ${Z}`]: zone('read'),
  [`PUT ${Z}`]: zone('write', changesOwner),
  [`DELETE ${Z}`]: zone('admin'),
  [`GET ${Z}/files`]: zone('read'),
  [`POST ${Z}/files`]: zone('write'),
  [`GET ${Z}/files/:id`]: zone('read'),
  [`GET ${Z}/files/:id/content`]: zone('read'),
  [`POST ${Z}/files/:id/quarantine`]: zone('write'),
  [`DELETE ${Z}/files/:id/quarantine`]: zone('write'),
  [`DELETE ${Z}/files/:id`]: zone('write'),
  [`GET ${Z}/samples`]: zone('read'),
  [`POST ${Z}/samples`]: zone('write'),
  [`DELETE ${Z}/samples/:filename`]: zone('write'),
  [`GET ${Z}/reads`]: zone('read'),
  [`GET ${Z}/schema`]: zone('read'),
  [`GET ${Z}/lifecycle`]: zone('read'),
  [`PUT ${Z}/lifecycle`]: zone('write'),

  'GET /api/v1/files': VISIBLE_ONLY,
  'POST /api/v1/files/upload': checkedByRoute(
    'write on the pipeline, landing zone or namespace of the file, checked when its path has arrived',
  ),
  'GET /api/v1/files/*': file('read'),
  'PUT /api/v1/files/*': file('write'),
  'DELETE /api/v1/files/*': file('write'),

  'POST /api/v1/query': VISIBLE_ONLY,
  'GET /api/v1/schema': VISIBLE_ONLY,
  'GET /api/v1/tables': VISIBLE_ONLY,
  [`GET ${T}`]: table('read'),
  [`GET ${T}/preview`]: table('read'),
  [`GET ${T}/files`]: table('read'),
  [`GET ${T}/statistics`]: table('read'),
  [`PUT ${T}/metadata`]: table('write'),
  'GET /api/v1/lineage': VISIBLE_ONLY,
  'GET /api/v1/attention': VISIBLE_ONLY,

  [`GET ${V}/config`]: AUTHENTICATED,
  [`GET ${N}`]: VISIBLE_ONLY,
  [`POST ${N}`]: checkedByRoute(createsNamespace.summary),
  [`GET ${N}/:namespace`]: VISIBLE_ONLY,
  [`DELETE ${N}/:namespace`]: checkedByRoute('admin on the namespace'),
  [`POST ${N}/:namespace/properties`]: checkedByRoute('write on the namespace'),
  [`GET ${N}/:namespace/tables`]: VISIBLE_ONLY,
  [`POST ${N}/:namespace/tables`]: BY_CATALOG,
  [`GET ${N}/:namespace/tables/:table`]: VISIBLE_ONLY,
  [`POST ${N}/:namespace/tables/:table`]: BY_CATALOG,
  [`GET ${N}/:namespace/views`]: VISIBLE_ONLY,
  [`POST ${N}/:namespace/views`]: BY_CATALOG,
  [`GET ${N}/:namespace/views/:view`]: VISIBLE_ONLY,
  [`POST ${N}/:namespace/views/:view`]: BY_CATALOG,
  [`POST ${V}/:prefix/views/rename`]: BY_CATALOG,
  [`POST ${V}/:prefix/transactions/commit`]: BY_CATALOG,
  [`DELETE ${N}/:namespace/tables/:table`]: BY_CATALOG,
  [`DELETE ${N}/:namespace/views/:view`]: BY_CATALOG,
  [`POST ${V}/:prefix/tables/rename`]: BY_CATALOG,
  [`POST ${N}/:namespace/register`]: BY_CATALOG,
  [`POST ${N}/:namespace/tables/:table/metrics`]: checkedByRoute('read on the table; nothing is stored'),

  [`GET ${N}/:namespace/tables/:table/credentials`]: VISIBLE_ONLY,
  'GET /s3/:bucket': BY_CREDENTIALS,
  'GET /s3/:bucket/*': BY_CREDENTIALS,
  'PUT /s3/:bucket/*': BY_CREDENTIALS,
  'POST /s3/:bucket': BY_CREDENTIALS,
  'POST /s3/:bucket/*': BY_CREDENTIALS,
  'DELETE /s3/:bucket/*': BY_CREDENTIALS,

  'GET /api/v1/inspector/machines': AUTHENTICATED,
  'GET /api/v1/inspector/machines/run.svg': COUNTS_FOR_ADMINS,
  'GET /api/v1/inspector/machines/draft.svg': COUNTS_FOR_ADMINS,
  'GET /api/v1/inspector/machines/trigger.svg': COUNTS_FOR_ADMINS,
  [`GET ${I}/instances`]: VISIBLE_ONLY,
  [`GET ${I}/events`]: VISIBLE_ONLY,
  [`GET ${I}/instances/:id`]: instance,
  [`GET ${I}/instances/:id/events`]: instance,
  [`GET ${I}/instances/:id/export.json`]: instance,
  [`GET ${I}/instances/:id/export.svg`]: instance,

  'GET /api/v1/admin/replicas': ADMINS,
  'GET /api/v1/admin/retention/config': ADMINS,
  'PUT /api/v1/admin/retention/config': ADMINS,
  'GET /api/v1/admin/retention/status': ADMINS,
  'POST /api/v1/admin/retention/run': ADMINS,

  'POST /api/v1/sharing': checkedByRoute('admin on the resource'),
  'GET /api/v1/sharing': checkedByRoute('any authenticated caller; without admin, only their own grants'),
  'DELETE /api/v1/sharing/:id': checkedByRoute(
    'the creator of the grant, the owner of the resource, and administrators',
  ),
  'POST /api/v1/sharing/transfer': checkedByRoute('the owner of the resource, and administrators'),
}
