// What every seed begins with: a zone, pipelines that read it or follow one another, what starts them by themselves, and in
// every other seed settings by which the reaper has something to do.
import type { SimulatedDatabase } from './database.ts'
import type { Stage } from './steps.ts'

const NAMESPACE = 'default'
const LAYER = 'gold'

/** How long things are kept, in the units of the settings. */
export interface Retention {
  runs: number
  runDays: number
  deletedDays: number
}

async function keepLittle({ random }: Stage, admin: SimulatedDatabase['admin']): Promise<Retention> {
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

/** Performed without faults, through the first replica's services. */
export async function setUp(stage: Stage): Promise<void> {
  const { random } = stage
  const [replica] = stage.replicas
  if (replica === undefined) throw new Error('there is no replica')
  const { zones, pipelines, triggers, schedules } = replica
  await zones.create({ namespace: NAMESPACE, name: 'inbox' })

  const make = async (name: string, source?: string, isPublished = true) => {
    const { id } = await pipelines.create({ namespace: NAMESPACE, layer: LAYER, name, source })
    stage.names.set(name, id)
    if (isPublished) await pipelines.publish({ namespace: NAMESPACE, layer: LAYER, name }, 'first')
  }
  await make('first', 'inbox')
  stage.archiving.add('first')
  await make('second', random.chance(0.7) ? 'inbox' : undefined)
  if (random.chance(0.6)) stage.archiving.add('second')
  await make('third')
  await make('fresh', undefined, false)

  const trigger = async (name: string, body: Parameters<typeof triggers.create>[1]) => {
    const made = await triggers.create({ namespace: NAMESPACE, layer: LAYER, name }, body)
    return made
  }
  const upload = await trigger('first', {
    type: 'landing_zone_upload',
    config: { namespace: NAMESPACE, zone_name: 'inbox' },
  })
  stage.expected.push({ triggerId: upload.id, hears: 'uploads' })
  const success = await trigger('third', {
    type: 'pipeline_success',
    config: { namespace: NAMESPACE, layer: LAYER, pipeline: 'first' },
  })
  stage.expected.push({ triggerId: success.id, hears: 'first' })
  const webhook = await trigger('second', {
    type: 'webhook',
    config: {},
    cooldown_seconds: random.pick([0, 0, 30]),
  })
  stage.webhooks.push('webhook_token' in webhook ? String(webhook.webhook_token) : '')
  const others = [
    trigger('second', {
      type: 'cron_dependency',
      config: { cron_expr: '*/2 * * * *', dependencies: ['default.gold.first', 'default.gold.third'] },
    }),
  ]
  stage.triggers.push(
    { pipeline: 'second', id: (await others[0])?.id ?? '' },
    {
      pipeline: 'third',
      id: (
        await trigger('third', { type: 'cron', config: { cron_expr: '*/10 * * * *' }, cooldown_seconds: 60 })
      ).id,
    },
    {
      pipeline: 'third',
      id: (
        await trigger('third', {
          type: 'file_pattern',
          config: { namespace: NAMESPACE, zone_name: 'inbox', pattern: '*.csv' },
          cooldown_seconds: 5,
        })
      ).id,
    },
  )
  if (random.chance(0.5)) stage.retention = await keepLittle(stage, stage.admin)
  await schedules.create({ namespace: NAMESPACE, layer: LAYER, pipeline: 'third', cron: '*/5 * * * *' })
}
