import { useQueries, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { Connection } from '../../api/events.ts'
import {
  countsQuery,
  type Definition,
  drawingsQuery,
  MACHINES,
  type MachineName,
  machinesQuery,
} from '../../api/inspector.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Empty, Page } from '../../design/surfaces.tsx'
import { Chart, type ChartProps } from './chart.tsx'
import { countText, isFinal, sumOf, TITLES } from './state.tsx'

/** The frame of each page of the inspector: the machines, the statechart, and beside it the list or the instance. */
export function InspectorFrame({
  machine,
  title,
  crumbs,
  subtitle,
  actions,
  connection,
  chart,
  children,
}: {
  machine: MachineName
  title: string
  crumbs?: ReactNode
  subtitle: ReactNode
  actions?: ReactNode
  connection: Connection
  chart: (definition: Definition) => Omit<ChartProps, 'machine' | 'drawings'>
  children: (definition: Definition) => ReactNode
}) {
  const machines = useQuery(machinesQuery())
  const drawings = useQuery(drawingsQuery(machine))
  return (
    <Page
      title={title}
      crumbs={crumbs}
      subtitle={subtitle}
      isWide
      actions={
        <>
          {actions}
          <span className="connection" id="connection" role="status" data-state={connection}>
            {connection}
          </span>
        </>
      }
    >
      <Loaded query={machines}>
        {(loaded) => {
          const definition = loaded.machines.find((each) => each.machine === machine)
          if (definition === undefined)
            return <Empty icon="search" title="The service does not have this machine" />
          return (
            <>
              <Machines definitions={loaded.machines} />
              <div className="inspector">
                <Loaded query={drawings}>
                  {(texts) => <Chart machine={machine} drawings={texts} {...chart(definition)} />}
                </Loaded>
                <div className="stack">{children(definition)}</div>
              </div>
            </>
          )
        }}
      </Loaded>
    </Page>
  )
}

/** Links to the lists of the machines, with the numbers of instances that have not ended. */
function Machines({ definitions }: { definitions: readonly Definition[] }) {
  const counts = useQueries({ queries: MACHINES.map((machine) => countsQuery(machine)) })
  return (
    <nav className="tabs" id="tabs" aria-label="Machines">
      {MACHINES.map((machine, index) => {
        const definition = definitions.find((each) => each.machine === machine)
        const { data } = counts[index] ?? {}
        const unfinished =
          data &&
          definition &&
          countText(
            sumOf(
              data,
              Object.keys(data).filter((path) => !isFinal(definition, path)),
            ),
          )
        return (
          <Link key={machine} to="/inspector/$machine" params={{ machine }} data-machine={machine}>
            {TITLES[machine]}
            {unfinished && (
              <span className="state-count" title={`${unfinished} not ended`}>
                {unfinished}
              </span>
            )}
          </Link>
        )
      })}
    </nav>
  )
}
