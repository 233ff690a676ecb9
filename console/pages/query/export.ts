export type Format = 'csv' | 'json' | 'arrow'

type Columns = readonly { name: string; type: string }[]
type Rows = readonly (readonly unknown[])[]

/** Time until the browser has read the file. */
const KEPT_MS = 10_000

/** Saves rows as a file. Arrow is loaded on demand. */
export async function exportAs(format: Format, columns: Columns, rows: Rows): Promise<void> {
  if (format === 'arrow') {
    const { tableFromArrays, tableToIPC } = await import('apache-arrow')
    const arrays = Object.fromEntries(
      columns.map(({ name }, index) => [name, rows.map((row) => scalar(row[index]))]),
    )
    const bytes = tableToIPC(tableFromArrays(arrays as Record<string, unknown[]>), 'file')
    return save(
      new Blob([new Uint8Array(bytes)], { type: 'application/vnd.apache.arrow.file' }),
      'query.arrow',
    )
  }
  if (format === 'json') {
    const objects = rows.map((row) =>
      Object.fromEntries(columns.map(({ name }, index) => [name, row[index]])),
    )
    return save(new Blob([JSON.stringify(objects)], { type: 'application/json' }), 'query.json')
  }
  save(new Blob([csvOf(columns, rows)], { type: 'text/csv' }), 'query.csv')
}

/** Arrow infers one type for each column, so nested values become text. */
const scalar = (value: unknown): unknown =>
  value === undefined ? null : typeof value === 'object' && value !== null ? JSON.stringify(value) : value

/** RFC 4180. NULL is an empty field. */
export function csvOf(columns: Columns, rows: Rows): string {
  const line = (values: readonly unknown[]) => values.map(fieldOf).join(',')
  return [line(columns.map(({ name }) => name)), ...rows.map(line)].map((text) => `${text}\r\n`).join('')
}

function fieldOf(value: unknown): string {
  if (value === null || value === undefined) return ''
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

function save(blob: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(blob)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS)
}
