// Columns of tables of runs.
import { count, duration } from '../../design/format.ts'
import { Status } from '../../design/status.tsx'
import type { Column } from '../../design/table.tsx'
import type { ListedRun } from './pages.ts'

export const STATUS: Column<Pick<ListedRun, 'status' | 'phase'>> = {
  name: 'Status',
  cell: (run) => <Status status={run.status} phase={run.phase} />,
}

export const ROWS: Column<Pick<ListedRun, 'rows_written'>> = {
  name: 'Rows',
  isNumeric: true,
  cell: ({ rows_written }) => (rows_written === null ? '–' : count(rows_written)),
}

export const DURATION: Column<Pick<ListedRun, 'duration_ms'>> = {
  name: 'Duration',
  isNumeric: true,
  cell: ({ duration_ms }) => (duration_ms === null ? '–' : duration(duration_ms)),
}
