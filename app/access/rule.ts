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

export const AUTHENTICATED: Rule = { summary: 'any authenticated caller', check: () => {} }

/** Lists, totals and queries: resources that the caller may not see are left out. */
export const VISIBLE_ONLY: Rule = {
  summary: 'any authenticated caller; the answer contains only resources they may read',
  check: () => {},
}

/** For routes whose handler checks the right: the resource is known only later, or the rule is special. */
export const checkedByRoute = (summary: string): Rule => ({ summary, check: () => {} })

export const ADMINS: Rule = { summary: 'administrators', check: ({ access }) => requireAdmin(access) }

export function requireAdmin({ isAdmin }: Access) {
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

export const pipeline = (needed: Needed, furtherCheck?: Parameters<typeof requires>[4]) =>
  requires(
    needed,
    'the pipeline',
    (request, resources) => resources.pipeline(pipelineRef(request)),
    (request) => noPipeline(pipelineRef(request)),
    furtherCheck,
  )

const zoneRef = ({ params }: RuleRequest) => ({ namespace: named(params, 'ns'), name: named(params, 'name') })

export const zone = (needed: Needed, furtherCheck?: Parameters<typeof requires>[4]) =>
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

export const namespace = (needed: Permission) =>
  requires(
    needed,
    'the namespace',
    ({ params }, resources) => resources.namespace(named(params, 'name')),
    ({ params }) => notFound(`namespace ${params.name}`),
  )

const tableText = ({ params: { ns, layer, name } }: RuleRequest) => `${ns}.${layer}.${name}`

export const table = (needed: Permission) =>
  requires(
    needed,
    'the pipeline of the table',
    (request, resources) => resources.table(pipelineRef(request)),
    (request) => notFound(`table ${tableText(request)}`),
  )

export const file = (needed: Permission) =>
  requires(
    needed,
    'the pipeline, landing zone or namespace of the file',
    ({ params }, resources) => resources.file(pathFromUrl(named(params, '*'))),
    ({ params }) => notFound(`file ${pathFromUrl(named(params, '*'))}`),
  )

/** A resource with its own id that belongs to a pipeline. */
export const partOfPipeline = (needed: Permission, part: PipelinePart) =>
  requires(
    needed,
    'the pipeline',
    ({ params }, resources) => resources.pipelineOf(part, named(params, 'id')),
    ({ params }) => notFound(`${part} ${params.id}`),
  )

/** Instances in the inspector are runs, drafts of pipelines, and triggers. */
export const instance = requires(
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
export const pipelineOfBody = requires(
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

export const createsPipeline = creates(
  'pipeline',
  (named, resources) => resources.pipeline(named),
  (named, resources, owner) => resources.isLeftoverOfPipeline(named, owner),
)

export const createsZone = creates(
  'landing zone',
  (named, resources) => resources.zone(named),
  (named, resources) => resources.isLeftoverOfZone(named),
)

export const createsNamespace: Rule = {
  summary: 'any authenticated caller, unless data remains in a namespace of that name',
  check: ({ body }, resources) => checkNewNamespace(textOf(body, 'name'), resources),
}

export const createsBranch: Rule = {
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
export const changesOwner = ({ body, access }: RuleRequest, resource: Resource) => {
  if (typeof body !== 'object' || body === null || !('owner' in body)) return
  if (body.owner === resource.owner || access.isAdmin || resource.owner === access.owner) return
  throw forbidden('only the owner or an administrator may change the owner')
}

/** A trigger reveals events of its source, so its creator must have the right to read the source. */
export async function readsSources({ body, access }: RuleRequest, _: Resource, resources: Resources) {
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
export const PREVIEW_PERMISSION: Needed = ({ body }) =>
  fieldOf(body, 'code') === undefined ? 'read' : 'write'

/** Checks the right to read the files of a preview. */
export async function readsSamples({ body, access }: RuleRequest, _: Resource, resources: Resources) {
  const samplePaths = fieldOf(body, 'sample_files')
  for (const path of Array.isArray(samplePaths) ? samplePaths : []) {
    const resource = await resources.file(filePath(String(path), 'sample_files'))
    if (!(await access.may(resource, 'read'))) throw invalid('sample_files', `${path} does not exist`)
  }
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
