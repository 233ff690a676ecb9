import { api, ok } from '../../api/client.ts'

/** With more pipelines than this, a page shows the graph of one namespace. */
export const PIPELINES_AT_ONCE = 2_000

/** A part of the graph: one namespace, or all that is upstream and downstream of a node. Empty: all. */
export type Part = { namespace?: string; node?: string }
export const graphQuery = (part: Part) => () => ok(api.lineage.get({ query: part }))
export type LineageGraph = Awaited<ReturnType<ReturnType<typeof graphQuery>>>
export type LineageNode = LineageGraph['nodes'][number]

/** The number of pipelines, and the names of all namespaces. */
export async function sizeQuery(): Promise<{ pipelines: number; names: string[] }> {
  const [{ total }, { namespaces }] = await Promise.all([
    ok(api.pipelines.get({ query: { limit: '1' } })),
    ok(api.namespaces.get({ query: {} })),
  ])
  return { pipelines: total, names: namespaces.map(({ name }) => name) }
}

export const titleOf = (node: LineageNode): string =>
  node.type === 'landing_zone'
    ? `${node.namespace}.${node.name}`
    : `${node.namespace}.${node.layer}.${node.name}`
