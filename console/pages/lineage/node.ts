import { api, ok } from '../../api/client.ts'

export const graphQuery = () => ok(api.lineage.get({ query: {} }))
export type LineageGraph = Awaited<ReturnType<typeof graphQuery>>
export type LineageNode = LineageGraph['nodes'][number]

export const titleOf = (node: LineageNode): string =>
  node.type === 'landing_zone'
    ? `${node.namespace}.${node.name}`
    : `${node.namespace}.${node.layer}.${node.name}`
