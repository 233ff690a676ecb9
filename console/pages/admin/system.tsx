import { useQuery } from '@tanstack/react-query'
import { type Health, healthQuery, metricsQuery } from '../../api/installation.ts'
import { type Sample, sampleOf, sumOf } from '../../api/metrics.ts'
import { LIVE_MS } from '../../api/queries.ts'
import { bytes, count, duration } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Pill } from '../../design/status.tsx'
import { Card, Empty, Facts, Page } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { Processes } from './replicas.tsx'

/** The parts of the installation as the replica that answers sees them. */
export default function System() {
  const health = useQuery({ ...healthQuery(), refetchInterval: LIVE_MS })
  const metrics = useQuery(metricsQuery())
  return (
    <Page title="System" subtitle="As the replica that answers sees it.">
      <div className="run-grid">
        <Card title="Parts">
          <Loaded query={health}>{(found) => <Parts health={found} />}</Loaded>
        </Card>
        <Card title="Queue">
          <Loaded query={metrics}>{(samples) => <Queue samples={samples} />}</Loaded>
        </Card>
        <Card title="Leadership of this replica">
          <Loaded query={metrics}>{(samples) => <Leadership samples={samples} />}</Loaded>
        </Card>
      </div>
      <Processes />
      <Card title="Engines" isFlush>
        <Loaded query={metrics}>{(samples) => <Engines samples={samples} />}</Loaded>
      </Card>
    </Page>
  )
}

const Parts = ({ health }: { health: Health }) => (
  <Facts
    facts={[
      ...Object.entries(health.services).map(
        ([name, state]) =>
          [
            name,
            <span className="row" key={name}>
              <Pill tone={state === 'healthy' ? 'good' : 'bad'}>{state}</Pill>
              {typeof health.details[name] === 'string' && (
                <span className="muted">{health.details[name]}</span>
              )}
            </span>,
          ] as const,
      ),
      ...Object.entries(health.engines ?? {}).map(
        ([name, sandbox]) => [`sandbox of ${name}`, sandbox] as const,
      ),
      ['Python', health.python ? `${health.python.version}, ${health.python.sandbox}` : 'not there'],
    ]}
  />
)

const Queue = ({ samples }: { samples: readonly Sample[] }) => (
  <Facts
    facts={[
      ['Active runs', count(sumOf(samples, 'sluice_active_runs'))],
      ['Oldest waiting run', duration(sumOf(samples, 'sluice_queue_age_seconds') * 1_000)],
      ['Runs without a runner', count(sumOf(samples, 'sluice_unplaced_runs'))],
      ['Lag of triggers', duration(sumOf(samples, 'sluice_trigger_lag_seconds') * 1_000)],
    ]}
  />
)

const Leadership = ({ samples }: { samples: readonly Sample[] }) => (
  <Facts
    facts={samples
      .filter(({ name }) => name === 'sluice_leads')
      .map(({ labels: { role = '' }, value }) => [
        role,
        <Pill key={role} tone={value === 1 ? 'good' : 'idle'}>
          {value === 1 ? 'leads' : 'follows'}
        </Pill>,
      ])}
  />
)

function Engines({ samples }: { samples: readonly Sample[] }) {
  const parts = samples.filter(({ name }) => name === 'sluice_engine_memory_bytes')
  if (parts.length === 0) return <Empty icon="system" title="No engine has reported its memory" />
  return (
    <Table
      label="Engines"
      rows={parts}
      keyOf={({ labels }) => labels.part ?? ''}
      columns={[
        { name: 'Part', cell: ({ labels }) => labels.part },
        { name: 'Memory', isNumeric: true, cell: ({ value }) => bytes(value) },
        {
          name: 'Limit',
          isNumeric: true,
          cell: ({ labels }) => bytes(sampleOf(samples, 'sluice_engine_memory_limit_bytes', labels) ?? 0),
        },
        {
          name: 'Fullest engine',
          isNumeric: true,
          cell: ({ labels }) =>
            `${Math.round((sampleOf(samples, 'sluice_engine_memory_fullest_ratio', labels) ?? 0) * 100)} %`,
        },
      ]}
    />
  )
}
