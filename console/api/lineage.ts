import { queryOptions } from '@tanstack/react-query'
import { api, ok } from './client.ts'
import { type DataOf, SLOW_MS } from './queries.ts'

const KEY = ['lineage']

/** A part of the graph: one namespace, or all that is upstream and downstream of a node. Empty: all. */
export type Part = { namespace?: string; node?: string }

export const lineageQuery = (part: Part) =>
  queryOptions({
    queryKey: [...KEY, 'graph', part],
    queryFn: () => ok(api.lineage.get({ query: part })),
    refetchInterval: SLOW_MS,
  })
export type LineageGraph = DataOf<typeof lineageQuery>
export type LineageNode = LineageGraph['nodes'][number]

/** The number of pipelines, and the names of all namespaces. */
export const lineageSizeQuery = () =>
  queryOptions({
    queryKey: [...KEY, 'size'],
    queryFn: async () => {
      const [{ total }, { namespaces }] = await Promise.all([
        ok(api.pipelines.get({ query: { limit: '1' } })),
        ok(api.namespaces.get({ query: {} })),
      ])
      return { pipelines: total, names: namespaces.map(({ name }) => name) }
    },
  })

/** The places of the nodes of a graph, which its fingerprint names. */
export const layoutQuery = <Layout>(fingerprint: string, compute: () => Promise<Layout>) =>
  queryOptions({
    queryKey: [...KEY, 'layout', fingerprint],
    queryFn: compute,
    staleTime: Number.POSITIVE_INFINITY,
  })

export const titleOf = (node: LineageNode): string =>
  node.type === 'landing_zone'
    ? `${node.namespace}.${node.name}`
    : `${node.namespace}.${node.layer}.${node.name}`
