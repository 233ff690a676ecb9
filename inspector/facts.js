// Facts about an instance besides its state, for each machine.
import { h } from './elements.js'
import { ago, duration } from './moments.js'

/** @typedef {Record<string, any>} Facts */
/** @typedef {import('./types.js').Child} Child */

/**
 * @param {string} machine
 * @param {import('./types.js').Instance} instance
 * @param {import('./types.js').Definition} definition
 */
export function factsOf(machine, { facts, snapshot, created_at, is_newer, machine_version }, definition) {
  const rows = FACTS[machine]?.(facts, /** @type {Facts | null} */ (snapshot.context)) ?? []
  return [
    fact(machine === 'run' ? 'Requested' : 'Created', ago(created_at)),
    ...rows
      .filter(([, value]) => value !== null && value !== undefined && value !== '')
      .map(([label, value]) => fact(label, value)),
    is_newer || machine_version !== definition.version
      ? fact('Machine version', `${machine_version} (this service: ${definition.version})`)
      : null,
    facts.error ? h('div.fact.error', {}, h('dt', {}, 'Error'), h('dd', {}, facts.error)) : null,
  ]
}

/**
 * @param {string} label
 * @param {Child} value
 */
const fact = (label, value) => h('div.fact', {}, h('dt', {}, label), h('dd', {}, value))
/** @param {string | null | undefined} at */
const moment = (at) => (at === null || at === undefined ? null : ago(at))
/** @param {string | null | undefined} id */
const link = (id) =>
  id === null || id === undefined
    ? null
    : h('a', { href: `#/run/${id}`, data: { name: id } }, `${id.slice(0, 8)}…`)

/** @type {Record<string, (facts: Facts, context: Facts | null) => [string, Child][]>} */
const FACTS = {
  run: (facts, context) => [
    ['Attempt', facts.attempt > 0 ? facts.attempt : null],
    ['Version', facts.version_number ?? 'draft'],
    ['Started', moment(facts.started_at)],
    ['Duration', facts.duration_ms === null ? null : duration(facts.duration_ms)],
    ['Rows written', facts.rows_written?.toLocaleString('en-US')],
    ['Base commit', facts.base_commit],
    ['Merge commit', facts.merged_commit],
    ['Lost runners', context?.lostRunners || null],
    ['Runners lost while alone', context?.lostAlone || null],
    ['Lost engines', context?.lostEngines || null],
    ['Merge conflicts', context?.conflicts || null],
    ['Retries', context?.retries || null],
    ['Not before', moment(facts.not_before)],
    ['Last log line', moment(facts.last_log_at)],
  ],
  draft: (facts) => [
    ['Revision', facts.draft_revision],
    ['Published version', facts.published_version ?? 'none'],
    ['Published', moment(facts.published_at)],
    ['Deleted', moment(facts.deleted_at)],
  ],
  trigger: (facts) => [
    ['Type', facts.type],
    ['Cooldown', facts.cooldown_seconds > 0 ? duration(facts.cooldown_seconds * 1_000) : 'none'],
    ['Due', moment(facts.due_at)],
    ['Last fired', moment(facts.last_triggered_at)],
    ['Last run', link(facts.last_run_id)],
    ...Object.entries(facts.config ?? {}).map(
      ([key, value]) =>
        /** @type {[string, string]} */ ([
          key.replaceAll('_', ' '),
          Array.isArray(value) ? value.join(', ') : String(value),
        ]),
    ),
  ],
}
