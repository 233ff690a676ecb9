import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { api, ok, segment } from '../../api/client.ts'
import { queryClient, SLOW_MS } from '../../api/queries.ts'
import { Time } from '../../design/clock.tsx'
import { Button, TextField } from '../../design/controls.tsx'
import { counted } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { Status } from '../../design/status.tsx'
import { Card, Empty, Facts, Notice, Page } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { performing } from '../../design/toasts.tsx'
import { rowsOfBranch, TableChanges } from './table-changes.tsx'

const branchAt = (name: string) => api.branches({ branch: segment(name) })
const branchQuery = (name: string) => () => ok(branchAt(name).get())
type Branch = Awaited<ReturnType<ReturnType<typeof branchQuery>>>

/** One branch: its difference to main, its commits, and the merge. */
export default function BranchPage() {
  const { branch: name } = useParams({ from: '/branches/$branch' })
  const query = useQuery({
    queryKey: ['branches', name],
    queryFn: branchQuery(name),
    refetchInterval: SLOW_MS,
  })
  const branch = query.data
  return (
    <Page
      title={name}
      crumbs={<Link to="/branches">Branches</Link>}
      subtitle={branch?.description}
      actions={branch?.status === 'open' && !branch.protected && <BranchActions branch={branch} />}
    >
      <Loaded query={query}>
        {(loaded) => (
          <>
            <BranchFacts branch={loaded} />
            {loaded.status === 'open' && !loaded.protected && <Difference branch={loaded} />}
            {loaded.status === 'open' && <Commits name={name} />}
          </>
        )}
      </Loaded>
    </Page>
  )
}

const BranchFacts = ({ branch }: { branch: Branch }) => (
  <Card title="Facts">
    <Facts
      facts={[
        ['Status', <Status key="status" status={branch.status} />],
        ['Begins at', `commit ${branch.base_commit} of main`],
        ['Against main', `${branch.commits_ahead} ahead, ${branch.commits_behind} behind`],
        ['Changes', counted(branch.tables_changed, 'table')],
        ['Made', <Time key="made" at={branch.created_at} exact />],
        ['By', branch.created_by ?? '–'],
        ['Expires', <Time key="expires" at={branch.expires_at} />],
        [
          'Look at it',
          <Link key="lake" to="/lake" search={{ branch: branch.name }}>
            Tables on this branch
          </Link>,
        ],
      ]}
    />
  </Card>
)

function Difference({ branch }: { branch: Branch }) {
  const query = useQuery({
    queryKey: ['branches', branch.name, 'diff', branch.head, branch.base_commit],
    queryFn: () => ok(branchAt(branch.name).diff.get({ query: {} })),
  })
  return (
    <Card title="Difference to main" isFlush>
      <Loaded query={query}>
        {({ tables }) =>
          tables.length === 0 ? (
            <Empty icon="branches" title="The branch changes no table" />
          ) : (
            <>
              {tables.some(({ conflict }) => conflict) && (
                <div className="card-body">
                  <Notice tone="bad">
                    Main has changed the marked tables, too. Such a branch cannot merge. Run its pipelines on
                    a new branch.
                  </Notice>
                </div>
              )}
              <TableChanges
                tables={tables}
                of={['branches', branch.name]}
                readRows={rowsOfBranch(branch.name)}
              />
            </>
          )
        }
      </Loaded>
    </Card>
  )
}

function Commits({ name }: { name: string }) {
  const query = useQuery({
    queryKey: ['branches', name, 'commits'],
    queryFn: () => ok(branchAt(name).commits.get({ query: { limit: '50' } })),
  })
  return (
    <Card title="Commits" isFlush>
      <Loaded query={query}>
        {({ commits }) =>
          commits.length === 0 ? (
            <Empty icon="history" title="No commit of its own" />
          ) : (
            <Table
              label="Commits"
              rows={commits}
              keyOf={({ id }) => id}
              columns={[
                { name: 'Commit', cell: ({ number, id }) => number ?? <code>{id.slice(0, 8)}</code> },
                { name: 'Message', cell: ({ message }) => message },
                { name: 'Tables', cell: ({ tables }) => tables.join(', ') },
                {
                  name: 'Run',
                  cell: ({ run_id: id }) =>
                    id === null ? (
                      '–'
                    ) : (
                      <Link to="/runs/$id" params={{ id }}>
                        its run
                      </Link>
                    ),
                },
                { name: 'When', cell: (commit) => <Time at={commit.created_at} /> },
              ]}
            />
          )
        }
      </Loaded>
    </Card>
  )
}

function BranchActions({ branch }: { branch: Branch }) {
  const navigate = useNavigate()
  const [asked, setAsked] = useState<'merge' | 'delete' | null>(null)
  const [message, setMessage] = useState('')
  const { name } = branch
  const refresh = () => queryClient.invalidateQueries({ queryKey: ['branches'] })
  const close = () => setAsked(null)
  return (
    <>
      <Button
        icon="refresh"
        disabled={branch.commits_behind === 0}
        onClick={() =>
          void performing(
            ok(branchAt(name).rebase.post()).then(refresh),
            'The branch begins at the present main',
          )
        }
      >
        Rebase
      </Button>
      <Button
        kind="primary"
        icon="check"
        disabled={branch.tables_changed === 0}
        onClick={() => setAsked('merge')}
      >
        Merge
      </Button>
      <Button kind="danger" onClick={() => setAsked('delete')}>
        Delete
      </Button>
      <FormDialog
        title={`Merge ${name} into main`}
        description={`${counted(branch.tables_changed, 'table')} reach main in one commit, after the published tests of each have passed.`}
        isOpen={asked === 'merge'}
        onClose={close}
        submitLabel="Merge"
        submit={async () => {
          await ok(branchAt(name).merge.post(message === '' ? {} : { message }, { headers: {} }))
          await refresh()
        }}
      >
        <TextField
          label="Message (optional)"
          value={message}
          onChange={(event) => setMessage(event.target.value)}
        />
      </FormDialog>
      <FormDialog
        title={`Delete ${name}`}
        description="Its changes are lost. Main stays as it is."
        isOpen={asked === 'delete'}
        onClose={close}
        submitLabel="Delete the branch"
        isDangerous
        submit={async () => {
          await ok(branchAt(name).delete())
          await refresh()
          await navigate({ to: '/branches' })
        }}
      />
    </>
  )
}
