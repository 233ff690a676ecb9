import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { api, ok } from '../../api/client.ts'
import { queryClient } from '../../api/queries.ts'
import { Time } from '../../design/clock.tsx'
import { Button, TextArea, TextField } from '../../design/controls.tsx'
import { bytes, count, counted } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { ResultGrid } from '../../design/result-grid.tsx'
import { Card, Empty, Notice, Page } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { useFilters } from '../../shell/filters.ts'
import { BranchSelect } from '../branches/branch-select.tsx'
import { Attach, type TableAt } from './attach.tsx'

const tableAt = ({ ns, layer, name }: TableAt) => api.tables({ ns })({ layer })({ name })
const tableQuery = (at: TableAt, where: Record<string, string>) => () => ok(tableAt(at).get({ query: where }))
type Loaded_ = Awaited<ReturnType<ReturnType<typeof tableQuery>>>

const PREVIEW_ROWS = '200'

/** One table: its columns, rows and earlier states, on main, on a branch or as of a commit. */
export default function TablePage() {
  const at = useParams({ from: '/lake/$ns/$layer/$name' })
  const [filters, change] = useFilters()
  const { branch = '', as_of: asOf = '' } = filters
  const where: Record<string, string> = { ...(branch && { branch }), ...(asOf && { as_of: asOf }) }
  const key = ['tables', at.ns, at.layer, at.name, branch, asOf]
  const table = useQuery({ queryKey: key, queryFn: tableQuery(at, where) })
  const preview = useQuery({
    queryKey: [...key, 'preview'],
    queryFn: () => ok(tableAt(at).preview.get({ query: { ...where, limit: PREVIEW_ROWS } })),
  })
  return (
    <Page
      title={`${at.ns}.${at.layer}.${at.name}`}
      crumbs={<Link to="/lake">Lake</Link>}
      subtitle={table.data && `${counted(table.data.row_count, 'row')}, ${bytes(table.data.size_bytes)}`}
      actions={
        <>
          <BranchSelect value={branch} onChange={(value) => change({ branch: value, as_of: '' })} />
          <Link
            className="button"
            to="/query"
            search={{
              sql: `select * from "${at.ns}".${at.layer}."${at.name}" limit 100`,
              ...(branch && { branch }),
            }}
          >
            Query
          </Link>
          <Link className="button" to="/pipelines/$ns/$layer/$name" params={at}>
            Pipeline
          </Link>
          <Link
            className="button"
            to="/lineage"
            search={{ node: `table:${at.ns}.${at.layer}.${at.name}`, focus: 'upstream' }}
          >
            Lineage
          </Link>
        </>
      }
    >
      {asOf && (
        <Notice
          tone="warn"
          actions={
            <Button size="small" onClick={() => change({ as_of: '' })}>
              Back to the present
            </Button>
          }
        >
          The table as of commit {asOf}
        </Notice>
      )}
      <Loaded query={table}>{(loaded) => <Columns at={at} table={loaded} />}</Loaded>
      <Card title="Rows">
        <Loaded query={preview}>
          {(found) =>
            found.rows.length === 0 ? (
              <Empty icon="lake" title="The table has no row" />
            ) : (
              <ResultGrid
                label="First rows"
                columns={found.columns}
                rows={found.rows as Record<string, unknown>[]}
              />
            )
          }
        </Loaded>
      </Card>
      <History at={at} branch={branch} onOpen={(commit) => change({ as_of: String(commit), branch: '' })} />
      <Attach at={at} branch={branch} />
    </Page>
  )
}

function Columns({ at, table }: { at: TableAt; table: Loaded_ }) {
  const [isEditing, setEditing] = useState(false)
  return (
    <Card
      title="Columns"
      isFlush
      actions={
        <Button size="small" onClick={() => setEditing(true)}>
          Describe
        </Button>
      }
    >
      {table.description && <p className="card-body">{table.description}</p>}
      <Table
        label="Columns"
        rows={table.columns}
        keyOf={({ name }) => name}
        columns={[
          { name: 'Column', cell: ({ name }) => <b>{name}</b> },
          { name: 'Type', cell: ({ type }) => <code>{type}</code> },
          { name: 'Description', cell: (column) => column.description ?? <span className="muted">–</span> },
        ]}
      />
      {isEditing && <Describe at={at} table={table} onClose={() => setEditing(false)} />}
    </Card>
  )
}

function Describe({ at, table, onClose }: { at: TableAt; table: Loaded_; onClose: () => void }) {
  const [description, setDescription] = useState(table.description ?? '')
  const [texts, setTexts] = useState<Record<string, string>>(() =>
    Object.fromEntries(table.columns.map((column) => [column.name, column.description ?? ''])),
  )
  const save = async () => {
    // The service replaces the descriptions of all columns, so the unchanged ones are sent too.
    const described = Object.fromEntries(Object.entries(texts).filter(([, text]) => text !== ''))
    await ok(tableAt(at).metadata.put({ description, column_descriptions: described }))
    await queryClient.invalidateQueries({ queryKey: ['tables'] })
  }
  return (
    <FormDialog title={`Describe ${at.name}`} isOpen onClose={onClose} submitLabel="Save" submit={save}>
      <TextArea
        label="The table"
        rows={2}
        value={description}
        onChange={(event) => setDescription(event.target.value)}
      />
      {table.columns.map(({ name }) => (
        <TextField
          key={name}
          label={name}
          value={texts[name] ?? ''}
          onChange={(event) => setTexts({ ...texts, [name]: event.target.value })}
        />
      ))}
    </FormDialog>
  )
}

function History({ at, branch, onOpen }: { at: TableAt; branch: string; onOpen: (commit: number) => void }) {
  const [restored, setRestored] = useState<number | null>(null)
  const query = useQuery({
    queryKey: ['tables', at.ns, at.layer, at.name, 'history', branch],
    queryFn: () => ok(tableAt(at).history.get({ query: { limit: '50', ...(branch && { branch }) } })),
  })
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
                cell: (state) => `+${state.rows_added ?? '?'} −${state.rows_removed ?? '?'}`,
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
          await ok(tableAt(at).restore.post({ commit: restored ?? 0 }))
          await queryClient.invalidateQueries({ queryKey: ['tables'] })
        }}
      />
    </Card>
  )
}
