import { useQuery } from '@tanstack/react-query'
import { processesQuery } from '../../api/installation.ts'
import { Time } from '../../design/clock.tsx'
import { count } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Pill, Tag } from '../../design/status.tsx'
import { Card, Empty } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'

/** The processes of the installation: replicas of the service, and its runners. */
export function Processes() {
  const query = useQuery(processesQuery())
  return (
    <>
      <Card title="Replicas" isFlush>
        <Loaded query={query}>
          {({ replicas }) => (
            <Table
              label="Replicas"
              rows={replicas}
              keyOf={({ name }) => name}
              columns={[
                { name: 'Replica', cell: ({ name }) => <span className="mono">{name.split(':')[0]}</span> },
                {
                  name: 'State',
                  cell: ({ alive }) => (
                    <Pill tone={alive ? 'good' : 'idle'}>{alive ? 'alive' : 'ended'}</Pill>
                  ),
                },
                {
                  name: 'Leads',
                  cell: ({ leads }) => (
                    <span className="row">
                      {leads.map((role) => (
                        <Tag key={role}>{role}</Tag>
                      ))}
                    </span>
                  ),
                },
                { name: 'Runs', isNumeric: true, cell: ({ attempts }) => count(attempts) },
                { name: 'Alive until', cell: ({ alive_until: at }) => <Time at={at} /> },
              ]}
            />
          )}
        </Loaded>
      </Card>
      <Card title="Runners" isFlush>
        <Loaded query={query}>
          {({ runners }) =>
            runners.length === 0 ? (
              <Empty icon="system" title="No runner is configured" />
            ) : (
              <Table
                label="Runners"
                rows={runners}
                keyOf={({ address }) => address}
                columns={[
                  { name: 'Address', cell: ({ address }) => <span className="mono">{address}</span> },
                  { name: 'Runs', isNumeric: true, cell: ({ attempts }) => count(attempts) },
                ]}
              />
            )
          }
        </Loaded>
      </Card>
    </>
  )
}
