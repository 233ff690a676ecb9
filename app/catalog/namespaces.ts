/** Namespaces and tables of a session in Iceberg's form. A namespace is `[namespace, layer]`; tables belong to a layer. */
import type { Sql } from '../../drizzle/client.ts'
import { LAYERS, type TableName } from '../../lake/pipeline/names.ts'
import { seesEverything } from '../core/access.ts'
import type { Session } from './access.ts'
import { noSuchNamespace } from './errors.ts'
import { namespaceNames, tablesIn } from './store/tables.ts'

export function makeNamespaces({ sql }: { sql: Sql }) {
  /** Namespaces of the tables that the session sees, and the namespace of its own table. */
  async function namesFor(session: Session): Promise<string[]> {
    const visible = await session.seen()
    if (seesEverything(visible)) return namespaceNames(sql)
    const own = session.own === null ? [] : [session.own.claims.target]
    const tables = [...own, ...(await tablesIn(sql, session.view, visible))]
    return [...new Set(tables.map(({ namespace }) => namespace))].sort()
  }

  return {
    /** The namespaces directly below `parent`: Sluice namespaces at the root, layers below each namespace. */
    async namespaces(session: Session, parent: readonly string[]): Promise<string[][]> {
      const names = await namesFor(session)
      const [namespace] = parent
      if (namespace === undefined) return names.map((name) => [name])
      checkLevels(parent, names)
      return parent.length === 1 ? LAYERS.map((layer) => [namespace, layer]) : []
    },

    /** Throws when the namespace does not exist. */
    async checkNamespace(session: Session, levels: readonly string[]): Promise<void> {
      checkLevels(levels, await namesFor(session))
    },

    /** The tables of one layer of a namespace that the session sees. */
    async tables(session: Session, levels: readonly string[]): Promise<TableName[]> {
      checkLevels(levels, await namesFor(session))
      const [namespace, layer] = levels
      return (await tablesIn(sql, session.view, await session.seen())).filter(
        (table) => table.namespace === namespace && table.layer === layer,
      )
    },
  }
}

/** Converts an Iceberg namespace `[namespace, layer]` and a name to a table name. */
export function tableNamed(levels: readonly string[], name: string): TableName {
  const [namespace, layerText, ...rest] = levels
  const layer = LAYERS.find((known) => known === layerText)
  if (namespace === undefined || layer === undefined || rest.length > 0) throw noSuchNamespace(levels)
  return { namespace, layer, name }
}

function checkLevels(levels: readonly string[], namespaces: readonly string[]) {
  const [namespace, layer, ...rest] = levels
  const isKnown = namespace !== undefined && namespaces.includes(namespace)
  const isLayer = layer === undefined || LAYERS.some((known) => known === layer)
  if (!isKnown || !isLayer || rest.length > 0) throw noSuchNamespace(levels)
}
