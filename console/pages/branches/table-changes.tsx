import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import type { RowDiff, rowsQuery, TableChange } from '../../api/diff.ts'
import { Button } from '../../design/controls.tsx'
import { DataGrid } from '../../design/data-grid.tsx'
import { count } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Layer, Pill } from '../../design/status.tsx'
import { Empty, Notice } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'

const signed = (sign: '+' | '−', value: number | null) => (value === null ? '?' : `${sign}${count(value)}`)

const keyOf = ({ namespace, layer, name }: TableChange) => `${namespace}.${layer}.${name}`

/** The query of the differing rows of a table. */
type RowsOf = (table: TableChange) => ReturnType<typeof rowsQuery>

/** The changed tables of a branch or a run, whose rows can be compared. */
export function TableChanges({ tables, rowsOf }: { tables: readonly TableChange[]; rowsOf: RowsOf }) {
  const [shownKey, setShownKey] = useState('')
  const shown = tables.find((table) => keyOf(table) === shownKey)
  return (
    <>
      <Table
        label="Changed tables"
        rows={tables}
        keyOf={keyOf}
        columns={[
          {
            name: 'Table',
            cell: (table) => (
              <span className="row">
                <Layer layer={table.layer} /> {table.namespace}.{table.layer}.{table.name}
              </span>
            ),
          },
          {
            name: 'Change',
            cell: (table) => (
              <span className="row">
                {table.change}
                {table.conflict && <Pill tone="bad">conflict</Pill>}
              </span>
            ),
          },
          { name: 'Columns', cell: (table) => <SchemaText schema={table.schema} /> },
          { name: 'Rows before', isNumeric: true, cell: (table) => count(table.rows_before) },
          { name: 'Rows after', isNumeric: true, cell: (table) => count(table.rows_after) },
          { name: 'Added', isNumeric: true, cell: (table) => signed('+', table.rows_added) },
          { name: 'Removed', isNumeric: true, cell: (table) => signed('−', table.rows_removed) },
          {
            name: 'Rows',
            cell: (table) => (
              <Button
                size="small"
                aria-expanded={shown === table}
                onClick={() => setShownKey(shown === table ? '' : keyOf(table))}
              >
                {shown === table ? 'Hide rows' : 'Compare rows'}
              </Button>
            ),
          },
        ]}
      />
      {shown && <RowChanges key={keyOf(shown)} table={shown} rowsOf={rowsOf} />}
    </>
  )
}

function SchemaText({ schema }: { schema: TableChange['schema'] }) {
  const parts = [
    ...schema.added.map(({ name, type }) => `+ ${name} ${type}`),
    ...schema.removed.map(({ name }) => `− ${name}`),
    ...schema.changed.map(({ name, from, to, renamed_from: old }) =>
      old === null ? `${name} ${from} → ${to}` : `${old} → ${name}`,
    ),
  ]
  return parts.length === 0 ? (
    <span className="muted">same</span>
  ) : (
    <span className="mono">{parts.join(', ')}</span>
  )
}

/** The rows of a table that a branch or a run adds, removes and changes. */
function RowChanges({ table, rowsOf }: { table: TableChange; rowsOf: RowsOf }) {
  const query = useQuery(rowsOf(table))
  return (
    <div className="card-body">
      <Loaded query={query}>{(diff) => <RowGrid diff={diff} name={table.name} />}</Loaded>
    </div>
  )
}

type Row = Record<string, unknown>

function RowGrid({ diff, name }: { diff: RowDiff; name: string }) {
  const { rows, tones } = useMemo(() => {
    const lines: ['added' | 'removed', Row][] = [
      ...diff.changed.flatMap(({ before, after }): ['added' | 'removed', Row][] => [
        ['removed', before],
        ['added', after],
      ]),
      ...diff.removed.map((row): ['removed', Row] => ['removed', row]),
      ...diff.added.map((row): ['added', Row] => ['added', row]),
    ]
    const signs = { added: '+', removed: '−' }
    return {
      rows: lines.map(([tone, row]) => [signs[tone], ...diff.columns.map((column) => row[column.name])]),
      tones: lines.map(([tone]) => tone),
    }
  }, [diff])
  if (rows.length === 0) return <Empty icon="lake" title="No row differs" />
  return (
    <div className="stack">
      {diff.truncated && <Notice>Only the first rows are shown.</Notice>}
      <DataGrid
        label={`Changed rows of ${name}`}
        columns={[{ name: '±', type: '' }, ...diff.columns]}
        rows={rows}
        rowTone={(row) => tones[row]}
      />
    </div>
  )
}
