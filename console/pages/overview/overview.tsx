import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { attentionQuery, type AttentionItem as Item } from '../../api/attention.ts'
import { now } from '../../api/clock.ts'
import { featuresQuery, healthQuery } from '../../api/installation.ts'
import { dayRunsQuery } from '../../api/runs.ts'
import { Time } from '../../design/clock.tsx'
import { count } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Pill, Status } from '../../design/status.tsx'
import { Card, Empty, Page } from '../../design/surfaces.tsx'
import { Day } from './day.tsx'

/** Runs and branches that need attention, the last day, and the health of each part. */
export default function Overview() {
  const runs = useQuery(dayRunsQuery(now))
  return (
    <Page title="Overview" subtitle="A run is a pull request for data.">
      <div className="overview">
        <Card title="Needs attention" isFlush>
          <Attention hasRuns={(runs.data?.total ?? 0) > 0} />
        </Card>
        <Card title="Health">
          <Health />
          <Features />
        </Card>
      </div>
      <Card title="Runs on main in the last 24 hours">
        <Loaded query={runs}>
          {({ runs: found, total, failed }) => <Day runs={found} total={total} failed={failed} />}
        </Loaded>
      </Card>
    </Page>
  )
}

function Attention({ hasRuns }: { hasRuns: boolean }) {
  const query = useQuery(attentionQuery())
  return (
    <Loaded query={query}>
      {({ items, total }) =>
        total === 0 ? (
          <Calm hasRuns={hasRuns} />
        ) : (
          <ul className="attention">
            {items.map((item) => (
              <li key={`${item.kind} ${item.run_id ?? item.branch}`}>
                <Mark kind={item.kind} />
                <Subject item={item} />
                <span className="grow ellipsis muted" title={item.reason}>
                  {item.reason}
                </span>
                <Time at={item.since} />
              </li>
            ))}
            {total > items.length && <li className="muted">and {count(total - items.length)} more</li>}
          </ul>
        )
      }
    </Loaded>
  )
}

function Mark({ kind }: Pick<Item, 'kind'>) {
  if (kind === 'behind') return <Pill tone="warn">behind main</Pill>
  if (kind === 'failing_tests') return <Pill tone="warn">tests warn</Pill>
  if (kind === 'review') return <Status status="running" phase="review" />
  return <Status status={kind === 'failed' ? 'failed' : 'pending'} phase={null} />
}

function Subject({ item: { kind, namespace, layer, pipeline, run_id: id, branch } }: { item: Item }) {
  if (id === null || namespace === null || layer === null || pipeline === null)
    return (
      <Link to="/branches/$branch" params={{ branch }}>
        {branch}
      </Link>
    )
  const name = `${namespace}.${layer}.${pipeline}`
  return kind === 'failing_tests' ? (
    <Link
      to="/pipelines/$ns/$layer/$name"
      params={{ ns: namespace, layer, name: pipeline }}
      search={{ tab: 'tests' }}
    >
      {name}
    </Link>
  ) : (
    <Link to="/runs/$id" params={{ id }}>
      {name}
    </Link>
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

function Health() {
  const query = useQuery(healthQuery())
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
  const query = useQuery(featuresQuery())
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
