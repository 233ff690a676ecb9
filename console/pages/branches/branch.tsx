import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { api, ok, segment } from '../../api/client.ts'
import { LISTS, useLiveRuns } from '../../api/live-runs.ts'
import { LIVE_MS } from '../../api/queries.ts'
import { Time } from '../../design/clock.tsx'
import { counted } from '../../design/format.ts'
import { isGone, Loaded } from '../../design/loaded.tsx'
import { Status } from '../../design/status.tsx'
import { Card, Empty, Facts, Notice, Page } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { DURATION, ROWS, STATUS } from '../runs/columns.tsx'
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
    // The commits of a run appear with its end.
    refetchInterval: LIVE_MS,
  })
  useLiveRuns([['branches', 'one', name], ...LISTS])
  const branch = isGone(query.error) ? undefined : query.data
  const isMergeable = branch?.status === 'open' && !branch.protected
  return (
    <Page
      title={name}
      crumbs={<Link to="/branches">Branches</Link>}
      subtitle={branch?.description}
      actions={isMergeable && <OfferedActions key={name} branch={branch} />}
    >
      <Loaded query={query}>
        {(loaded) => (
          <>
            <BranchFacts branch={loaded} />
            {loaded.status === 'open' && !loaded.protected && <Difference key={name} branch={loaded} />}
            {loaded.status === 'open' && !loaded.protected && <RunOnBranch branch={name} />}
            <Runs branch={name} />
            {loaded.status === 'open' && <Commits key={name} branch={loaded} />}
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
        ...(branch.status === 'open' ? linksTo(branch.name) : []),
      ]}
    />
  </Card>
)

/** The tables of a branch, which only an open branch has. */
const linksTo = (branch: string) =>
  [
    [
      'Look at it',
      <Link key="lake" to="/lake" search={{ branch }}>
        Tables on this branch
      </Link>,
    ],
    [
      'Query it',
      <Link key="query" to="/query" search={{ branch }}>
        SQL on this branch
      </Link>,
    ],
  ] as const

/** Changes with each commit on the branch and on main. */
const stateOf = ({ name, head, base_commit: base, commits_behind: behind }: Branch) =>
  [name, head ?? '', String(base), String(behind)] as const

const useDifference = (branch: Branch) =>
  useQuery({
    queryKey: ['branches', 'diff', ...stateOf(branch)],
    queryFn: () => ok(branchAt(branch.name).diff.get({ query: {} })),
    placeholderData: (before) => before,
  })

function OfferedActions({ branch }: { branch: Branch }) {
  const { data, isPending } = useDifference(branch)
  // Without a difference, the service decides about the merge.
  const conflicts = isPending ? null : (data?.tables.filter(({ conflict }) => conflict).length ?? 0)
  return <BranchActions branch={branch} conflicts={conflicts} />
}

function Difference({ branch }: { branch: Branch }) {
  const query = useDifference(branch)
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
                of={['branches', 'rows', ...stateOf(branch)]}
                readRows={rowsOfBranch(branch.name)}
              />
            </>
          )
        }
      </Loaded>
    </Card>
  )
}

/** Runs that the page shows. The list of runs shows all. */
const RUNS_SHOWN = 20

function Runs({ branch }: { branch: string }) {
  const query = useQuery({
    queryKey: ['runs', 'list', { branch }, 'newest'],
    queryFn: () => ok(api.runs.get({ query: { branch, limit: String(RUNS_SHOWN) } })),
    refetchInterval: LIVE_MS,
  })
  return (
    <Card
      title="Runs"
      isFlush
      actions={
        <Link to="/runs" search={{ branch }}>
          All runs on this branch
        </Link>
      }
    >
      <Loaded query={query}>
        {({ runs }) =>
          runs.length === 0 ? (
            <Empty icon="runs" title="No run on this branch" />
          ) : (
            <Table
              label="Runs on this branch"
              rows={runs}
              keyOf={({ id }) => id}
              columns={[
                STATUS,
                {
                  name: 'Pipeline',
                  cell: ({ id, namespace, layer, pipeline }) => (
                    <Link to="/runs/$id" params={{ id }}>
                      {namespace}.{layer}.{pipeline}
                    </Link>
                  ),
                },
                { name: 'Requested', cell: (run) => <Time at={run.created_at} /> },
                ROWS,
                DURATION,
              ]}
            />
          )
        }
      </Loaded>
    </Card>
  )
}

function Commits({ branch }: { branch: Branch }) {
  const query = useQuery({
    queryKey: ['branches', 'commits', ...stateOf(branch)],
    queryFn: () => ok(branchAt(branch.name).commits.get({ query: { limit: '50' } })),
    placeholderData: (before) => before,
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
