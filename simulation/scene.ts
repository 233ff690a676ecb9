// The start of every seed: a zone, pipelines that read it or follow one another, their triggers, and a schedule. In every other
// seed, retention settings give the reaper work.
import type { SimulatedDatabase } from './database.ts'
import type { Random } from './random.ts'
import type { Replica } from './replica.ts'

const NAMESPACE = 'default'
const LAYER = 'gold'

/** Limits of the retention, in the units of the retention settings. */
export interface Retention {
  runs: number
  runDays: number
  deletedDays: number
}

/** The random choices for the start of a seed. */
export interface Variant {
  secondReads: boolean
  webhookCooldownSeconds: number
}

/** The state at the start, as clients know it. */
export interface Scene {
  names: Map<string, string>
  triggers: { pipeline: string; id: string }[]
  webhooks: string[]
  expected: { triggerId: string; source: string }[]
}

export const drawVariant = (random: Random): Variant => ({
  secondReads: random.chance(0.7),
  webhookCooldownSeconds: random.pick([0, 0, 30]),
})

/** Retention settings that give the reaper work. */
export async function keepLittle(random: Random, admin: SimulatedDatabase['admin']): Promise<Retention> {
  const retention = {
    runs: random.pick([1, 2, 4]),
    runDays: random.pick([0, 1, 90]),
    deletedDays: random.pick([0, 0, 1]),
  }
  await admin`
    update retention_config set runs_max_per_pipeline = ${retention.runs}, runs_max_age_days = ${retention.runDays},
      soft_delete_purge_days = ${retention.deletedDays}, logs_max_age_days = ${random.pick([0, 1])},
      quality_results_max_per_test = ${random.pick([0, 1])}, nessie_orphan_branch_max_age_hours = 0,
      iceberg_snapshot_max_age_days = 0, iceberg_orphan_file_max_age_days = 0`
  if (random.chance(0.5)) await admin`update landing_zone set auto_purge = true, processed_max_age_days = 0`
  return retention
}

/** Creates the scene through a replica's services, without faults. */
export async function setUp(
  { zones, pipelines, triggers, schedules, branches }: Replica,
  { secondReads, webhookCooldownSeconds }: Variant,
): Promise<Scene> {
  const names = new Map<string, string>()
  await zones.create({ namespace: NAMESPACE, name: 'inbox' })
  await branches.create({ name: 'dev' }, { name: null, isAdmin: true }, null)

  const make = async (name: string, source?: string, isPublished = true) => {
    const { id } = await pipelines.create({ namespace: NAMESPACE, layer: LAYER, name, source })
    names.set(name, id)
    if (isPublished) await pipelines.publish({ namespace: NAMESPACE, layer: LAYER, name }, 'first')
  }
  await make('first', 'inbox')
  await make('second', secondReads ? 'inbox' : undefined)
  await make('third')
  await make('fresh', undefined, false)

  const trigger = (name: string, body: Parameters<typeof triggers.create>[1]) =>
    triggers.create({ namespace: NAMESPACE, layer: LAYER, name }, body)
  const upload = await trigger('first', {
    type: 'landing_zone_upload',
    config: { namespace: NAMESPACE, zone_name: 'inbox' },
  })
  const success = await trigger('third', {
    type: 'pipeline_success',
    config: { namespace: NAMESPACE, layer: LAYER, pipeline: 'first' },
  })
  const webhook = await trigger('second', {
    type: 'webhook',
    config: {},
    cooldown_seconds: webhookCooldownSeconds,
  })
  const dependency = await trigger('second', {
    type: 'cron_dependency',
    config: { cron_expr: '*/2 * * * *', dependencies: ['default.gold.first', 'default.gold.third'] },
  })
  const cron = await trigger('third', {
    type: 'cron',
    config: { cron_expr: '*/10 * * * *' },
    cooldown_seconds: 60,
  })
  const pattern = await trigger('third', {
    type: 'file_pattern',
    config: { namespace: NAMESPACE, zone_name: 'inbox', pattern: '*.csv' },
    cooldown_seconds: 5,
  })
  await schedules.create({ namespace: NAMESPACE, layer: LAYER, pipeline: 'third', cron: '*/5 * * * *' })
  return {
    names,
    triggers: [
      { pipeline: 'second', id: dependency.id },
      { pipeline: 'third', id: cron.id },
      { pipeline: 'third', id: pattern.id },
    ],
    webhooks: ['webhook_token' in webhook ? String(webhook.webhook_token) : ''],
    expected: [
      { triggerId: upload.id, source: 'uploads' },
      { triggerId: success.id, source: 'first' },
    ],
  }
}
