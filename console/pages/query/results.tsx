import { useMemo, useState } from 'react'
import { Button, SearchField, Segments } from '../../design/controls.tsx'
import { DataGrid } from '../../design/data-grid.tsx'
import { count } from '../../design/format.ts'
import { Empty } from '../../design/surfaces.tsx'
import { performing } from '../../design/toasts.tsx'
import { lazyPart } from '../../shell/lazy-part.tsx'
import { exportAs, type Format } from './export.ts'
import { Plan } from './plan.tsx'

const Chart = lazyPart(() => import('./chart.tsx'))

export interface Result {
  columns: { name: string; type: string }[]
  rows: Record<string, unknown>[]
  truncated: boolean
  duration_ms: number
}

const VIEWS = [
  { value: 'table', label: 'Table' },
  { value: 'chart', label: 'Chart' },
] as const

const FORMATS: readonly { format: Format; label: string }[] = [
  { format: 'csv', label: 'CSV' },
  { format: 'json', label: 'JSON' },
  { format: 'parquet', label: 'Parquet' },
  { format: 'arrow', label: 'Arrow' },
]

/** The rows of a query: as a table with sort and filter, or as a chart; and as a file. */
export function Results({ result }: { result: Result }) {
  const [view, setView] = useState<'table' | 'chart'>('table')
  const [filter, setFilter] = useState('')
  const { columns, rows } = result
  const cells = useMemo(() => rows.map((row) => columns.map(({ name }) => row[name])), [rows, columns])
  const shown = useMemo(() => {
    const text = filter.toLowerCase()
    return text === ''
      ? cells
      : cells.filter((row) => row.some((cell) => String(cell).toLowerCase().includes(text)))
  }, [cells, filter])
  if (isPlan(columns)) return <Plan text={String(rows[0]?.explain_value ?? '')} />
  return (
    <div className="stack">
      <div className="row">
        <Segments label="View" value={view} choices={VIEWS} onChange={setView} />
        <SearchField label="Filter the rows" value={filter} onChange={setFilter} />
        {filter && <span className="muted">{count(shown.length)} rows have this text</span>}
        <span className="grow" />
        {FORMATS.map(({ format, label }) => (
          <Button
            key={format}
            size="small"
            icon="download"
            onClick={() => void performing(exportAs(format, columns, shown), `${label} file is ready`)}
          >
            {label}
          </Button>
        ))}
      </div>
      {shown.length === 0 ? (
        <Empty icon="query" title="No rows" />
      ) : view === 'table' ? (
        <DataGrid label="Rows of the query" columns={columns} rows={shown} height="60vh" isSortable />
      ) : (
        <Chart columns={columns} rows={shown} />
      )}
    </div>
  )
}

/** The answer of EXPLAIN has one text for each kind of plan. */
export const isPlan = (columns: Result['columns']) =>
  columns.length === 2 && columns[0]?.name === 'explain_key' && columns[1]?.name === 'explain_value'
