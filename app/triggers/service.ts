import { createHash, randomBytes } from 'node:crypto'
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { nextAfter } from '../../machines/cron.ts'
import { newTrigger } from '../../machines/trigger.ts'
import { AppError, invalid, notFound } from '../core/errors.ts'
import type { NewId, PipelineId, TriggerId } from '../core/ids.ts'
import { limits } from '../core/limits.ts'
import type { Page } from '../core/pagination.ts'
import { noPipeline, type PipelineRef } from '../core/pipeline-ref.ts'
import { cronOf, dependenciesOf, noSource, parseConfig, sourceOf } from './config.ts'
import type { CreateTrigger, Trigger, TypedConfig, UpdateTrigger } from './schema.ts'
import { eventLagSeconds } from './store/events.ts'
import {
  lockEnabledOf,
  lockedTrigger,
  moveTrigger,
  saveTriggers,
  setDue,
  type TriggerRow,
} from './store/moves.ts'
import {
  changeTrigger,
  insertTrigger,
  livePipelineId,
  lockForTriggers,
  lockTriggerOf,
  missingSources,
  removeTrigger,
  setDependencies,
  triggerOf,
  triggersOf,
} from './store/triggers.ts'

export { type Fired, fireAll } from './store/firing.ts'
export { lockTriggersOfTokens } from './store/moves.ts'
export { forgetOthers } from './store/triggers.ts'

interface TriggerDeps {
  sql: Sql
  newId: NewId
}

export type TriggerService = ReturnType<typeof makeTriggerService>

const TOKEN_BYTES = 32
/** Only this hash of a webhook's token is stored. */
export const hashOfToken = (token: string) => createHash('sha256').update(token).digest('hex')

export function makeTriggerService({ sql, newId }: TriggerDeps) {
  async function list(ref: PipelineRef, page: Page) {
    const pipelineId = await livePipelineId(sql, ref)
    if (pipelineId === null) throw noPipeline(ref)
    const { items, total } = await triggersOf(sql, pipelineId, page)
    return { triggers: items.map(triggerViewOf), total }
  }

  /** Only this answer contains the token of a webhook, because only its hash is stored. */
  async function create(ref: PipelineRef, body: CreateTrigger) {
    const token = body.type === 'webhook' ? randomBytes(TOKEN_BYTES).toString('hex') : null
    const row = await sql.begin((tx) => insertNew(tx, ref, body, newId() as TriggerId, token))
    return { ...triggerViewOf(row), ...(token === null ? {} : { webhook_token: token }) }
  }

  async function get(ref: PipelineRef, id: string) {
    const row = await triggerOf(sql, ref, id)
    if (row === null) throw await noTrigger(ref, id)
    return triggerViewOf(row)
  }

  /** Absent fields stay unchanged. A new cron text and the end of a pause count from now. */
  async function update(ref: PipelineRef, id: string, change: UpdateTrigger) {
    const row = await sql.begin((tx) => changeLocked(tx, ref, id, change))
    if (row === null) throw await noTrigger(ref, id)
    return triggerViewOf(row)
  }

  async function remove(ref: PipelineRef, id: string) {
    if (!(await removeTrigger(sql, ref, id))) throw await noTrigger(ref, id)
  }

  /** Disables all triggers of a deleted pipeline. They could not fire anyway; this records the end in their history. */
  async function retireAllOf(pipelineId: PipelineId) {
    for (;;) {
      const count = await sql.begin(async (tx) => {
        const locked = await lockEnabledOf(tx, pipelineId, limits.dueBatch)
        if (locked === null || locked.triggers.size === 0) return 0
        for (const trigger of locked.triggers.values())
          moveTrigger(trigger, { type: 'disabled' }, 'pipeline deleted')
        await saveTriggers(tx, locked.triggers.values(), locked.now)
        return locked.rows.length
      })
      if (count < limits.dueBatch) return
    }
  }

  async function noTrigger(ref: PipelineRef, id: string) {
    return (await livePipelineId(sql, ref)) === null ? noPipeline(ref) : notFound(`trigger ${id}`)
  }

  return {
    list,
    create,
    get,
    update,
    remove,
    retireAllOf,
    /** Age of the oldest event that triggers have not consumed. */
    lagSeconds: () => eventLagSeconds(sql),
  }
}

/** Maximum number of triggers per pipeline. */
export const TRIGGERS_PER_PIPELINE = 100

