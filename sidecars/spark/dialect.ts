import type { TableName } from '../../ground/names.ts'

// Names in Spark SQL.

/** The name of the lake's catalog in every session. */
export const CATALOG = 'sluice'

export const quoteName = (name: string) => `\`${name.replaceAll('`', '``')}\``

/** A table. Namespaces have one level, because some statements of Sail need that. */
export const tableIn = ({ namespace, layer, name }: TableName) =>
  [CATALOG, `${namespace}__${layer}`, name].map(quoteName).join('.')

export const stringLiteral = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
