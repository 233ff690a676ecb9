import { type UseQueryResult, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api, ok } from '../../api/client.ts'
import { messageOf } from '../../api/errors.ts'
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
          <Loaded query={runs}>
            {({ runs: found, failed }) => <Attention runs={found} failed={failed} />}
          </Loaded>
        </Card>
        <Card title="Health">
          <Health />
          <Features />
        </Card>
      </div>
      <Card title="Runs of the last 24 hours">
        <Loaded query={runs}>
          {({ runs: found, total, failedTotal }) => <Day runs={found} total={total} failed={failedTotal} />}
        </Loaded>
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
  for (const run of runs) {
    const before = newest.get(nameOf(run))
    if (!['success', 'failed'].includes(run.status)) continue
    if (before === undefined || before.created_at < run.created_at) newest.set(nameOf(run), run)
  }
  return [...newest.values()].filter(({ status }) => status === 'failed')
}

function Attention({
  runs,
  failed: failedRuns,
}: {
  runs: readonly RecentRun[]
  failed: readonly RecentRun[]
}) {
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
  const failing = useQuery({
    queryKey: ['pipelines', 'failing tests'],
    queryFn: () => ok(api.pipelines.get({ query: { state: 'failing_tests', limit: '50' } })),
    refetchInterval: SLOW_MS,
  })
  const queries = [branches, waiting, failing]
  // Nothing may look calm while a part of it is unknown.
  const unknown = queries.find((query) => query.data === undefined)
  const inReview = (waiting.data?.runs ?? []).filter(({ phase }) => phase === 'review')
  const old = now().getTime() - WAITS_LONG_MS
  const stuck = runs.filter((run) => run.status === 'pending' && Date.parse(run.created_at) < old)
  const failed = unsettled([...runs, ...failedRuns])
  const behind = (branches.data?.branches ?? []).filter(
    (branch) => branch.commits_behind > 0 && !branch.protected,
  )
  const warned = (failing.data?.pipelines ?? []).filter((pipeline) => pipeline.last_run?.status === 'success')
  if (inReview.length + failed.length + stuck.length + behind.length + warned.length === 0)
    return unknown ? (
      <Loaded query={unknown as UseQueryResult<unknown>}>{() => null}</Loaded>
    ) : (
      <Calm hasRuns={runs.length > 0} />
    )
  return (
    <ul className="attention">
      {unknown?.isError && (
        <li>
          <Pill tone="warn">incomplete</Pill>
          <span className="grow">Some of this could not be read: {messageOf(unknown.error)}</span>
        </li>
      )}
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
      {warned.map(({ id, namespace: ns, layer, name, last_run: last }) => (
        <li key={id}>
          <Pill tone="warn">tests warn</Pill>
          <Link to="/pipelines/$ns/$layer/$name" params={{ ns, layer, name }} search={{ tab: 'tests' }}>
            {ns}.{layer}.{name}
          </Link>
          <span className="grow muted">tests of severity warn failed in the last run</span>
          <Time at={last?.finished_at ?? null} />
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
          <Link className="button" data-kind="primary" to="/welcome">
            Take the tour
          </Link>
          <Link className="button" to="/landing-zones">
            Drop a file
          </Link>
        </>
      }
    >
      The tour goes from a file to a gold table with a gate, in five minutes and with real data.
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
