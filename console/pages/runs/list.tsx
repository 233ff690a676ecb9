import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useLiveRuns } from '../../api/live-runs.ts'
import { cancelRun, isOver, type ListedRun, runFilterOf } from '../../api/runs.ts'
import { Time } from '../../design/clock.tsx'
import { IconButton } from '../../design/controls.tsx'
import { count, counted } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { DURATION, ROWS, STATUS } from '../../design/run-columns.tsx'
import { Card, Empty, Page } from '../../design/surfaces.tsx'
import { type VirtualColumn, VirtualTable } from '../../design/virtual-table.tsx'
import { useFilters } from '../../shell/filters.ts'
import { RunFilters } from './list-filters.tsx'
import { useRunPages } from './pages.ts'

/** Rows that the table can scroll to. The virtualizer has an object for each, and takes 40 ms for 800,000. */
const SHOWN_MAX = 100_000

const nameOf = ({ namespace, layer, pipeline }: ListedRun) => `${namespace}.${layer}.${pipeline}`

/** All runs, newest first, as they move. The filters are in the address. */
export default function RunList() {
  const [filters, change] = useFilters('/runs')
  const [cancelled, setCancelled] = useState<ListedRun | null>(null)
  const query = runFilterOf(filters)
  const { head, rowAt, onVisible } = useRunPages(query)
  useLiveRuns()
  return (
    <Page
      title="Runs"
      subtitle="Each run works on its own branch, is tested there, and merges or leaves no trace."
    >
      <Card isFlush>
        <RunFilters filters={filters} change={change} />
        <Loaded query={head}>
          {({ total }) =>
            total === 0 ? (
              <NoRuns isFiltered={Object.keys(query).length > 0} />
            ) : (
              <>
                <VirtualTable
                  key={JSON.stringify(query)}
                  label="Runs"
                  columns={columnsWith(setCancelled)}
                  total={Math.min(total, SHOWN_MAX)}
                  rowAt={rowAt}
                  onVisible={onVisible}
                />
                <p className="run-total muted">
                  {counted(total, 'run')}
                  {total > SHOWN_MAX && `; the first ${count(SHOWN_MAX)} are here, filters find the others`}
                </p>
              </>
            )
          }
        </Loaded>
      </Card>
      <FormDialog
        title="Cancel the run"
        description={
          cancelled && `The run of ${nameOf(cancelled)} stops and its branch is closed. Main stays as it is.`
        }
        isOpen={cancelled !== null}
        onClose={() => setCancelled(null)}
        submitLabel="Cancel the run"
        isDangerous
        submit={async () => {
          if (cancelled !== null) await cancelRun(cancelled.id)
        }}
      />
    </Page>
  )
}

const columnsWith = (onCancel: (run: ListedRun) => void): VirtualColumn<ListedRun>[] => [
  { ...STATUS, width: '100px' },
  {
    name: 'Pipeline',
    width: 'minmax(220px, 2fr)',
    cell: (run) => (
      <Link to="/runs/$id" params={{ id: run.id }} title={nameOf(run)}>
        {nameOf(run)}
      </Link>
    ),
  },
  { name: 'Trigger', width: 'minmax(90px, 1fr)', cell: ({ trigger }) => trigger },
  { name: 'Branch', width: 'minmax(90px, 1fr)', cell: ({ branch }) => branch },
  { name: 'Requested', width: '110px', cell: (run) => <Time at={run.created_at} /> },
  { ...DURATION, width: '90px' },
  { ...ROWS, width: '90px' },
  {
    name: 'Cancel',
    width: '52px',
    cell: (run) =>
      !isOver(run) && (
        <IconButton
          icon="cross"
          size="small"
          label={`Cancel the run of ${nameOf(run)}`}
          onClick={() => onCancel(run)}
        />
      ),
  },
]

const NoRuns = ({ isFiltered }: { isFiltered: boolean }) =>
  isFiltered ? (
    <Empty icon="runs" title="No run matches the filters" />
  ) : (
    <Empty icon="runs" title="No runs here" actions={<Link to="/pipelines">Run a pipeline</Link>}>
      A run starts by hand, by a schedule, by a file that arrives, or after another run.
    </Empty>
  )
