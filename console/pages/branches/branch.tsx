import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { api, ok, segment } from '../../api/client.ts'
import { SLOW_MS } from '../../api/queries.ts'
import { Time } from '../../design/clock.tsx'
import { counted } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Status } from '../../design/status.tsx'
import { Card, Empty, Facts, Notice, Page } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { BranchActions } from './branch-actions.tsx'
import { RunOnBranch } from './run-on-branch.tsx'
import { rowsOfBranch, TableChanges } from './table-changes.tsx'

const branchAt = (name: string) => api.branches({ branch: segment(name) })
const branchQuery = (name: string) => () => ok(branchAt(name).get())
type Branch = Awaited<ReturnType<ReturnType<typeof branchQuery>>>

/** One branch: its difference to main, its commits, and the merge. */
export default function BranchPage() {
  const { branch: name } = useParams({ from: '/branches/$branch' })
  const query = useQuery({
    queryKey: ['branches', 'one', name],
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
            {loaded.status === 'open' && !loaded.protected && <RunOnBranch branch={name} />}
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
        [
          'Query it',
          <Link key="query" to="/query" search={{ branch: branch.name }}>
            SQL on this branch
          </Link>,
        ],
      ]}
    />
  </Card>
)

function Difference({ branch }: { branch: Branch }) {
  const query = useQuery({
    queryKey: ['branches', 'diff', branch.name, branch.head, branch.base_commit],
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
                of={['branches', 'rows', branch.name]}
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
    queryKey: ['branches', 'commits', name],
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
