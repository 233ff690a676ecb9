import { alias } from 'drizzle-orm/pg-core'
import { latestSuccess } from '../../../drizzle/latest-success.ts'
import { computed, pick, type RowOf, select } from '../../../drizzle/rows.ts'
import { pipelines } from '../../../drizzle/schema/pipeline.ts'
import { triggerDependencies, triggers } from '../../../drizzle/schema/trigger.ts'
import type { Sql } from '../../../drizzle/sql.ts'
import {
  countedStates,
  FOUND,
  type InstanceFilter,
  type InstanceStore,
  latestMove,
  MOVED_AT,
  NONE,
  OF_PIPELINE,
  ownFilter,
} from './instance.ts'

/** Maximum number of dependencies that the reasons of a trigger name. */
const REASONS_MAX = 20

const t = alias(triggers, 't')
const TRIGGER = { ...OF_PIPELINE, ...pick(t, 'id', 'createdAt'), note: t.type }
const LISTED = {
  ...TRIGGER,
  state: t.state,
  live: computed<boolean>('true'),
  attempt: NONE,
  movedAt: MOVED_AT,
  durationMs: NONE,
}
const INSTANCE = {
  machine: computed<'trigger'>("'trigger'"),
  ...FOUND,
  ...TRIGGER,
  ...pick(t, 'snapshot', 'machineVersion', 'type', 'cooldownSeconds', 'coolingUntil', 'source'),
  ...pick(t, 'lastTriggeredAt', 'lastRunId'),
  ...pick(alias(pipelines, 'p'), 'publishedVersion'),
  /** The configuration without the hash of a webhook's token, which readers do not need. */
  config: computed<Record<string, unknown>>("t.config - 'token_hash'"),
  dueAt: computed<Date | null>("case when t.state <> 'disabled' then t.due_at end"),
}
export type TriggerInstance = RowOf<typeof INSTANCE>

export const triggerInstances: InstanceStore<TriggerInstance> = {
  list: (sql, filter, states, { limit, offset }) => select(sql, LISTED)`
    from (select t.* from ${found(sql, filter)} ${states === null ? sql`` : sql`and t.state in ${sql(states)}`}
      order by t.created_at desc, t.id desc limit ${limit} offset ${offset}) t
    join pipeline p on p.id = t.pipeline_id ${latestMove(sql, 'trigger', sql`t.id`)}
    order by t.created_at desc, t.id desc`,

  count: (sql, filter) => countedStates(sql, sql`select t.state from ${found(sql, filter)}`),

  async find(sql, id) {
    const [trigger] = await select(sql, INSTANCE)`
      from trigger t join pipeline p on p.id = t.pipeline_id where t.id = ${id}`
    return trigger
  },
}

const found = (sql: Sql, filter: InstanceFilter) =>
  sql`trigger t join pipeline p on p.id = t.pipeline_id where true ${ownFilter(sql, sql`t.id`, filter)}`

/** Dependencies of a `cron_dependency` trigger that have no success, or whose latest success is already used. */
export const staleDependencies = (sql: Sql, triggerId: string) => select(
  sql,
  pick(alias(triggerDependencies, 'd'), 'source'),
)`
  from trigger_dependency d ${latestSuccess(sql)}
  where d.trigger_id = ${triggerId} and (latest.id is null or latest.id = d.used_run)
  order by d.source limit ${REASONS_MAX}`
