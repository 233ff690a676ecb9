// Names that complete a text: tables, and the columns of the tables that the text reads.

export interface LakeTable {
  namespace: string
  layer: string
  name: string
  columns: readonly { name: string }[]
}

export interface Completion {
  label: string
  detail: string
}

/** A table in a text, and the name that its columns have there. */
interface Mention {
  table: string
  alias: string
}

/** `silver.orders as o`, `"my-namespace".silver."my-orders"`, or `ref('silver.orders') }} o`. */
const TABLE =
  /((?:"[\w-]+"|\b[\w-]+)\.)?("(?:bronze|silver|gold)"|\b(?:bronze|silver|gold))\.("[\w-]+"|[\w-]+)(?:['"]\s*\)\s*\}{1,2})?(?:\s*\b(?:as\s+)?([a-z_]\w*))?/gi
/** Words that may follow a table and are no alias. */
const KEYWORDS = new Set(
  `anti asof cross except full group having inner intersect join left limit natural on order pivot positional qualify
  right semi tablesample union unpivot using where window`.split(/\s+/),
)

/** The tables that a text mentions, each name once. `namespace` is the one of names without a namespace. */
export function mentionsIn(text: string, namespace: string): Mention[] {
  const found = new Map<string, Mention>()
  for (const [, own = `${namespace}.`, layer = '', name = '', word = ''] of text.matchAll(TABLE)) {
    const table = `${own}${layer}.${name}`.replaceAll('"', '')
    const alias = KEYWORDS.has(word.toLowerCase()) ? '' : word
    found.set(`${table} ${alias}`, { table, alias })
  }
  return [...found.values()]
}

/** The columns of mentioned tables, as `amount`, and with their alias as `o.amount`. */
export function columnsOf(mentions: readonly Mention[], tables: readonly LakeTable[]): Completion[] {
  const names = new Set(mentions.map(({ table }) => table))
  const columns = new Map(
    tables.filter((table) => names.has(keyOf(table))).map((table) => [keyOf(table), table.columns]),
  )
  const labels = new Map<string, Completion>()
  for (const { table, alias } of mentions)
    for (const { name } of columns.get(table) ?? []) {
      const detail = `column of ${table}`
      labels.set(name, { label: name, detail })
      if (alias !== '') labels.set(`${alias}.${name}`, { label: `${alias}.${name}`, detail })
    }
  return [...labels.values()]
}

const keyOf = ({ namespace, layer, name }: LakeTable) => `${namespace}.${layer}.${name}`
