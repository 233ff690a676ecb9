// The query service's part of the environment is parsed here, once; values are passed in from there.

import type { EngineSize } from '../../lake/engine/instance.ts'

export interface Settings {
  host: string
  port: number
  /** A directory of this process alone: what it holds is removed at start. */
  scratchDir: string
  /** The directory of the API's disk store, where the disk is shared with it. */
  lakeDir: string | null
  /** Queries that execute at once; each has an engine of its own. */
  concurrency: number
  /** Of one query. */
  engine: EngineSize
  logFormat: 'text' | 'json'
}

/** Everything that is wrong with the environment, in one line. */
export class SettingsError extends Error {}

type Env = Record<string, string | undefined>

const MIB = 1_048_576
const GIB = 1_024 * MIB
/** Engines together leave the rest of the machine's memory to pipelines and everything else. */
const MEMORY_SHARE = 0.25
const CONCURRENCY_MAX = 64

/** Reads the environment. Throws one SettingsError that lists every bad name. */
export function parseSettings(env: Env, machine: { cores: number; memoryBytes: number }): Settings {
  const problems: string[] = []
  const text = (name: string) => env[name]?.trim() || undefined

  function number(name: string, fallback: number, { min, max }: { min: number; max: number }): number {
    const value = Number(text(name) ?? fallback)
    if (Number.isInteger(value) && value >= min && value <= max) return value
    problems.push(`${name} must be a whole number from ${min} to ${max}`)
    return fallback
  }

  function bytes(name: string, fallback: number): number {
    const value = text(name)
    if (value === undefined) return fallback
    const [, amount, unit] = /^(\d+(?:\.\d+)?)\s*(M|G)i?B$/i.exec(value) ?? []
    if (amount !== undefined && Number(amount) > 0)
      return Math.floor(Number(amount) * (unit?.toUpperCase() === 'G' ? GIB : MIB))
    problems.push(`${name} must be a size such as 512MB or 2GB`)
    return fallback
  }

  const concurrency = number('QUERY_CONCURRENCY', Math.max(2, machine.cores), {
    min: 1,
    max: CONCURRENCY_MAX,
  })
  const scratchDir = text('SCRATCH_DIR')
  if (scratchDir === undefined) problems.push('SCRATCH_DIR must name a directory')
  const settings: Settings = {
    host: text('HOST') ?? '127.0.0.1',
    port: number('PORT', 8082, { min: 0, max: 65_535 }),
    scratchDir: scratchDir ?? '',
    lakeDir: text('LAKE_DIR') ?? null,
    concurrency,
    engine: {
      memoryLimitBytes: bytes(
        'QUERY_MEMORY_LIMIT',
        Math.min(GIB, Math.floor((machine.memoryBytes * MEMORY_SHARE) / concurrency)),
      ),
      tempLimitBytes: bytes('QUERY_TEMP_LIMIT', 4 * GIB),
      threads: number('QUERY_THREADS', Math.max(1, machine.cores - 1), { min: 1, max: 1_024 }),
    },
    logFormat: text('LOG_FORMAT') === 'json' ? 'json' : 'text',
  }
  if (problems.length > 0) throw new SettingsError(`invalid configuration: ${problems.join('; ')}`)
  return settings
}
