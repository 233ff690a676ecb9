import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import { api, ok } from './client.ts'
import { refresh } from './queries.ts'

const KEY = ['sharing']
const changed = () => refresh(KEY)

export interface Resource {
  id: string
  name: string
  owner: string | null
}
export type ResourceKind = 'pipeline' | 'namespace' | 'landing_zone'
export const PERMISSIONS = ['read', 'write', 'admin'] as const
export type Permission = (typeof PERMISSIONS)[number]

/** Pipelines in the list of choices: the largest page of the API. The search finds others. */
const PIPELINES_LISTED = '200'

const LISTS: Record<ResourceKind, (search: string) => Promise<Resource[]>> = {
  async pipeline(search) {
    const { pipelines } = await ok(
      api.pipelines.get({ query: { ...(search && { search }), limit: PIPELINES_LISTED } }),
    )
    return pipelines.map((pipeline) => ({
      ...pipeline,
      name: `${pipeline.namespace}.${pipeline.layer}.${pipeline.name}`,
    }))
  },
  async namespace(search) {
    const { namespaces } = await ok(api.namespaces.get({ query: {} }))
    return namespaces.filter(({ name }) => name.includes(search))
  },
  async landing_zone(search) {
    const { zones } = await ok(api['landing-zones'].get({ query: {} }))
    return zones
      .map((zone) => ({ ...zone, name: `${zone.namespace}.${zone.name}` }))
      .filter(({ name }) => name.includes(search))
  },
}

export const resourcesQuery = (kind: ResourceKind, search: string) =>
  queryOptions({
    queryKey: [...KEY, 'resources', kind, search],
    queryFn: () => LISTS[kind](search),
    placeholderData: keepPreviousData,
  })

export const grantsQuery = (kind: ResourceKind, id: string) =>
  queryOptions({
    queryKey: [...KEY, 'grants', kind, id],
    queryFn: () => ok(api.sharing.get({ query: { resource_type: kind, resource_id: id } })),
  })

export const grant = (kind: ResourceKind, id: string, user: string, permission: Permission) =>
  ok(api.sharing.post({ grantee_id: user, resource_type: kind, resource_id: id, permission })).then(changed)

export const revoke = (id: string) => ok(api.sharing({ id }).delete()).then(changed)

export async function transferPipeline(id: string, user: string) {
  await ok(api.sharing.transfer.post({ resource_type: 'pipeline', resource_id: id, to_user_id: user }))
  await refresh(KEY, ['pipelines'])
}
