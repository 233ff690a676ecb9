// The configuration of a trigger, as clients write it and as events and clocks are matched with it. Pure.
import type { Static, TSchema } from '@sinclair/typebox'
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
import { BadGlob, checkGlob } from '../../lake/pipeline/glob.ts'
import { BadCron, checkCron } from '../../machines/cron.ts'
import { AppError, invalid } from '../core/errors.ts'
import { unknownName } from '../wire/unknown-fields.ts'
import { refusalOfValue } from '../wire/validation.ts'
import { CONFIGS, type TriggerType, type TypedConfig } from './schema.ts'

const checks = new Map<TriggerType, TypeCheck<TSchema>>()

/** Parses a configuration by its type. Throws 400 naming the field. `now` decides whether a cron time lies in the future. */
export function parseConfig(type: TriggerType, config: unknown, now: Date): TypedConfig {
  const check = checks.get(type) ?? TypeCompiler.Compile<TSchema>(CONFIGS[type])
  checks.set(type, check)
  const known = Object.keys(CONFIGS[type].properties)
  const unknown = isObject(config) ? Object.keys(config).find((name) => !known.includes(name)) : undefined
  if (unknown !== undefined) throw unknownName('field', unknown, known, ['config'])
  const problem = check.Errors(config).First()
  if (problem !== undefined) throw refusalOfValue(problem, 'config')
  const typed = { type, config: config as Static<TSchema> } as TypedConfig
  const cron = cronOf(typed)
  if (cron !== null) named('config.cron_expr', BadCron, () => checkCron(cron, now))
  if (typed.type === 'file_pattern') named('config.pattern', BadGlob, () => checkGlob(typed.config.pattern))
  return typed
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function named(field: string, Refusal: typeof BadCron | typeof BadGlob, check: () => void) {
  try {
    check()
  } catch (error) {
    throw error instanceof Refusal ? invalid(field, error.message) : error
  }
}

/**
 * The source whose events fire the trigger: `zone:ns.name` or `pipeline:ns.layer.name`. Null if a clock or a webhook call fires
 * it.
 */
export function sourceOf({ type, config }: TypedConfig): string | null {
  switch (type) {
    case 'landing_zone_upload':
    case 'file_pattern':
      return zoneSource({ namespace: config.namespace, name: config.zone_name })
    case 'pipeline_success':
      return `pipeline:${config.namespace}.${config.layer}.${config.pipeline}`
    case 'cron':
    case 'cron_dependency':
    case 'webhook':
      return null
  }
}

export const zoneSource = ({ namespace, name }: { namespace: string; name: string }) =>
  `zone:${namespace}.${name}`

/** The sources whose successes a cron_dependency waits for. */
export const dependenciesOf = (typed: TypedConfig): string[] =>
  typed.type === 'cron_dependency' ? typed.config.dependencies.map((name) => `pipeline:${name}`) : []

export const cronOf = ({ type, config }: TypedConfig): string | null =>
  type === 'cron' || type === 'cron_dependency' ? config.cron_expr : null

/** A 404 that names the field of a source that does not exist. */
export function noSource(typed: TypedConfig, source: string): AppError {
  const [kind, name] = [source.slice(0, source.indexOf(':')), source.slice(source.indexOf(':') + 1)]
  const field =
    kind === 'zone'
      ? 'zone_name'
      : typed.type === 'cron_dependency'
        ? `dependencies.${typed.config.dependencies.indexOf(name)}`
        : 'pipeline'
  const what = kind === 'zone' ? 'landing zone' : 'pipeline'
  return new AppError(404, 'NOT_FOUND', `config.${field}: ${what} ${name} not found`)
}
