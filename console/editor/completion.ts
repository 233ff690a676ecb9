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

/**
 * `silver.orders as o`, `"my-namespace".silver."my-orders"`, or `ref('silver.orders') }} o`. A name starts only where no other
 * ends, so that the time stays linear.
 */
const TABLE =
  /(?:("[\w-]{1,128}"|(?<![\w-])[\w-]{1,128})\.)?("(?:bronze|silver|gold)"|(?<![\w-])(?:bronze|silver|gold))\.("[\w-]{1,128}"|[\w-]{1,128})(?:['"]\s{0,9}\)\s{0,9}\}{1,2})?(?:\s{0,99}\b(?:as\s{1,9})?([a-z_]\w*))?/gi
/** Words that may follow a table and are no alias. */
const KEYWORDS = new Set(
  `and anti as asof at cross except fetch for from full group having inner intersect join left limit natural offset on or order
  pivot positional qualify right select semi set tablesample union unpivot using where window with`.split(
    /\s+/,
  ),
)
const COMMENT = /--[^\n]*/g

/** The tables that a text mentions, each name once. `namespace` is the one of names without a namespace. */
export function mentionsIn(text: string, namespace: string): Mention[] {
  const found = new Map<string, Mention>()
  const code = text.replaceAll(COMMENT, '')
  for (const [, own = namespace, layer = '', name = '', word = ''] of code.matchAll(TABLE)) {
    const table = `${own}.${layer}.${name}`.replaceAll('"', '')
    const alias = KEYWORDS.has(word.toLowerCase()) ? '' : word
    found.set(`${table} ${alias}`, { table, alias })
  }
  return [...found.values()]
}

/** A name with other characters than letters, digits and `_` needs quotes in SQL. */
export const quoted = (name: string) => (/^[a-z_]\w*$/i.test(name) ? name : `"${name.replaceAll('"', '""')}"`)

/** The text before the cursor that a completion replaces: `ref('silver.or`, `"my-na`, or `o.am`. */
export const UNFINISHED =
  /\b(?:ref|landing_zone)\(\s{0,9}['"]?[\w.-]{0,300}|(?:"[\w-]{1,128}"\.|\w{1,128}\.){0,2}"[\w-]{0,128}|[\w.]{1,300}/

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
      for (const label of [quoted(name), ...(alias === '' ? [] : [`${alias}.${quoted(name)}`])])
        labels.set(label, { label, detail })
    }
  return [...labels.values()]
}

const keyOf = ({ namespace, layer, name }: LakeTable) => `${namespace}.${layer}.${name}`
