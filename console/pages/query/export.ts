import { save } from '../../shell/save.ts'
import { type TypedColumn, typedColumns } from './typed-columns.ts'

export type Format = 'csv' | 'json' | 'parquet' | 'arrow'

type Columns = readonly { name: string; type: string }[]
type Rows = readonly (readonly unknown[])[]

/** Saves rows as a file. Arrow and Parquet are loaded on demand. */
export async function exportAs(format: Format, columns: Columns, rows: Rows): Promise<void> {
  if (format === 'arrow') {
    const bytes = await arrowOf(typedColumns(columns, rows))
    return save(new Blob([bytes], { type: 'application/vnd.apache.arrow.file' }), 'query.arrow')
  }
  if (format === 'parquet') {
    const bytes = await parquetOf(typedColumns(columns, rows))
    return save(new Blob([bytes], { type: 'application/vnd.apache.parquet' }), 'query.parquet')
  }
  if (format === 'json') {
    const objects = rows.map((row) =>
      Object.fromEntries(columns.map(({ name }, index) => [name, row[index]])),
    )
    return save(new Blob([JSON.stringify(objects)], { type: 'application/json' }), 'query.json')
  }
  save(new Blob([csvOf(columns, rows)], { type: 'text/csv' }), 'query.csv')
}

export async function parquetOf(columns: readonly TypedColumn[]): Promise<ArrayBuffer> {
  const { parquetWriteBuffer } = await import('hyparquet-writer')
  return parquetWriteBuffer({
    columnData: columns.map(({ name, kind, values }) => ({ name, type: kind, data: values })),
  })
}

/** An Arrow file. The builders of apache-arrow make functions from text, which the policy of the page forbids. */
export async function arrowOf(columns: readonly TypedColumn[]): Promise<Uint8Array<ArrayBuffer>> {
  const { bool, float64, int64, tableFromArrays, tableToIPC, TimeUnit, timestamp, utf8 } = await import(
    '@uwdata/flechette'
  )
  const types = {
    BOOLEAN: bool(),
    INT64: int64(),
    DOUBLE: float64(),
    TIMESTAMP: timestamp(TimeUnit.MILLISECOND),
    STRING: utf8(),
  }
  const table = tableFromArrays(
    columns.map(({ name, values }): [string, unknown[]] => [name, values]),
    { types: Object.fromEntries(columns.map(({ name, kind }) => [name, types[kind]])) },
  )
  return new Uint8Array(tableToIPC(table, { format: 'file' }) as Uint8Array)
}

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
