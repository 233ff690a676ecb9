import { Type as t } from '@sinclair/typebox'
import { GLOB_LENGTH_MAX } from '../../machines/glob.ts'
import {
  Instant,
  Layer,
  NamespaceName,
  nullable,
  PipelineName,
  PipelinePath,
  Uuid,
  ZoneName,
} from '../http/names.ts'
import { limits } from '../limits.ts'

const CronExpr = t.String({
  description: 'Minute, hour, day of month, month, weekday; UTC',
  examples: ['0 6 * * 1-5'],
})
const Dependency = t.String({
  pattern: '^[a-z][a-z0-9-]{2,62}\\.(bronze|silver|gold)\\.[a-z0-9][a-z0-9_-]{0,127}$',
  description: 'namespace.layer.pipeline',
  examples: ['default.silver.flights'],
})
const exactly = <P extends Parameters<typeof t.Object>[0]>(title: string, properties: P) =>
  t.Object(properties, { additionalProperties: false, title })

/** Per type what clients send: all fields, and no others. */
export const CONFIGS = {
  landing_zone_upload: exactly('landing_zone_upload', { namespace: NamespaceName, zone_name: ZoneName }),
  cron: exactly('cron', { cron_expr: CronExpr }),
  pipeline_success: exactly('pipeline_success', {
    namespace: NamespaceName,
    layer: Layer,
    pipeline: PipelineName,
  }),
  webhook: exactly('webhook', {}),
  file_pattern: exactly('file_pattern', {
    namespace: NamespaceName,
    zone_name: ZoneName,
    pattern: t.String({
      minLength: 1,
      maxLength: GLOB_LENGTH_MAX,
      description: 'Glob on the original file name: `*`, `?`, `[a-z]`, `[!a-z]`',
      examples: ['*.csv'],
    }),
  }),
  cron_dependency: exactly('cron_dependency', {
    cron_expr: CronExpr,
    dependencies: t.Array(Dependency, {
      minItems: 1,
      maxItems: limits.dependenciesPerTrigger,
      uniqueItems: true,
    }),
  }),
} as const

export const TriggerType = t.Union(
  [
    t.Literal('landing_zone_upload'),
    t.Literal('cron'),
    t.Literal('pipeline_success'),
    t.Literal('webhook'),
    t.Literal('file_pattern'),
    t.Literal('cron_dependency'),
  ],
  { examples: ['file_pattern'] },
)
export type TriggerType = typeof TriggerType.static

/** A configuration that has passed the check of its type. */
export type TypedConfig = {
  [T in TriggerType]: { type: T; config: (typeof CONFIGS)[T]['static'] }
}[TriggerType]

/**
 * Open here, since its type's own schema judges it as it was sent: the framework would drop unknown fields, and make an
 * object of a number. What is said here is for readers of the document.
 */
const Config = t.Unknown({
  description: 'All fields of its type, and no others',
  oneOf: Object.values(CONFIGS),
  examples: [{ namespace: 'default', zone_name: 'flights', pattern: '*.csv' }],
})
const StoredConfig = t.Object(
  {},
  {
    additionalProperties: true,
    description: 'As it was given; of a webhook `token_hash`, the SHA-256 of its token',
    examples: [{ namespace: 'default', zone_name: 'flights', pattern: '*.csv' }],
  },
)
const CooldownSeconds = t.Integer({
  minimum: 0,
  maximum: limits.cooldownSecondsMax,
  description: 'Least time between two firings; what happens meanwhile is ignored',
  examples: [60],
})

export const CreateTrigger = t.Object(
  {
    type: TriggerType,
    config: Config,
    enabled: t.Optional(t.Boolean({ default: true })),
    cooldown_seconds: t.Optional(CooldownSeconds),
  },
  {
    examples: [
      {
        type: 'file_pattern',
        config: { namespace: 'default', zone_name: 'flights', pattern: '*.csv' },
        cooldown_seconds: 60,
      },
    ],
  },
)
export type CreateTrigger = typeof CreateTrigger.static

export const UpdateTrigger = t.Object(
  {
    /** Never changes; taken only because clients send back what they have got. */
    type: t.Optional(TriggerType),
    config: t.Optional(Config),
    enabled: t.Optional(t.Boolean()),
    cooldown_seconds: t.Optional(CooldownSeconds),
  },
  { examples: [{ enabled: false }] },
)
export type UpdateTrigger = typeof UpdateTrigger.static

const fields = {
  id: Uuid,
  pipeline_id: Uuid,
  type: TriggerType,
  config: StoredConfig,
  enabled: t.Boolean(),
  cooldown_seconds: t.Integer(),
  state: t.Union([t.Literal('armed'), t.Literal('cooling'), t.Literal('disabled')]),
  cooling_until: nullable(Instant, { description: 'What happens before is ignored' }),
  next_due_at: nullable(Instant, { description: 'Of cron and cron_dependency; null while disabled' }),
  last_triggered_at: nullable(Instant),
  last_run_id: nullable(Uuid),
  created_at: Instant,
  updated_at: Instant,
  webhook_url: t.Optional(
    t.String({ description: 'Of webhooks', examples: ['https://sluice.example/api/v1/webhooks'] }),
  ),
}
export const Trigger = t.Object(fields)
export type Trigger = typeof Trigger.static
export const TriggerList = t.Object({ triggers: t.Array(Trigger), total: t.Integer() })
export const TriggerCreated = t.Object({
  ...fields,
  webhook_token: t.Optional(
    t.String({ description: 'Of webhooks; shown here and never again', pattern: '^[0-9a-f]{64}$' }),
  ),
})

export const TriggerPath = t.Composite([PipelinePath, t.Object({ id: Uuid })])
