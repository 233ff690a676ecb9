// Protections that can be removed one at a time, to prove that the simulation notices. The product stays unchanged: statements
// are rewritten on the wire, and outcomes are changed before they are applied.
import type { Outcome } from '../app/runs/outcome.ts'
import type { Facts } from './facts.ts'

export interface Mutation {
  name: string
  rewrite(statement: string): string
  outcome(outcome: Outcome, facts: Facts | null): Outcome
}

const same = (statement: string) => statement
const unchanged = (outcome: Outcome) => outcome

export const NO_MUTATION: Mutation = { name: 'none', rewrite: same, outcome: unchanged }

/** Replaces the matching part of statements. */
function rewriting(name: string, pattern: RegExp, instead: string): Mutation {
  return { ...NO_MUTATION, name, rewrite: (statement) => statement.replace(pattern, instead) }
}

export const MUTATIONS: readonly Mutation[] = [
  rewriting(
    'merge without comparing with main',
    /"live"\."content_id" as "liveContent"/,
    '"entry"."base_content" as "liveContent"',
  ),
  rewriting(
    'merge into a branch without comparing',
    /case when theirs\.ref is null then main\.content_id else theirs\.content_id end/,
    'entry.base_content',
  ),
  rewriting(
    'end branches with unfinished runs',
    /exists \(select from run r where r\.branch = f\.name and [^)]*\)\)/,
    'false',
  ),
  rewriting(
    'merge a branch although main changed a tested table',
    /(and entry\.name = read\.name)\s+and \(entry\.from_commit > /,
    '$1 and false and (entry.from_commit > ',
  ),
  rewriting(
    'start runs of branches from main',
    /join branch_entry own on own\.ref = opened\.parent\)/,
    'join branch_entry own on own.ref = opened.parent and false)',
  ),
  rewriting(
    'commit to a branch that is closed',
    /and name <> 'main' and state = 'open'(\s+and head is not distinct from)/,
    "and name <> 'main'$1",
  ),
  rewriting(
    'leave branches open',
    /set state = 'deleted', closed_at = clock_timestamp\(\)/,
    'set state = lake_ref.state',
  ),
  rewriting('leave attempts open', /set state = 'closed', closed_at = /, 'set state = state, closed_at = '),
  rewriting(
    'move runs without locking them',
    /(from run r where id = any\([^)]*\)) order by id for update/,
    '$1 order by id',
  ),
  rewriting(
    'archive files that are already archived',
    /(where f\.id = i\.id) and f\.archived_by_run is null/,
    '$1',
  ),
  rewriting(
    'freeze archived files',
    /(join landing_file f on f\.zone_id = z\.id) and f\.archived_by_run is null/,
    '$1',
  ),
  rewriting(
    'leave consumed events in the queue',
    /delete from trigger_event where id = any\(/,
    'delete from trigger_event where false and id = any(',
  ),
  rewriting(
    'lose successes with a listening trigger',
    /(limit 1\) listener\s[^;]*? on true)(\s+returning 1)/,
    '$1 where false$2',
  ),
  rewriting(
    'write without checking the lease',
    /select 1 from leader where role = (\$\d+) and epoch = (\$\d+) and backend_pid = pg_backend_pid\(\) for share/,
    'select 1 where $1::text is not null and $2::bigint is not null',
  ),
  {
    ...NO_MUTATION,
    name: 'accept the facts of any attempt',
    outcome(outcome, facts) {
      const run = facts?.runs.find(({ id }) => id === outcome.runId)
      return run === undefined || run.attempt === 0 ? outcome : { ...outcome, attempt: run.attempt }
    },
  },
  {
    ...NO_MUTATION,
    name: 'charge runners to attempts that had not begun',
    outcome: (outcome) => (outcome.kind === 'lost' ? { ...outcome, hasBegun: true } : outcome),
  },
  {
    ...NO_MUTATION,
    name: 'retry without counting',
    outcome: (outcome) =>
      outcome.kind === 'failed' && outcome.retry !== undefined
        ? { ...outcome, retry: { ...outcome.retry, max: outcome.retry.max + 1 } }
        : outcome,
  },
  {
    ...NO_MUTATION,
    name: 'merge without a review',
    outcome: (outcome) => (outcome.kind === 'executed' ? { ...outcome, review: undefined } : outcome),
  },
  rewriting('prune the latest success', /and r\.id is distinct from latest\.id/, ''),
  rewriting('prune runs that have not ended', /and r\.status in \('success', 'failed', 'cancelled'\)/, ''),
  rewriting(
    'prune open branches',
    /where f\.closed_at < (\$\d+) and/,
    'where $1::timestamptz is not null and',
  ),
  rewriting('write no history', / as t\(entity_id uuid, event text[^)]*\)/, '$& where false'),
]
