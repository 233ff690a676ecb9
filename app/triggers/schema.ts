import { type ObjectOptions, type TProperties, type TSchema, Type as t } from '@sinclair/typebox'
import { GLOB_LENGTH_MAX } from '../../lake/pipeline/glob.ts'
import { documentedAs } from '../core/documented.ts'
import {
  Instant,
  Layer,
  literals,
  NamespaceName,
  nullable,
  PipelineName,
  PipelinePath,
  Uuid,
  ZoneName,
} from '../core/names.ts'

/** Maximum number of pipelines that one trigger may wait for. */
const DEPENDENCIES_PER_TRIGGER = 50
/** One year. For a longer pause, a client can disable the trigger. */
export const COOLDOWN_SECONDS_MAX = 31_536_000

const CronExpr = t.String({
  description: 'Five fields in UTC: minute, hour, day of month, month, weekday',
  examples: ['0 6 * * 1-5'],
})
const Dependency = t.String({
  pattern: '^[a-z][a-z0-9-]{2,62}\\.(bronze|silver|gold)\\.[a-z0-9][a-z0-9_-]{0,127}$',
  description: 'namespace.layer.pipeline',
  examples: ['default.silver.flights'],
})
const exactly = <P extends Parameters<typeof t.Object>[0]>(title: string, properties: P) =>
  t.Object(properties, { additionalProperties: false, title })

/** The exact fields of each type; other fields are refused. */
export const CONFIGS = {
  landing_zone_upload: exactly('LandingZoneUploadConfig', { namespace: NamespaceName, zone_name: ZoneName }),
  cron: exactly('CronConfig', { cron_expr: CronExpr }),
  pipeline_success: exactly('PipelineSuccessConfig', {
    namespace: NamespaceName,
    layer: Layer,
    pipeline: PipelineName,
  }),
  webhook: exactly('WebhookConfig', {}),
  file_pattern: exactly('FilePatternConfig', {
    namespace: NamespaceName,
    zone_name: ZoneName,
    pattern: t.String({
      minLength: 1,
      maxLength: GLOB_LENGTH_MAX,
      description: 'Glob on the original file name: `*`, `?`, `[a-z]`, `[!a-z]`',
      examples: ['*.csv'],
    }),
  }),
  cron_dependency: exactly('CronDependencyConfig', {
    cron_expr: CronExpr,
    dependencies: t.Array(Dependency, {
      minItems: 1,
      maxItems: DEPENDENCIES_PER_TRIGGER,
      uniqueItems: true,
    }),
  }),
} as const

const TRIGGER_TYPES = [
  'landing_zone_upload',
  'cron',
  'pipeline_success',
  'webhook',
  'file_pattern',
  'cron_dependency',
] as const
export const TriggerType = literals(TRIGGER_TYPES, { title: 'TriggerType', examples: ['file_pattern'] })
export type TriggerType = typeof TriggerType.static

/** A validated configuration with its type. */
export type TypedConfig = {
  [T in TriggerType]: { type: T; config: (typeof CONFIGS)[T]['static'] }
}[TriggerType]

/**
 * Accepts any value here; the service validates it with the schema of its type. The framework would drop unknown fields and
 * convert a number to an object.
 */
const Config = documentedAs(
  t.Unknown(),
  t.Union(Object.values(CONFIGS), { description: 'Exactly the fields of the trigger type' }),
)
const StoredConfig = t.Object({}, { additionalProperties: true })
const CooldownSeconds = t.Integer({
  minimum: 0,
  maximum: COOLDOWN_SECONDS_MAX,
  description:
    'Minimum seconds between two firings; events in between are ignored. A new trigger has 0 by default',
  examples: [60],
})

/** A union with one schema per type, which ties `config` to `type`. */
const ofEachType = (
  title: string,
  schemaOf: (type: TriggerType, config: TSchema) => TProperties,
  options: ObjectOptions = {},
) =>
  t.Union(
    TRIGGER_TYPES.map((type) => {
      const config = CONFIGS[type]
      const name = `${title.replace('Trigger', '')}${String(config.title).replace(/Config$/, '')}Trigger`
      return t.Object(schemaOf(type, config), { title: name })
    }),
    { ...options, title, discriminator: { propertyName: 'type' } },
  )

const settings = {
  enabled: t.Optional(t.Boolean({ default: true })),
  cooldown_seconds: t.Optional(CooldownSeconds),
}
export const CreateTrigger = documentedAs(
  t.Object({ type: TriggerType, config: Config, ...settings }),
  ofEachType('CreateTrigger', (type, config) => ({ type: t.Literal(type), config, ...settings }), {
    examples: [
      {
        type: 'file_pattern',
        config: { namespace: 'default', zone_name: 'flights', pattern: '*.csv' },
        cooldown_seconds: 60,
      },
    ],
  }),
)
export type CreateTrigger = typeof CreateTrigger.static

export const UpdateTrigger = t.Object(
  {
    /** Must equal the type of the trigger. Accepted because clients send a trigger back as they read it. */
    type: t.Optional(TriggerType),
    config: t.Optional(Config),
    enabled: t.Optional(t.Boolean()),
    cooldown_seconds: t.Optional(CooldownSeconds),
  },
  { title: 'UpdateTrigger', examples: [{ enabled: false }] },
)
export type UpdateTrigger = typeof UpdateTrigger.static

const fields = {
  id: Uuid,
  pipeline_id: Uuid,
  type: TriggerType,
  config: StoredConfig,
  enabled: t.Boolean(),
  cooldown_seconds: t.Integer(),
  state: literals(['armed', 'cooling', 'disabled'], { title: 'TriggerState' }),
  cooling_until: nullable(Instant, { description: 'The trigger ignores events before this time' }),
  next_due_at: nullable(Instant, {
    description: 'Next due time of a cron or cron_dependency trigger; null while disabled',
  }),
  last_triggered_at: nullable(Instant),
  last_run_id: nullable(Uuid),
  created_at: Instant,
  updated_at: Instant,
  webhook_url: t.Optional(
    t.String({
      description: 'Address of a webhook trigger',
      examples: ['https://sluice.example/api/v1/webhooks'],
    }),
  ),
}
const webhookToken = t.Optional(
  t.String({
    description: 'Token of the webhook; only the response to the creation of the trigger contains it',
    pattern: '^[0-9a-f]{64}$',
  }),
)
/** Configuration of a stored webhook: only the hash of the token is stored. Readers of the pipeline do not see the hash. */
const WebhookStoredConfig = t.Object(
  {
    token_hash: t.Optional(
      t.String({
        description: 'SHA-256 of the token; only for callers who may write the pipeline',
        pattern: '^[0-9a-f]{64}$',
      }),
    ),
  },
  { title: 'StoredWebhookConfig' },
)
const TriggerDocument = ofEachType('Trigger', (type, config) => {
  const { webhook_url, ...common } = fields
  return type === 'webhook'
    ? {
        ...common,
        type: t.Literal(type),
        config: WebhookStoredConfig,
        webhook_url,
        webhook_token: webhookToken,
      }
    : { ...common, type: t.Literal(type), config }
})

const CheckedTrigger = t.Object(fields)
export type Trigger = typeof CheckedTrigger.static
export const Trigger = documentedAs(CheckedTrigger, TriggerDocument)
export const TriggerList = t.Object(
  { triggers: t.Array(Trigger), total: t.Integer() },
  { title: 'TriggerList' },
)
export const TriggerCreated = documentedAs(
  t.Object({ ...fields, webhook_token: webhookToken }),
  TriggerDocument,
)

export const TriggerPath = t.Composite([PipelinePath, t.Object({ id: Uuid })])
