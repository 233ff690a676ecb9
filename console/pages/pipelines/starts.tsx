import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api, type LayerName, ok } from '../../api/client.ts'
import { queryClient, SLOW_MS } from '../../api/queries.ts'
import { Time } from '../../design/clock.tsx'
import { Button, CopyButton, IconButton, Select, TextField } from '../../design/controls.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { Pill } from '../../design/status.tsx'
import { Card, Empty, Notice } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { performing } from '../../design/toasts.tsx'
import { type Named, pipelineAt } from './named.ts'

/** Schedules and triggers, which start runs of the pipeline. */
export function Starts({ at }: { at: Named }) {
  return (
    <div className="stack">
      <Schedules at={at} />
      <Triggers at={at} />
    </div>
  )
}

const schedulesQuery = () => ok(api.schedules.get({ query: {} }))
type Schedule = Awaited<ReturnType<typeof schedulesQuery>>['schedules'][number]

function Schedules({ at }: { at: Named }) {
  const [isCreating, setCreating] = useState(false)
  const [cron, setCron] = useState('0 6 * * *')
  const query = useQuery({ queryKey: ['schedules'], queryFn: schedulesQuery, refetchInterval: SLOW_MS })
  const refresh = () => queryClient.invalidateQueries({ queryKey: ['schedules'] })
  const { ns: namespace, layer, name: pipeline } = at
  const toggle = ({ id, enabled }: Schedule) =>
    performing(
      ok(api.schedules({ id }).put({ enabled: !enabled })).then(refresh),
      enabled ? 'The schedule is off' : 'The schedule is on',
    )
  const remove = ({ id }: Schedule) =>
    performing(ok(api.schedules({ id }).delete()).then(refresh), 'The schedule is deleted')
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
                    <span className="row">
                      <Button size="small" onClick={() => void toggle(each)}>
                        {each.enabled ? 'Turn off' : 'Turn on'}
                      </Button>
                      <IconButton
                        size="small"
                        icon="cross"
                        label="Delete the schedule"
                        onClick={() => void remove(each)}
                      />
                    </span>
                  ),
                },
              ]}
            />
          )
        }}
      </Loaded>
      <FormDialog
        title="New schedule"
        isOpen={isCreating}
        onClose={() => setCreating(false)}
        submitLabel="Create"
        submit={() =>
          ok(api.schedules.post({ namespace, layer: layer as LayerName, pipeline, cron })).then(refresh)
        }
      >
        <TextField
          label="Cron expression"
          required
          hint="Minute, hour, day, month, weekday; in UTC"
          value={cron}
          onChange={(event) => setCron(event.target.value)}
        />
      </FormDialog>
    </Card>
  )
}

const triggersQuery = (at: Named) => () => ok(pipelineAt(at).triggers.get({ query: {} }))
type Trigger = Awaited<ReturnType<ReturnType<typeof triggersQuery>>>['triggers'][number]

