import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api, ok } from '../../api/client.ts'
import { LIVE_MS, SLOW_MS } from '../../api/queries.ts'
import { accepted, authorizedFetch, ROOT } from '../../api/request.ts'
import { now, Time } from '../../design/clock.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { Pill, Status } from '../../design/status.tsx'
import { Card, Empty, Page } from '../../design/surfaces.tsx'
import { Day } from './day.tsx'

const DAY_MS = 86_400_000
/** A pending run this old needs attention. */
const WAITS_LONG_MS = 60_000
/** Runs of the last day that the page reads. */
const RUNS_READ = '200'

const recentRuns = () => ok(api.runs.get({ query: { from: dayAgo(), limit: RUNS_READ } }))
export type RecentRun = Awaited<ReturnType<typeof recentRuns>>['runs'][number]

/** The begin of the last day, to the hour, so that the address stays the same for a while. */
const dayAgo = () => new Date(Math.floor((now().getTime() - DAY_MS) / 3_600_000) * 3_600_000).toISOString()

/** What needs attention, the last day, and the health of each part. */
export default function Overview() {
  const runs = useQuery({ queryKey: ['runs', 'day'], queryFn: recentRuns, refetchInterval: LIVE_MS })
  return (
    <Page title="Overview" subtitle="A run is a pull request for data.">
      <div className="overview">
        <Card title="Needs attention" isFlush>
          <Loaded query={runs}>{({ runs: found }) => <Attention runs={found} />}</Loaded>
        </Card>
        <Card title="Health">
          <Health />
        </Card>
      </div>
      <Card title="Runs of the last 24 hours">
        <Loaded query={runs}>{({ runs: found, total }) => <Day runs={found} total={total} />}</Loaded>
      </Card>
    </Page>
  )
}

const nameOf = ({ namespace, layer, pipeline }: RecentRun) => `${namespace}.${layer}.${pipeline}`

/** The newest run of each pipeline, if that run failed. A later success settles a failure. */
const unsettled = (runs: readonly RecentRun[]) => {
  const newest = new Map<string, RecentRun>()
  for (const run of runs)
    if (['success', 'failed'].includes(run.status) && !newest.has(nameOf(run))) newest.set(nameOf(run), run)
  return [...newest.values()].filter(({ status }) => status === 'failed')
}

function Attention({ runs }: { runs: readonly RecentRun[] }) {
  const branches = useQuery({
    queryKey: ['branches', 'open'],
    queryFn: () => ok(api.branches.get({ query: { status: 'open', limit: '50' } })),
    refetchInterval: SLOW_MS,
  })
  const waiting = useQuery({
    queryKey: ['runs', 'running'],
    queryFn: () => ok(api.runs.get({ query: { status: 'running', limit: '50' } })),
    refetchInterval: LIVE_MS,
  })
  const inReview = (waiting.data?.runs ?? []).filter(({ phase }) => phase === 'review')
  const old = now().getTime() - WAITS_LONG_MS
  const stuck = runs.filter((run) => run.status === 'pending' && Date.parse(run.created_at) < old)
  const failed = unsettled(runs)
  const behind = (branches.data?.branches ?? []).filter(
    (branch) => branch.commits_behind > 0 && !branch.protected,
  )
  if (inReview.length + failed.length + stuck.length + behind.length === 0)
    return <Calm hasRuns={runs.length > 0} />
  return (
    <ul className="attention">
      {[...inReview, ...failed, ...stuck].map((run) => (
        <li key={run.id}>
          <Status status={run.status} phase={run.phase} />
          <Link to="/runs/$id" params={{ id: run.id }}>
            {nameOf(run)}
          </Link>
          <span className="grow ellipsis muted">
            {run.status === 'failed'
              ? 'failed, and no later run succeeded'
              : run.status === 'pending'
                ? 'waits'
                : 'waits for a review'}
          </span>
          <Time at={run.created_at} />
        </li>
      ))}
      {behind.map((branch) => (
        <li key={branch.name}>
          <Pill tone="warn">behind main</Pill>
          <Link to="/branches/$branch" params={{ branch: branch.name }}>
            {branch.name}
          </Link>
          <span className="grow muted">
            {branch.commits_behind} behind, {branch.commits_ahead} ahead
          </span>
          <Time at={branch.updated_at} />
        </li>
      ))}
    </ul>
  )
}

function Calm({ hasRuns }: { hasRuns: boolean }) {
  if (hasRuns) return <Empty icon="check" title="Nothing needs attention" />
  return (
    <Empty
      icon="runs"
      title="No run in the last 24 hours"
      actions={
        <>
          <Link className="button" data-kind="primary" to="/landing-zones">
            Drop a first file
          </Link>
          <Link className="button" to="/pipelines">
            Write a pipeline
          </Link>
        </>
      }
    >
      Data takes four steps: drop a file into a landing zone, write a pipeline that reads it, publish, and run
      it.
    </Empty>
  )
}

interface Ready {
  status: string
  services: Record<string, string>
  details: Record<string, unknown>
}

/** The state of each part. The answer has the same shape when a part is missing and its status is 503. */
async function readiness(): Promise<Ready> {
  const response = await authorizedFetch(new URL('health/ready', ROOT))
  const answer = response.status === 503 ? response : await accepted(response)
  return answer.json()
}

function Health() {
  const query = useQuery({ queryKey: ['health'], queryFn: readiness, refetchInterval: SLOW_MS / 3 })
  return (
    <Loaded query={query}>
      {({ services, details }) => (
        <ul className="health">
          {Object.entries(services).map(([name, state]) => (
            <li key={name}>
              <span>{name}</span>
              <Pill tone={state === 'healthy' ? 'good' : 'bad'}>{state}</Pill>
              {typeof details[name] === 'string' && <small className="muted">{details[name]}</small>}
            </li>
          ))}
        </ul>
      )}
    </Loaded>
  )
}
