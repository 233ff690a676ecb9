// The result of a dry run of the reaper. It travels from the reaper's thread to the response.
import { Type as t } from '@sinclair/typebox'
import { literals } from './names.ts'

const KINDS = [
  'stuck_runs',
  'log_lines',
  'runs',
  'quality_results',
  'pipelines',
  'pipeline_files',
  'landing_files',
  'audit_entries',
  'idempotency_keys',
  'trigger_events',
  'transitions',
  'snapshots',
  'table_states',
  'open_branches',
  'kept_branches',
  'closed_branches',
  'commits',
  'lake_files',
] as const

export const Removal = t.Object(
  {
    duty: t.String({ description: 'The duty of the reaper, as in `failures`' }),
    kind: literals(KINDS),
    total: t.Integer({ description: 'Number of removals of this kind by this duty' }),
    size_bytes: t.Integer({ description: 'Total size of removed files; 0 for rows' }),
    items: t.Array(t.String(), { description: 'Names or ids of at most 100 of them; empty for mere rows' }),
  },
  { title: 'Removal' },
)
export type Removal = typeof Removal.static

export const DryRunResult = t.Object({
  would_remove: t.Array(Removal, { description: 'Everything that a tick would remove or end now' }),
  incomplete: t.Array(t.String(), {
    description: 'Duties that stopped early or failed, so that their totals are lower bounds',
  }),
})
export type DryRunResult = typeof DryRunResult.static