function Triggers({ at }: { at: Named }) {
  const [isCreating, setCreating] = useState(false)
  const [secret, setSecret] = useState<string | null>(null)
  const query = useQuery({
    queryKey: ['triggers', at.ns, at.layer, at.name],
    queryFn: triggersQuery(at),
    refetchInterval: SLOW_MS,
  })
  const refresh = () => queryClient.invalidateQueries({ queryKey: ['triggers'] })
  const toggle = ({ id, enabled }: Trigger) =>
    performing(
      ok(pipelineAt(at).triggers({ id }).put({ enabled: !enabled })).then(refresh),
      enabled ? 'The trigger is off' : 'The trigger is on',
    )
  const remove = ({ id }: Trigger) =>
    performing(ok(pipelineAt(at).triggers({ id }).delete()).then(refresh), 'The trigger is deleted')
  return (
    <Card
      title="Triggers"
      isFlush
      actions={
        <Button size="small" icon="plus" onClick={() => setCreating(true)}>
          New trigger
        </Button>
      }
    >
      {secret && (
        <Notice tone="warn" actions={<CopyButton text={secret} label="Copy the token" />}>
          The token of the webhook is shown only now: <code>{secret}</code>
        </Notice>
      )}
      <Loaded query={query}>
        {({ triggers }) =>
          triggers.length === 0 ? (
            <Empty icon="runs" title="No trigger">
              A trigger starts a run after an upload, a webhook call or the success of another pipeline.
            </Empty>
          ) : (
            <Table
              label="Triggers"
              rows={triggers}
              keyOf={({ id }) => id}
              columns={[
                { name: 'Type', cell: (each) => each.type.replaceAll('_', ' ') },
                { name: 'Settings', cell: (each) => <code>{JSON.stringify(each.config)}</code> },
                {
                  name: 'State',
                  cell: (each) => <Pill tone={each.enabled ? 'good' : 'idle'}>{each.state}</Pill>,
                },
                { name: 'Last', cell: (each) => <Time at={each.last_triggered_at} /> },
                { name: 'Next', cell: (each) => <Time at={each.next_due_at} /> },
                {
                  name: 'Actions',
                  cell: (each) => (
                    <span className="row">
                      <Button size="small" onClick={() => void toggle(each)}>
                        {each.enabled ? 'Turn off' : 'Turn on'}
                      </Button>
                      <IconButton
                        size="small"
                        icon="cross"
                        label="Delete the trigger"
                        onClick={() => void remove(each)}
                      />
                    </span>
                  ),
                },
              ]}
            />
          )
        }
      </Loaded>
      <CreateTrigger at={at} isOpen={isCreating} onClose={() => setCreating(false)} onToken={setSecret} />
    </Card>
  )
}

type Kind = 'landing_zone_upload' | 'pipeline_success' | 'webhook' | 'cron'

const KINDS: readonly { value: Kind; label: string }[] = [
  { value: 'landing_zone_upload', label: 'Upload to a landing zone' },
  { value: 'pipeline_success', label: 'Success of another pipeline' },
  { value: 'webhook', label: 'Webhook' },
  { value: 'cron', label: 'Cron' },
]

function CreateTrigger({
  at,
  isOpen,
  onClose,
  onToken,
}: {
  at: Named
  isOpen: boolean
  onClose: () => void
  onToken: (token: string | null) => void
}) {
  const [kind, setKind] = useState<Kind>('landing_zone_upload')
  const [zone, setZone] = useState('')
  const [pipeline, setPipeline] = useState('')
  const [cron, setCron] = useState('0 6 * * *')
  const configOf = () => {
    const [layer = '', name = ''] = pipeline.split('.')
    if (kind === 'landing_zone_upload') return { namespace: at.ns, zone_name: zone }
    if (kind === 'pipeline_success') return { namespace: at.ns, layer: layer as LayerName, pipeline: name }
    return kind === 'cron' ? { cron_expr: cron } : {}
  }
  const create = async () => {
    const made = await ok(pipelineAt(at).triggers.post({ type: kind, config: configOf() } as never))
    onToken('webhook_token' in made ? String(made.webhook_token) : null)
    await queryClient.invalidateQueries({ queryKey: ['triggers'] })
  }
  return (
    <FormDialog title="New trigger" isOpen={isOpen} onClose={onClose} submitLabel="Create" submit={create}>
      <Select
        label="Starts a run after"
        value={kind}
        choices={KINDS}
        onChange={(value) => setKind(value as Kind)}
      />
      {kind === 'landing_zone_upload' && (
        <TextField
          label="Landing zone"
          required
          value={zone}
          onChange={(event) => setZone(event.target.value)}
        />
      )}
      {kind === 'pipeline_success' && (
        <TextField
          label="Pipeline"
          required
          hint="layer.name, for example silver.orders"
          pattern="(bronze|silver|gold)\.[a-z][a-z0-9_\-]*"
          value={pipeline}
          onChange={(event) => setPipeline(event.target.value)}
        />
      )}
      {kind === 'cron' && (
        <TextField
          label="Cron expression"
          required
          value={cron}
          onChange={(event) => setCron(event.target.value)}
        />
      )}
    </FormDialog>
  )
}
