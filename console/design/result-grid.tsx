import { useMemo } from 'react'
import { DataGrid, type DataGridProps } from './data-grid.tsx'

/** The rows of a query, which the API gives as objects. */
export function ResultGrid({
  rows,
  ...rest
}: Omit<DataGridProps, 'rows'> & { rows: readonly Readonly<Record<string, unknown>>[] }) {
  const { columns } = rest
  const cells = useMemo(() => rows.map((row) => columns.map(({ name }) => row[name])), [rows, columns])
  return <DataGrid {...rest} rows={cells} />
}
