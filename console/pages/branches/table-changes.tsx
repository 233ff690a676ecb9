import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { api, ok, segment } from '../../api/client.ts'
import { Button } from '../../design/controls.tsx'
import { DataGrid } from '../../design/data-grid.tsx'
import { count } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Layer, Pill } from '../../design/status.tsx'
import { Empty, Notice } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'

type Diff = Awaited<ReturnType<ReturnType<typeof diffQuery>>>
const diffQuery = (branch: string) => () => ok(api.branches({ branch }).diff.get({ query: {} }))
type Change = Diff['tables'][number]

const ROWS_SHOWN = '200'

const signed = (sign: '+' | '−', value: number | null) => (value === null ? '?' : `${sign}${count(value)}`)

const keyOf = ({ namespace, layer, name }: Change) => `${namespace}.${layer}.${name}`

/** Reads the differing rows of a table. */
export type ReadRows = (table: Change, limit: string) => Promise<unknown>

export const rowsOfBranch =
  (branch: string): ReadRows =>
  ({ namespace: ns, layer, name }, limit) =>
    ok(
      api
        .branches({ branch: segment(branch) })
        .diff({ ns })({ layer })({ name })
        .get({ query: { limit } }),
    )

/** The changed tables of a branch or a run, whose rows can be compared. `of` names both in the cache. */
export function TableChanges({
  tables,
  of,
  readRows,
}: {
  tables: readonly Change[]
  of: readonly string[]
  readRows: ReadRows
}) {
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
      {shown && <RowChanges key={keyOf(shown)} of={of} table={shown} readRows={readRows} />}
    </>
  )
}

function SchemaText({ schema }: { schema: Change['schema'] }) {
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
function RowChanges({ of, table, readRows }: { of: readonly string[]; table: Change; readRows: ReadRows }) {
  const { namespace, layer, name } = table
  const query = useQuery({
    queryKey: [...of, 'rows', namespace, layer, name],
    queryFn: () => readRows(table, ROWS_SHOWN),
    retry: false,
    placeholderData: (before) => before,
  })
  return (
    <div className="card-body">
      <Loaded query={query}>{(diff) => <RowGrid diff={diff as RowDiff} name={name} />}</Loaded>
    </div>
  )
}

type Row = Record<string, unknown>
/** The schema of the API says only that rows are objects. */
interface RowDiff {
  columns: { name: string; type: string }[]
  added: Row[]
  removed: Row[]
  changed: { before: Row; after: Row }[]
  truncated: boolean
}

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
