// Facts about an instance besides its state, for each machine.
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { Definition, Instance, MachineName } from '../../api/inspector.ts'
import { Time } from '../../design/clock.tsx'
import { count, duration } from '../../design/format.ts'
import { Facts, Notice } from '../../design/surfaces.tsx'

type Named = readonly [name: string, value: ReactNode]
type Values = Readonly<Record<string, unknown>>

export function InstanceFacts({ instance, definition }: { instance: Instance; definition: Definition }) {
  const { machine, facts, created_at, is_newer, machine_version } = instance
  const context = (instance.snapshot.context ?? {}) as Values
  const isOtherVersion = is_newer || machine_version !== definition.version
  const shown: Named[] = [
    [machine === 'run' ? 'Requested' : 'Created', <Time key="created" at={created_at} />],
    ...FACTS[machine](facts, context).filter(([, value]) => value !== null && value !== ''),
    ...(isOtherVersion
      ? [['Machine version', `${machine_version} (this service: ${definition.version})`] as const]
      : []),
  ]
  return (
    <div className="stack instance-facts">
      <Facts facts={shown} />
      {typeof facts.error === 'string' && (
        <Notice tone="bad">
          <pre>{facts.error}</pre>
        </Notice>
      )}
    </div>
  )
}

const text = (value: unknown): string | null => (value === null || value === undefined ? null : String(value))
/** A number that says something only when it is not zero. */
const some = (value: unknown): string | null => (Number(value) > 0 ? text(value) : null)
const number = (value: unknown): string | null => (typeof value === 'number' ? count(value) : null)
const span = (ms: unknown): string | null => (typeof ms === 'number' ? duration(ms) : null)
const moment = (value: unknown): ReactNode =>
  typeof value === 'string' ? <Time key={value} at={value} /> : null
const run = (id: unknown): ReactNode =>
  typeof id === 'string' ? (
    <Link key={id} to="/inspector/$machine/$id" params={{ machine: 'run', id }}>
      {id.slice(0, 8)}…
    </Link>
  ) : null

const FACTS: Record<MachineName, (facts: Values, context: Values) => readonly Named[]> = {
  run: (facts, context) => [
    ['Attempt', some(facts.attempt)],
    ['Version', text(facts.version_number) ?? 'draft'],
    ['Started', moment(facts.started_at)],
    ['Duration', span(facts.duration_ms)],
    ['Rows written', number(facts.rows_written)],
    ['Base commit', text(facts.base_commit)],
    ['Merge commit', text(facts.merged_commit)],
    ['Lost runners', some(context.lostRunners)],
    ['Runners lost while alone', some(context.lostAlone)],
    ['Lost engines', some(context.lostEngines)],
    ['Merge conflicts', some(context.conflicts)],
    ['Retries', some(context.retries)],
    ['Not before', moment(facts.not_before)],
    ['Last log line', moment(facts.last_log_at)],
  ],
  draft: (facts) => [
    ['Revision', text(facts.draft_revision)],
    ['Published version', text(facts.published_version) ?? 'none'],
    ['Published', moment(facts.published_at)],
    ['Deleted', moment(facts.deleted_at)],
  ],
  trigger: (facts) => [
    ['Type', text(facts.type)],
    [
      'Cooldown',
      Number(facts.cooldown_seconds) > 0 ? duration(Number(facts.cooldown_seconds) * 1_000) : 'none',
    ],
    ['Due', moment(facts.due_at)],
    ['Last fired', moment(facts.last_triggered_at)],
    ['Last run', run(facts.last_run_id)],
    ...Object.entries((facts.config ?? {}) as Values).map(
      ([key, value]): Named => [
        key.replaceAll('_', ' '),
        Array.isArray(value) ? value.join(', ') : String(value),
      ],
    ),
  ],
}
