import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api, ok } from '../../api/client.ts'
import { LIVE_MS, SLOW_MS } from '../../api/queries.ts'
import { accepted, authorizedFetch, ROOT } from '../../api/request.ts'
import { now, Time } from '../../design/clock.tsx'
import { count } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Pill, Status } from '../../design/status.tsx'
import { Card, Empty, Page } from '../../design/surfaces.tsx'
import { Day } from './day.tsx'
import { type RecentRun, recentRuns } from './recent-runs.ts'

/** A pending run this old needs attention. */
const WAITS_LONG_MS = 60_000

/** Runs and branches that need attention, the last day, and the health of each part. */
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
          <Features />
        </Card>
      </div>
      <Card title="Runs of the last 24 hours">
        <Loaded query={runs}>{({ runs: found, total }) => <Day runs={found} total={total} />}</Loaded>
      </Card>
    </Page>
  )
}

/** Failed runs that the page lists. The others are in the list of runs. */
const FAILED_MAX = 20

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
      {[...inReview, ...failed.slice(0, FAILED_MAX), ...stuck].map((run) => (
        <li key={run.id}>
          <Status status={run.status} phase={run.phase} />
          <Link to="/runs/$id" params={{ id: run.id }}>
            {nameOf(run)}
          </Link>
          <span className="grow ellipsis muted">
            {run.status === 'failed' ? (
              <Failure id={run.id} />
            ) : run.status === 'pending' ? (
              'waits'
            ) : (
              'waits for a review'
            )}
          </span>
          <Time at={run.created_at} />
        </li>
      ))}
      {failed.length > FAILED_MAX && (
        <li>
          <Link to="/runs" search={{ status: 'failed' }}>
            {count(failed.length - FAILED_MAX)} more pipelines failed
          </Link>
        </li>
      )}
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

/** Why a run failed, for example which test. The list of runs does not say it. */
function Failure({ id }: { id: string }) {
  const query = useQuery({
    queryKey: ['runs', id],
    queryFn: () => ok(api.runs({ id }).get()),
    staleTime: Number.POSITIVE_INFINITY,
  })
  const reason = query.data?.error ?? 'failed, and no later run succeeded'
  return <span title={reason}>{reason}</span>
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

/** The edition and its optional parts. */
function Features() {
  const query = useQuery({ queryKey: ['features'], queryFn: () => ok(api.features.get()) })
  return (
    <Loaded query={query} lines={2}>
      {({ edition, plugins }) => (
        <ul className="health" aria-label={`Parts of the ${edition} edition`}>
          {Object.entries(plugins).map(([name, { enabled }]) => (
            <li key={name}>
              <span>{name}</span>
              <Pill tone={enabled ? 'good' : 'idle'}>{enabled ? 'on' : 'off'}</Pill>
            </li>
          ))}
        </ul>
      )}
    </Loaded>
  )
}
