// Resources of one role in the matrix of rights: a namespace with a pipeline, a view, a zone, and all of their parts. Every text occurs nowhere else, so that an answer which contains one gives something away.
import { expect } from '@playwright/test'
import { eventually } from '../../kit/eventually.ts'
import { fresh } from '../../kit/resources.ts'
import type { Caller, ProService } from './pro-service.ts'

export type Right = 'none' | 'read' | 'write' | 'admin'

/** Rights on the pipelines and the zone (`thing`), on their namespace (`space`), and on the installation. */
export interface Role {
  thing: Right
  space: Right
  isAdministrator?: boolean
  /** Owners may transfer a resource and revoke grants that others gave. */
  isOwner?: boolean
}

/** The names and ids that the paths and bodies of requests contain. */
export interface World {
  namespace: string
  pipeline: string
  view: string
  zone: string
  /** A branch with a change of the table, and one without. */
  changed: string
  branch: string
  tag: string
  pipelineId: string
  fileId: string
  runId: string
  scheduleId: string
  triggerId: string
  grantId: string
  /** The location of the table's metadata. */
  location: string
  commit: number
  /** The user who owns the pipelines and the zone. */
  owner: string
}

const SCHEDULE = '0 6 1 1 *'

/** The same world with other names: nothing of it exists. The namespace stays, unless the caller names an absent one. */
export function absentTwin(world: World, namespace = world.namespace): World {
  let count = 0
  const id = () => `01990000-0000-7000-8000-${String(++count).padStart(12, '0')}`
  const [pipeline, view, zone] = [fresh('absent-pipe'), fresh('absent-view'), fresh('absent-zone')]
  const ids = { pipelineId: id(), fileId: id(), runId: id(), scheduleId: id(), triggerId: id() }
  const location = world.location.replace(world.pipeline, pipeline).replace(world.namespace, namespace)
  return { ...world, ...ids, namespace, pipeline, view, zone, location, grantId: id() }
}

/** An answer in which the names of a world are replaced, to compare it with the answer of another. */
export function masked(text: string, world: World): string {
  let hidden = text
  for (const [key, value] of textsOf(world)) hidden = hidden.replaceAll(value, key.toUpperCase())
  return hidden
}

/** The texts that occur nowhere else. */
export const textsOf = ({ commit: _, owner: __, ...texts }: World): [key: string, text: string][] =>
  Object.entries(texts)

/** Makes a world. `subject` gets exactly the rights of the role `name`. */
export async function makeWorld(
  service: ProService,
  { name, role, subject }: { name: string; role: Role; subject: string },
): Promise<World> {
  const { root, must } = service
  const make = (path: string, body: object, caller = root) =>
    must(201, caller, 'POST', `/api/v1${path}`, body)
  const namespace = fresh('space')
  const spaceOwner = name === 'namespace owner' ? service.user(subject) : root
  const space = await make('/namespaces', { name: namespace }, spaceOwner)
  const ids: unknown[] = []
  const build = async (layer: string, title: string, sql: string) => {
    ids.push((await make('/pipelines', { namespace, layer, name: title })).id)
    const at = `/api/v1/files/${namespace}/pipelines/${layer}/${title}`
    await must(200, root, 'PUT', `${at}/pipeline.sql`, { content: sql })
    await must(200, root, 'PUT', `${at}/notes.md`, { content: 'x' })
    await must(200, root, 'POST', `/api/v1/pipelines/${namespace}/${layer}/${title}/publish`, {})
    return succeed(service, root, { namespace, layer, pipeline: title })
  }
  const [pipeline, view, zone] = [fresh('pipe'), fresh('view'), fresh('zone')]
  const run = await build('bronze', pipeline, 'select 1 as id')
  await build('gold', view, `-- @materialized: view\nselect id from {{ ref('bronze.${pipeline}') }}`)
  const at = `/pipelines/${namespace}/bronze/${pipeline}`
  const zoneId = (await make('/landing-zones', { namespace, name: zone })).id
  const file = await upload(service, `/landing-zones/${namespace}/${zone}/files`, 'a.csv')
  await upload(service, `/landing-zones/${namespace}/${zone}/samples`, 'sample.csv')
  await make(`${at}/tests`, { name: 'fixed', sql: 'select 1', severity: 'warn' })
  const schedule = await make('/schedules', { namespace, layer: 'bronze', pipeline, cron: SCHEDULE })
  // The scheduler sets the time of the first run.
  const scheduled = () => must(200, root, 'GET', `/api/v1/schedules/${schedule.id}`)
  await eventually(async () => (await scheduled()).next_run_at).not.toBeNull()
  const trigger = await make(`${at}/triggers`, { type: 'cron', config: { cron_expr: SCHEDULE } })
  const [changed, branch, tag] = [fresh('changed'), fresh('branch'), fresh('tag')]
  for (const each of [changed, branch]) await make('/branches', { name: each })
  await make('/tags', { name: tag })
  const table = (prefix: string) =>
    `/iceberg/v1/${prefix}/namespaces/${namespace}%1Fbronze/tables/${pipeline}`
  await must(200, root, 'POST', table(`sluice.${changed}`), TOUCH)
  const { 'metadata-location': location } = await must(200, root, 'GET', table('sluice'))
  const grant = (type: string, id: unknown, permission: Right, to = subject) =>
    make('/sharing', { grantee_id: to, resource_type: type, resource_id: id, permission })
  const grantId = (await grant('pipeline', ids[0], 'read', 'somebody-else')).id
  if (role.isAdministrator || name === 'namespace owner') {
    // These rights need no grant.
  } else if (role.isOwner) {
    for (const path of [at, `/pipelines/${namespace}/gold/${view}`, `/landing-zones/${namespace}/${zone}`])
      await must(200, root, 'PUT', `/api/v1${path}`, { owner: subject })
  } else if (role.space !== 'none') await grant('namespace', space.id, role.space)
  else if (role.thing !== 'none') {
    for (const id of ids) await grant('pipeline', id, role.thing)
    await grant('landing_zone', zoneId, role.thing)
  }
  return {
    namespace,
    pipeline,
    view,
    zone,
    changed,
    branch,
    tag,
    pipelineId: String(ids[0]),
    fileId: String(file.id),
    runId: String(run.id),
    scheduleId: String(schedule.id),
    triggerId: String(trigger.id),
    grantId: String(grantId),
    location: String(location),
    commit: Number(run.merged_commit),
    owner: role.isOwner && !role.isAdministrator ? subject : 'root',
  }
}

/** An Iceberg commit that changes a property. */
export const TOUCH = {
  updates: [{ action: 'set-properties', updates: { touched: 'yes' } }],
  requirements: [],
}

async function upload(service: ProService, path: string, name: string): Promise<Record<string, unknown>> {
  const form = new FormData()
  form.set('file', new File(['a,b\n1,2\n'], name))
  const { status, json } = await service.ask(service.root, 'POST', `/api/v1${path}`, form)
  expect(status).toBe(201)
  return { ...(json as object) }
}

/** Runs a pipeline, expects success, and returns the run. */
async function succeed({ must }: ProService, caller: Caller, data: object) {
  const { run_id } = await must(202, caller, 'POST', '/api/v1/runs', data)
  const get = () => must(200, caller, 'GET', `/api/v1/runs/${run_id}`)
  await eventually(async () => (await get()).finished_at).not.toBeNull()
  const run = await get()
  expect(run).toMatchObject({ status: 'success', error: null })
  return run
}
