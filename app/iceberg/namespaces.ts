/**
 * Namespaces and tables of a session in Iceberg's form. A namespace is `[namespace, layer]`; tables belong to a layer. Engines
 * that know one level only write `[namespace__layer]`.
 */

import type { Sql } from '../../drizzle/client.ts'
import { LAYERS, layerOf, type TableName } from '../../ground/names.ts'
import { seesEverything } from '../core/access.ts'
import {
  type Content,
  type NamePage,
  namespaceNames,
  tableNamesIn,
  tablesIn,
} from '../versions/store/tables.ts'
import { forbidden, namespaceExists, noSuchNamespace } from './errors.ts'
import { pageOfNames } from './name-pages.ts'
import type { Session } from './session.ts'

/** No name of a namespace contains an underscore. */
const ONE_LEVEL_SEPARATOR = '__'

export function makeNamespaces({ sql }: { sql: Sql }) {
  /** Namespaces that the session sees, those of the tables that it sees, and the namespace of its own table. */
  async function namesFor(session: Session): Promise<string[]> {
    const visible = await session.visible()
    const existing = await namespaceNames(sql)
    if (seesEverything(visible)) return existing
    const own = session.own === null ? [] : [session.own.claims.target]
    const tables = [...own, ...(await tablesIn(sql, session.view, visible))]
    const names = new Set(tables.map(({ namespace }) => namespace))
    for (const name of existing)
      if (visible.namespaces === 'all' || visible.namespaces.includes(name)) names.add(name)
    return [...names].sort()
  }

  async function checkNamespace(session: Session, levels: readonly string[]): Promise<void> {
    checkLevels(levels, await namesFor(session))
  }

  return {
    /** The namespaces directly below `parent`: Sluice namespaces at the root, layers below each namespace. */
    async namespaces(session: Session, parent: readonly string[], page: NamePage) {
      const names = await namesFor(session)
      const [namespace] = parent
      if (namespace !== undefined) {
        checkLevels(parent, names)
        if (!isParent(parent)) return { namespaces: [] }
        // Layers have their own order, which is not the order of their names.
        const layers: readonly string[] = LAYERS
        const found = pageOfNames(layers.slice(layers.indexOf(page.after) + 1), page.limit)
        return { namespaces: found.names.map((layer) => [namespace, layer]), ...found.next }
      }
      const later = [...names].sort().filter((name) => name > page.after)
      const found = pageOfNames(later, page.limit)
      return { namespaces: found.names.map((name) => [name]), ...found.next }
    },

    /** Throws when the namespace does not exist. */
    checkNamespace,

    /** Always throws, because namespaces are created in the Sluice API. */
    async createNamespace(session: Session, levels: readonly string[]): Promise<never> {
      await checkNamespace(session, levels).catch(() => {
        throw forbidden(
          `namespace ${levels.join('.')} does not exist: create it with POST /api/v1/namespaces of Sluice`,
        )
      })
      throw namespaceExists(levels)
    },

    /** The tables, or views, of one namespace that the session sees. A parent has none. */
    async tables(session: Session, levels: readonly string[], page: NamePage, kind: Content['kind']) {
      await checkNamespace(session, levels)
      const table = tableNamed(levels, '')
      if (table === null) return { identifiers: [] }
      const limit = page.limit === null ? null : page.limit + 1
      const { namespace, layer } = table
      const wanted = { kind, namespace, layer, after: page.after, limit }
      const names = await tableNamesIn(sql, session.view, wanted, await session.visible())
      const found = pageOfNames(names, page.limit)
      return { identifiers: found.names.map((name) => ({ namespace: levels, name })), ...found.next }
    },
  }
}

/** Converts an Iceberg namespace and a name to a table name; null when the namespace has no tables. */
export function tableNamed(levels: readonly string[], name: string): TableName | null {
  const [namespace, layerText, ...rest] = twoLevels(levels)
  const layer = layerOf(layerText)
  return namespace === undefined || layer === undefined || rest.length > 0 ? null : { namespace, layer, name }
}

/** The namespace of Sluice, and the layer if the levels name one. */
export const twoLevels = (levels: readonly string[]): readonly string[] =>
  levels.length === 1 ? (levels[0]?.split(ONE_LEVEL_SEPARATOR) ?? []) : levels

const isParent = (levels: readonly string[]) => twoLevels(levels).length === 1

function checkLevels(levels: readonly string[], namespaces: readonly string[]) {
  const [namespace, layer, ...rest] = twoLevels(levels)
  const isKnown = namespace !== undefined && namespaces.includes(namespace)
  const isLayer = layer === undefined || layerOf(layer) !== undefined
  if (!isKnown || !isLayer || rest.length > 0) throw noSuchNamespace(levels)
}
