import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import { restoreTable, type TableAt, tableChanged, tableHistoryQuery } from '../../api/tables.ts'
import { Time } from '../../design/clock.tsx'
import { Button } from '../../design/controls.tsx'
import { count } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { Card } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { say } from '../../design/toasts.tsx'

/** The states of the table: look at one, or restore one on main. A new state loads the rest of the page again. */
export function History({
  at,
  branch,
  onOpen,
}: {
  at: TableAt
  branch: string
  onOpen: (commit: number) => void
}) {
  const [restored, setRestored] = useState<number | null>(null)
  const query = useQuery(tableHistoryQuery(at, branch))
  const newest = query.data?.history[0]?.commit_id
  const { ns, layer, name } = at
  const loaded = useRef<string | undefined>(undefined)
  useEffect(() => {
    if (newest === undefined || newest === loaded.current) return
    if (loaded.current !== undefined) void tableChanged({ ns, layer, name })
    loaded.current = newest
  }, [newest, ns, layer, name])
  return (
    <Card title="History" isFlush>
      <Loaded query={query}>
        {({ history }) => (
          <Table
            label="States of the table"
            rows={history}
            keyOf={({ commit_id: id }) => id}
            columns={[
              {
                name: 'Commit',
                cell: ({ commit, commit_id: id }) => commit ?? <code>{id.slice(0, 8)}</code>,
              },
              { name: 'When', cell: (state) => <Time at={state.created_at} /> },
              { name: 'Operation', cell: (state) => state.operation ?? '–' },
              { name: 'Rows', isNumeric: true, cell: (state) => count(state.row_count) },
              {
                name: 'Change',
                isNumeric: true,
                cell: (state) => `+${amount(state.rows_added)} −${amount(state.rows_removed)}`,
              },
              {
                name: 'By',
                cell: ({ run_id: id }) =>
                  id === null ? (
                    '–'
                  ) : (
                    <Link to="/runs/$id" params={{ id }}>
                      its run
                    </Link>
                  ),
              },
              {
                name: 'Actions',
                cell: ({ commit }) =>
                  commit !== null && (
                    <span className="row">
                      <Button size="small" onClick={() => onOpen(commit)}>
                        Look at it
                      </Button>
                      {branch === '' && (
                        <Button size="small" onClick={() => setRestored(commit)}>
                          Restore
                        </Button>
                      )}
                    </span>
                  ),
              },
            ]}
          />
        )}
      </Loaded>
      <FormDialog
        title={`Restore the state of commit ${restored}`}
        description="The table gets this state as a new commit. Later states stay in the history."
        isOpen={restored !== null}
        onClose={() => setRestored(null)}
        submitLabel="Restore"
        submit={async () => {
          await restoreTable(at, restored ?? 0)
          say(`The table has the state of commit ${restored}`)
        }}
      />
    </Card>
  )
}

const amount = (rows: number | null) => (rows === null ? '?' : count(rows))