async function insertNew(
  tx: SqlTx,
  ref: PipelineRef,
  body: CreateTrigger,
  id: TriggerId,
  token: string | null,
): Promise<TriggerRow> {
  const pipeline = await lockForTriggers(tx, ref)
  if (pipeline === null) throw noPipeline(ref)
  const { pipelineId, now } = pipeline
  const typed = parseConfig(body.type, body.config, now)
  await requireSources(tx, typed)
  if (pipeline.triggers >= TRIGGERS_PER_PIPELINE)
    throw new AppError(
      400,
      'INVALID_ARGUMENT',
      `pipeline ${ref.namespace}.${ref.layer}.${ref.name} has ${TRIGGERS_PER_PIPELINE} triggers, the limit: delete a trigger first`,
    )
  const tokenHash = token === null ? null : hashOfToken(token)
  const cron = cronOf(typed)
  const row = await insertTrigger(tx, {
    id,
    pipelineId,
    type: typed.type,
    config: tokenHash === null ? typed.config : { token_hash: tokenHash },
    snapshot: newTrigger({
      enabled: body.enabled ?? true,
      cooldownSeconds: body.cooldown_seconds ?? 0,
    }),
    source: sourceOf(typed),
    dueAt: cron === null ? null : nextAfter(cron, now),
    tokenHash,
    now,
  })
  if (typed.type === 'cron_dependency') await setDependencies(tx, id, dependenciesOf(typed))
  return row
}

/** Null: the pipeline has no such trigger. */
async function changeLocked(
  tx: SqlTx,
  ref: PipelineRef,
  id: string,
  change: UpdateTrigger,
): Promise<TriggerRow | null> {
  const locked = await lockTriggerOf(tx, ref, id)
  if (locked === null) return null
  const { row, now } = locked
  if (change.type !== undefined && change.type !== row.type)
    throw invalid('type', `cannot change from ${row.type}: create another trigger`)
  const trigger = lockedTrigger(row)
  const typed = change.config === undefined ? trigger.typed : reparsed(row, change.config, now)
  if (change.config !== undefined) await requireSources(tx, typed)

  const at = now.getTime()
  const isPaused = row.state === 'disabled'
  if (change.enabled === true) moveTrigger(trigger, { type: 'enabled', at }, UPDATED)
  if (change.enabled === false) moveTrigger(trigger, { type: 'disabled' }, UPDATED)
  const cooldown = change.cooldown_seconds ?? row.cooldownSeconds
  if (cooldown !== row.cooldownSeconds)
    moveTrigger(trigger, { type: 'cooldownChanged', cooldownSeconds: cooldown, at }, UPDATED)
  const cron = cronOf(typed)
  if (cron !== null && (cron !== cronOf(trigger.typed) || (isPaused && change.enabled === true)))
    setDue(trigger, nextAfter(cron, now))
  await saveTriggers(tx, [trigger], now)
  const config = typed.type === 'webhook' ? row.config : typed.config
  // Without a new configuration the source stays. It may be null, because another owner's resource took the name (see
  // `forgetOthers`).
  const source = change.config === undefined ? row.source : sourceOf(typed)
  const changed = await changeTrigger(tx, row.id, { config, source, now })
  if (typed.type === 'cron_dependency' && change.config !== undefined)
    await setDependencies(tx, row.id, dependenciesOf(typed))
  return changed
}

async function requireSources(tx: SqlTx, typed: TypedConfig) {
  const source = sourceOf(typed)
  const [missing] = await missingSources(tx, source === null ? dependenciesOf(typed) : [source])
  if (missing !== undefined) throw noSource(typed, missing)
}

const UPDATED = 'updated'

/** A client may send the configuration of a webhook back as it was shown. The token never changes. */
function reparsed(row: TriggerRow, config: unknown, now: Date): TypedConfig {
  if (row.type !== 'webhook' || typeof config !== 'object' || config === null || !('token_hash' in config))
    return parseConfig(row.type, config, now)
  const { token_hash: hash, ...rest } = config
  if (hash !== row.tokenHash)
    throw invalid('config.token_hash', 'cannot change: create another trigger to get another token')
  return parseConfig(row.type, rest, now)
}

const triggerViewOf = (row: TriggerRow): Trigger => ({
  id: row.id,
  pipeline_id: row.pipelineId,
  type: row.type,
  config: row.config,
  enabled: row.state !== 'disabled',
  cooldown_seconds: row.cooldownSeconds,
  state: row.state,
  cooling_until: row.coolingUntil?.toISOString() ?? null,
  // The next time after a pause is computed when the pause ends.
  next_due_at: row.state === 'disabled' ? null : (row.dueAt?.toISOString() ?? null),
  last_triggered_at: row.lastTriggeredAt?.toISOString() ?? null,
  last_run_id: row.lastRunId,
  created_at: row.createdAt.toISOString(),
  updated_at: row.updatedAt.toISOString(),
})
