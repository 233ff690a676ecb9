// Names as written inside `ref()` and `landing_zone()`.

import { LAYERS, layerOf, type TableName } from '../../ground/names.ts'
import { BadGlob, checkGlob } from './glob.ts'

const NAMESPACE = /^[a-z][a-z0-9-]{2,62}$/
const TABLE = /^[a-z0-9][a-z0-9_-]{0,127}$/
const ZONE = /^[a-z0-9][a-z0-9-]{0,127}$/

/** The text is not a valid name of a table or zone. The message describes a valid name. */
export class NameError extends Error {
  override readonly name = 'NameError'
}

/** Parses `layer.name` or `namespace.layer.name` from `ref()`. The first form uses `defaultNamespace`. Throws `NameError`. */
export function parseTableName(text: string, defaultNamespace: string): TableName {
  const parts = text.split('.')
  if (parts.length < 2 || parts.length > 3)
    throw new NameError(`${shown(text)} is not a table name: write 'layer.name' or 'namespace.layer.name'`)
  const [name = '', layerText = '', namespace = defaultNamespace] = parts.toReversed()
  const layer = layerOf(layerText)
  if (layer === undefined)
    throw new NameError(
      `${shown(text)}: the layer must be one of ${LAYERS.join(', ')}, not ${shown(layerText)}`,
    )
  if (!NAMESPACE.test(namespace))
    throw new NameError(
      `${shown(text)}: ${shown(namespace)} cannot be the name of a namespace: use 3 to 63 lowercase letters, digits and hyphens, starting with a letter`,
    )
  if (!TABLE.test(name))
    throw new NameError(
      `${shown(text)}: ${shown(name)} cannot be the name of a table: use up to 128 lowercase letters, digits, hyphens and underscores, starting with a letter or digit`,
    )
  return { namespace, layer, name }
}

/** Checks a zone's name from `landing_zone()`. Throws `NameError`. */
export function parseZoneName(text: string): string {
  if (!ZONE.test(text))
    throw new NameError(
      `${shown(text)} cannot be the name of a landing zone: lowercase letters, digits and hyphens`,
    )
  return text
}

/**
 * The files that one call of `landing_zone()` reads: `orders` for all files of the zone, `orders/*.csv` for the files whose
 * original names match the pattern. Throws `NameError`.
 */
export function zoneSelection(name: string, pattern: string | null = null): string {
  const zone = parseZoneName(name)
  if (pattern === null) return zone
  try {
    checkGlob(pattern)
  } catch (error) {
    if (!(error instanceof BadGlob)) throw error
    throw new NameError(`the pattern ${shown(pattern)} of landing_zone() ${error.message}`)
  }
  return `${zone}/${pattern}`
}

/** The zone and the pattern of a selection. Null: the selection has all files of the zone. */
export function partsOfSelection(selection: string): { zone: string; pattern: string | null } {
  const slash = selection.indexOf('/')
  if (slash === -1) return { zone: selection, pattern: null }
  return { zone: selection.slice(0, slash), pattern: selection.slice(slash + 1) }
}

const SHOWN_CHARACTERS = 80

function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value)
  } catch {
    // With an alias, a YAML value can contain itself.
    return 'a value that contains itself'
  }
}

/** Quotes a value for a message: limited in length, and safe to print. */
export function shown(value: unknown): string {
  const text = jsonOf(value) ?? String(value)
  return text.length <= SHOWN_CHARACTERS ? text : `${text.slice(0, SHOWN_CHARACTERS)}…`
}
