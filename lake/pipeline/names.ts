/** Names as they stand inside `ref()` and `landing_zone()`. */

export const LAYERS = ['bronze', 'silver', 'gold'] as const
export type Layer = (typeof LAYERS)[number]

export interface TableName {
  namespace: string
  layer: Layer
  name: string
}

const NAMESPACE = /^[a-z][a-z0-9-]{2,62}$/
const TABLE = /^[a-z0-9][a-z0-9_-]{0,127}$/
const ZONE = /^[a-z0-9][a-z0-9-]{0,127}$/

/** A name that cannot be the name of a table or a zone; the message says what one looks like. */
export class NameError extends Error {
  override readonly name = 'NameError'
}

/**
 * `layer.name` or `namespace.layer.name` as written in `ref()`; the first form is of `defaultNamespace`.
 * Throws `NameError`.
 */
export function parseTableName(text: string, defaultNamespace: string): TableName {
  const parts = text.split('.')
  if (parts.length < 2 || parts.length > 3)
    throw new NameError(`${shown(text)} is not a table name: write 'layer.name' or 'namespace.layer.name'`)
  const [name = '', layerText = '', namespace = defaultNamespace] = parts.toReversed()
  const layer = LAYERS.find((known) => known === layerText)
  if (layer === undefined)
    throw new NameError(`${shown(text)}: the layer is one of ${LAYERS.join(', ')}, not ${shown(layerText)}`)
  if (!NAMESPACE.test(namespace))
    throw new NameError(`${shown(text)}: ${shown(namespace)} cannot be the name of a namespace`)
  if (!TABLE.test(name)) throw new NameError(`${shown(text)}: ${shown(name)} cannot be the name of a table`)
  return { namespace, layer, name }
}

/** A zone's name as written in `landing_zone()`. Throws `NameError`. */
export function parseZoneName(text: string): string {
  if (!ZONE.test(text))
    throw new NameError(
      `${shown(text)} cannot be the name of a landing zone: lowercase letters, digits and hyphens`,
    )
  return text
}

/** The one spelling of a table, to compare and to key maps with. */
export const tableKey = (table: TableName): string => `${table.namespace}.${table.layer}.${table.name}`

const SHOWN_CHARACTERS = 80

function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value)
  } catch {
    // YAML can say it with an alias.
    return 'a value that holds itself'
  }
}

/** A value as it is quoted back in a message: bounded, and safe to print. */
export function shown(value: unknown): string {
  const text = jsonOf(value) ?? String(value)
  return text.length <= SHOWN_CHARACTERS ? text : `${text.slice(0, SHOWN_CHARACTERS)}…`
}
