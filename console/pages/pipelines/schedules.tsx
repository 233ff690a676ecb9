import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { Named } from '../../api/pipelines.ts'
import {
  createSchedule,
  deleteSchedule,
  enableSchedule,
  type Schedule,
  schedulesQuery,
} from '../../api/schedules.ts'
import { Time } from '../../design/clock.tsx'
import { Button } from '../../design/controls.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { Pill } from '../../design/status.tsx'
import { Card, Empty } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { performing } from '../../design/toasts.tsx'
import { CronField } from './cron-field.tsx'
import { StartActions } from './start-actions.tsx'

/** The cron expressions that start runs of the pipeline. */
export function Schedules({ at }: { at: Named }) {
  const [isCreating, setCreating] = useState(false)
  const [cron, setCron] = useState('0 6 * * *')
  const query = useQuery(schedulesQuery())
  const { ns: namespace, layer, name: pipeline } = at
  const toggle = ({ id, enabled }: Schedule) =>
    performing(enableSchedule(id, !enabled), enabled ? 'The schedule is off' : 'The schedule is on')
  const [removed, setRemoved] = useState<Schedule | null>(null)
  return (
    <Card
      title="Schedules"
      isFlush
      actions={
        <Button size="small" icon="plus" onClick={() => setCreating(true)}>
          New schedule
        </Button>
      }
    >
      <Loaded query={query}>
        {({ schedules }) => {
          const own = schedules.filter(
            (each) => each.namespace === namespace && each.layer === layer && each.pipeline === pipeline,
          )
          if (own.length === 0) return <Empty icon="retention" title="No schedule" />
          return (
            <Table
              label="Schedules"
              rows={own}
              keyOf={({ id }) => id}
              columns={[
                { name: 'Cron (UTC)', cell: (each) => <code>{each.cron}</code> },
                {
                  name: 'State',
                  cell: (each) => (
                    <Pill tone={each.enabled ? 'good' : 'idle'}>{each.enabled ? 'on' : 'off'}</Pill>
                  ),
                },
                { name: 'Last', cell: (each) => <Time at={each.last_run_at} /> },
                { name: 'Next', cell: (each) => <Time at={each.enabled ? each.next_run_at : null} /> },
                {
                  name: 'Actions',
                  cell: (each) => (
                    <StartActions
                      noun="schedule"
                      isOn={each.enabled}
                      onToggle={() => void toggle(each)}
                      onDelete={() => setRemoved(each)}
                    />
                  ),
                },
              ]}
            />
          )
        }}
      </Loaded>
      <FormDialog
        title="Delete the schedule"
        description={`It starts no more runs at ${removed?.cron ?? ''}.`}
        isOpen={removed !== null}
        onClose={() => setRemoved(null)}
        submitLabel="Delete"
        isDangerous
        submit={() => deleteSchedule(removed?.id ?? '')}
      />
      <FormDialog
        title="New schedule"
        isOpen={isCreating}
        onClose={() => setCreating(false)}
        submitLabel="Create"
        submit={() => createSchedule(at, cron)}
      >
        <CronField value={cron} onChange={setCron} />
      </FormDialog>
    </Card>
  )
}
