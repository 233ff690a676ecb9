/** The kinds of columns in files with types. Other types of DuckDB become text. */
type Kind = 'BOOLEAN' | 'INT64' | 'DOUBLE' | 'TIMESTAMP' | 'STRING'

export interface TypedColumn {
  name: string
  kind: Kind
  values: (boolean | bigint | number | Date | string | null)[]
}

const KINDS: readonly [RegExp, Kind][] = [
  [/^BOOLEAN$/, 'BOOLEAN'],
  [/^U?(TINYINT|SMALLINT|INTEGER)$|^BIGINT$/, 'INT64'],
  [/^(FLOAT|DOUBLE|DECIMAL\(\d+,\d+\))$/, 'DOUBLE'],
  [/^(DATE|TIMESTAMP( WITH TIME ZONE)?)$/, 'TIMESTAMP'],
]

/** The columns of a result, each with values of one kind. */
export const typedColumns = (
  columns: readonly { name: string; type: string }[],
  rows: readonly (readonly unknown[])[],
): TypedColumn[] =>
  columns.map(({ name, type }, index) => {
    const kind = KINDS.find(([pattern]) => pattern.test(type))?.[1] ?? 'STRING'
    return { name, kind, values: rows.map((row) => typedValue(kind, row[index])) }
  })

function typedValue(kind: Kind, value: unknown): TypedColumn['values'][number] {
  if (value === null || value === undefined) return null
  switch (kind) {
    case 'BOOLEAN':
      return value === true
    case 'INT64':
      return BigInt(String(value))
    case 'DOUBLE':
      return Number(value)
    case 'TIMESTAMP':
      return timeOf(String(value))
    case 'STRING':
      return typeof value === 'object' ? JSON.stringify(value) : String(value)
  }
}

/** DuckDB also has infinite times, which no file format of this page has. */
function timeOf(text: string): Date | null {
  const time = new Date(/T.*(Z|[+-]\d\d(:?\d\d)?)$|^\d{4}-\d\d-\d\d$/.test(text) ? text : `${text}Z`)
  return Number.isNaN(time.getTime()) ? null : time
}
