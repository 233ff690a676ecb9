// The vocabulary of the product that every layer shares.

export const LAYERS = ['bronze', 'silver', 'gold'] as const

export type Layer = (typeof LAYERS)[number]

/** The layer with this name; undefined for another text. */
export const layerOf = (name: string | undefined): Layer | undefined => LAYERS.find((layer) => layer === name)

export interface TableName {
  namespace: string
  layer: Layer
  name: string
}

/** The unique spelling of a table, for comparisons and as a map key. */
export const tableKey = (table: TableName): string => `${table.namespace}.${table.layer}.${table.name}`

/** Always there, where everybody may build, and meant by a request without a namespace. */
export const DEFAULT_NAMESPACE = 'default'
