import { useState } from 'react'
import type { Named } from '../../api/pipelines.ts'
import { createTrigger } from '../../api/triggers.ts'
import { Select, TextField } from '../../design/controls.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { PipelineField, ZoneField } from '../../fields/suggestions.tsx'
import { CronField } from './cron-field.tsx'

const KINDS = [
  { value: 'landing_zone_upload', label: 'after an upload to a landing zone' },
  { value: 'file_pattern', label: 'after an upload of a file with a certain name' },
  { value: 'pipeline_success', label: 'after a success of another pipeline' },
  { value: 'webhook', label: 'after a call of a webhook' },
  { value: 'cron', label: 'at certain times' },
  { value: 'cron_dependency', label: 'at certain times, if other pipelines have succeeded' },
] as const
type Kind = (typeof KINDS)[number]['value']

export const kindLabel = (kind: string): string => KINDS.find(({ value }) => value === kind)?.label ?? kind

const EMPTY = { zone: '', pattern: '*.csv', pipeline: '', others: '', cron: '0 6 * * *', cooldown: '0' }

/** The fields of a kind as the API names them. Names have their namespace. */
function configOf(kind: Kind, { zone, pattern, pipeline, others, cron }: typeof EMPTY): object {
  const [zoneSpace, zoneName] = zone.split('.')
  const ofZone = { namespace: zoneSpace, zone_name: zoneName }
  const [namespace, layer, name] = pipeline.split('.')
  switch (kind) {
    case 'landing_zone_upload':
      return ofZone
    case 'file_pattern':
      return { ...ofZone, pattern }
    case 'pipeline_success':
      return { namespace, layer, pipeline: name }
    case 'cron':
      return { cron_expr: cron }
    case 'cron_dependency':
      return { cron_expr: cron, dependencies: others.split(/[\s,]+/).filter((each) => each !== '') }
    case 'webhook':
      return {}
  }
}

export function CreateTrigger({
  at,
  isOpen,
  onClose,
  onToken,
}: {
  at: Named
  isOpen: boolean
  onClose: () => void
  /** Called with the token of a new webhook, which is readable only now; null: the trigger is no webhook. */
  onToken: (token: string | null) => void
}) {
  const [kind, setKind] = useState<Kind>('landing_zone_upload')
  const [form, setForm] = useState(EMPTY)
  const set = (change: Partial<typeof EMPTY>) => setForm({ ...form, ...change })
  const create = async () => {
    const cooldown = Number(form.cooldown)
    const made = await createTrigger(at, {
      type: kind,
      config: configOf(kind, form),
      ...(cooldown > 0 && { cooldown_seconds: cooldown }),
    })
    onToken('webhook_token' in made ? String(made.webhook_token) : null)
    setForm(EMPTY)
  }
  const needsZone = kind === 'landing_zone_upload' || kind === 'file_pattern'
  return (
    <FormDialog title="New trigger" isOpen={isOpen} onClose={onClose} submitLabel="Create" submit={create}>
      <Select
        label="Starts a run"
        value={kind}
        choices={KINDS}
        onChange={(value) => setKind(value as Kind)}
      />
      {needsZone && <ZoneField value={form.zone} onChange={(zone) => set({ zone })} />}
      {kind === 'file_pattern' && (
        <TextField
          label="File name"
          required
          hint="* stands for any text, ? for one letter"
          value={form.pattern}
          onChange={(event) => set({ pattern: event.target.value })}
        />
      )}
      {kind === 'pipeline_success' && (
        <PipelineField label="Pipeline" value={form.pipeline} onChange={(pipeline) => set({ pipeline })} />
      )}
      {(kind === 'cron' || kind === 'cron_dependency') && (
        <CronField value={form.cron} onChange={(cron) => set({ cron })} />
      )}
      {kind === 'cron_dependency' && (
        <TextField
          label="Pipelines"
          required
          hint="Names such as default.silver.orders, separated by commas"
          value={form.others}
          onChange={(event) => set({ others: event.target.value })}
        />
      )}
      <TextField
        label="Seconds between two runs, at least"
        type="number"
        min={0}
        value={form.cooldown}
        onChange={(event) => set({ cooldown: event.target.value })}
      />
    </FormDialog>
  )
}
