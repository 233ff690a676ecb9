// Columns of tables of runs.
import type { ListedRun } from '../api/runs.ts'
import { count, duration } from './format.ts'
import { Status } from './status.tsx'
import type { Column } from './table.tsx'

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
