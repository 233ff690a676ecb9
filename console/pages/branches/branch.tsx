import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import {
  type Branch,
  branchCommitsQuery,
  branchDiffQuery,
  branchQuery,
  branchRowsQuery,
  useLiveBranch,
} from '../../api/branches.ts'
import { branchRunsQuery } from '../../api/runs.ts'
import { Time } from '../../design/clock.tsx'
import { counted } from '../../design/format.ts'
import { isGone, Loaded } from '../../design/loaded.tsx'
import { DURATION, ROWS, STATUS } from '../../design/run-columns.tsx'
import { Status } from '../../design/status.tsx'
import { Card, Empty, Facts, Notice, Page } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { BranchActions } from './branch-actions.tsx'
import { RunOnBranch } from './run-on-branch.tsx'
import { TableChanges } from './table-changes.tsx'

/** One branch: its difference to main, its commits, and the merge. */
export default function BranchPage() {
  const { branch: name } = useParams({ from: '/branches/$branch' })
  const query = useQuery(branchQuery(name))
  useLiveBranch(name)
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

function OfferedActions({ branch }: { branch: Branch }) {
  const { data, isPending } = useQuery(branchDiffQuery(branch))
  // Without a difference, the service decides about the merge.
  const conflicts = isPending ? null : (data?.tables.filter(({ conflict }) => conflict).length ?? 0)
  return <BranchActions branch={branch} conflicts={conflicts} />
}

function Difference({ branch }: { branch: Branch }) {
  const query = useQuery(branchDiffQuery(branch))
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
              <TableChanges tables={tables} rowsOf={(table) => branchRowsQuery(branch, table)} />
            </>
          )
        }
      </Loaded>
    </Card>
  )
}

function Runs({ branch }: { branch: string }) {
  const query = useQuery(branchRunsQuery(branch))
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
  const query = useQuery(branchCommitsQuery(branch))
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
