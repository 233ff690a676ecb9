import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { Named } from '../../api/pipelines.ts'
import { SLOW_MS } from '../../api/queries.ts'
import { deleteTrigger, enableTrigger, type Trigger, triggersQuery } from '../../api/triggers.ts'
import { Time } from '../../design/clock.tsx'
import { Button, CopyButton } from '../../design/controls.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { Pill } from '../../design/status.tsx'
import { Card, Empty, Notice } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { performing } from '../../design/toasts.tsx'
import { CreateTrigger, kindLabel } from './create-trigger.tsx'
import { StartActions } from './start-actions.tsx'

/** The events that start runs of the pipeline. */
export function Triggers({ at }: { at: Named }) {
  const [isCreating, setCreating] = useState(false)
  const [removed, setRemoved] = useState<Trigger | null>(null)
  const [secret, setSecret] = useState<string | null>(null)
  const query = useQuery({ ...triggersQuery(at), refetchInterval: SLOW_MS })
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
            <TriggerTable at={at} triggers={triggers} onRemove={setRemoved} />
          )
        }
      </Loaded>
      <CreateTrigger at={at} isOpen={isCreating} onClose={() => setCreating(false)} onToken={setSecret} />
      <FormDialog
        title="Delete the trigger"
        description={removed ? `It starts no more runs: ${settingsOf(removed)}.` : ''}
        isOpen={removed !== null}
        onClose={() => setRemoved(null)}
        submitLabel="Delete"
        isDangerous
        submit={() => deleteTrigger(at, removed?.id ?? '')}
      />
    </Card>
  )
}

function TriggerTable({
  at,
  triggers,
  onRemove,
}: {
  at: Named
  triggers: readonly Trigger[]
  onRemove: (trigger: Trigger) => void
}) {
  const toggle = ({ id, enabled }: Trigger) =>
    performing(enableTrigger(at, id, !enabled), enabled ? 'The trigger is off' : 'The trigger is on')
  return (
    <Table
      label="Triggers"
      rows={triggers}
      keyOf={({ id }) => id}
      columns={[
        { name: 'Starts a run', cell: (each) => <TriggerText trigger={each} /> },
        {
          name: 'State',
          cell: (each) => <Pill tone={each.enabled ? 'good' : 'idle'}>{each.state}</Pill>,
        },
        {
          name: 'Last',
          cell: ({ last_run_id: run, last_triggered_at: at }) =>
            run === null ? (
              <Time at={at} />
            ) : (
              <Link to="/runs/$id" params={{ id: run }}>
                <Time at={at} />
              </Link>
            ),
        },
        { name: 'Next', cell: (each) => <Time at={each.next_due_at} /> },
        {
          name: 'Actions',
          cell: (each) => (
            <StartActions
              noun="trigger"
              isOn={each.enabled}
              onToggle={() => void toggle(each)}
              onDelete={() => onRemove(each)}
            />
          ),
        },
      ]}
    />
  )
}

function TriggerText({ trigger }: { trigger: Trigger }) {
  const { webhook_url: url, cooldown_seconds: cooldown } = trigger
  return (
    <>
      {settingsOf(trigger)}
      {url && (
        <div className="row">
          <code>POST {url}</code> <CopyButton text={url} />
        </div>
      )}
      {cooldown > 0 && <div className="muted">at most once in {cooldown} s</div>}
    </>
  )
}

/** For example `after an upload to default.orders`. */
function settingsOf({ type, config }: Trigger): string {
  const texts = config as Record<string, string | string[]>
  const { namespace, zone_name: zone, layer, pipeline, pattern, cron_expr: cron, dependencies } = texts
  switch (type) {
    case 'landing_zone_upload':
      return `after an upload to ${namespace}.${zone}`
    case 'file_pattern':
      return `after an upload of ${pattern} to ${namespace}.${zone}`
    case 'pipeline_success':
      return `after a success of ${namespace}.${layer}.${pipeline}`
    case 'cron':
      return `at ${cron}`
    case 'cron_dependency':
      return `at ${cron}, when ${[dependencies ?? []].flat().join(', ')} have succeeded since`
    default:
      return kindLabel(type)
  }
}
