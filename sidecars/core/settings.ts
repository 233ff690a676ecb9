// Settings that the runner and the query service share, and the parser of their environments.
import { mkdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import type { TracingSettings } from '../../ground/telemetry/recorder.ts'
import { parseTracing } from '../../ground/telemetry/settings.ts'
import type { EngineSize } from '../../lake/engine/instance.ts'
import { isSidecarToken, SIDECAR_TOKEN_RULE } from '../../proto/sidecar-token.ts'

export interface Settings {
  host: string
  port: number
  /** The port of native gRPC. 0 means any free port, null means that gRPC is off. */
  grpcPort: number | null
  /** The secret that every call carries. */
  token: string
  /** Names by which clients reach this sidecar, besides `host` and loopback. */
  otherHosts: string[]
  /** Base addresses of the API's replicas. The sidecar calls no other address. */
  apiUrls: string[]
  /** A directory that only this process uses. Its contents are removed at start. */
  scratchDir: string
  /** Local copies of objects, for all sidecars of a machine that name the same directory. */
  objectCache: { directory: string; maxBytes: number }
  /** The directory of the API's disk store, if the sidecar shares that disk. Otherwise null. */
  lakeDir: string | null
  /** Attempts or queries that execute concurrently. Each has its own engine. */
  concurrency: number
  /** Limits of the engine of one attempt or query. */
  engine: EngineSize
  logFormat: 'text' | 'json'
  /** The export of spans; null: nothing is recorded. */
  tracing: TracingSettings | null
}

/** The exit code of sysexits.h for a wrong environment. A restart would not help. */
export const EX_CONFIG = 78

/** Lists everything that is wrong with the environment, in one line. */
export class SettingsError extends Error {}

export type Env = Record<string, string | undefined>

export interface Machine {
  cores: number
  memoryBytes: number
}

const PORTS = { min: 0, max: 65_535 }
/** The address on which an API without settings listens. */
const API_URL = 'http://127.0.0.1:8080'

export const MIB = 1_048_576
export const GIB = 1_024 * MIB
const OBJECT_CACHE_BYTES = 4 * GIB
export const CONCURRENCY_MAX = 64
export const THREADS_MAX = 1_024

/** Reads values of one environment. A bad value is recorded as a problem, and the reader returns the fallback. */
interface EnvReader {
  number(name: string, fallback: number, range: { min: number; max: number }): number
  /** A size such as 512MB or 2GB, in bytes. */
  bytes(name: string, fallback: number): number
  /** Reads one of these words. The first word is the fallback. */
  oneOf<Word extends string>(name: string, words: readonly [Word, ...Word[]]): Word
  /** Texts separated by commas; empty if the variable is not set. `rule` says what each text must be. */
  list(name: string, isValid: (text: string) => boolean, rule: string): string[]
  /** A parsed text; null if the variable is not set. `rule` says what the text must be; `parse` returns null for another. */
  parsed<Value>(name: string, parse: (text: string) => Value | null, rule: string): Value | null
}

/**
 * Reads the shared settings, and the rest through `own`. `port` is a default; `grpcPort` is the name of a variable. Throws one
 * SettingsError that lists every variable with an invalid value.
 */
export function readSettings(
  env: Env,
  { port, grpcPort }: { port: number; grpcPort: string },
  own: (read: EnvReader) => Pick<Settings, 'concurrency' | 'engine'>,
): Settings {
  const problems: string[] = []
  const text = (name: string) => env[name]?.trim() || undefined
  const list = (name: string, fallback: string) =>
    (text(name) ?? fallback)
      .split(',')
      .map((one) => one.trim())
      .filter((one) => one !== '')
  const read: EnvReader = {
    number(name, fallback, { min, max }) {
      const value = Number(text(name) ?? fallback)
      if (Number.isInteger(value) && value >= min && value <= max) return value
      problems.push(`${name} must be a whole number from ${min} to ${max}`)
      return fallback
    },
    bytes(name, fallback) {
      const value = text(name)
      if (value === undefined) return fallback
      const [, amount, unit] = /^(\d+(?:\.\d+)?)\s*(M|G)i?B$/i.exec(value) ?? []
      if (amount !== undefined && Number(amount) > 0)
        return Math.floor(Number(amount) * (unit?.toUpperCase() === 'G' ? GIB : MIB))
      problems.push(`${name} must be a size such as 512MB or 2GB`)
      return fallback
    },
    oneOf(name, words) {
      const value = text(name) ?? words[0]
      const match = words.find((word) => word === value)
      if (match === undefined) problems.push(`${name} must be one of ${words.join(', ')}`)
      return match ?? words[0]
    },
    list(name, isValid, rule) {
      const texts = list(name, '')
      if (!texts.every(isValid)) problems.push(`${name} must be ${rule}, separated by commas`)
      return texts
    },
    parsed(name, parse, rule) {
      const given = text(name)
      const value = given === undefined ? null : parse(given)
      if (given !== undefined && value === null) problems.push(`${name} must be ${rule}`)
      return value
    },
  }
  const ownSettings = own(read)
  const token = text('SIDECAR_TOKEN') ?? ''
  if (!isSidecarToken(token)) problems.push(`SIDECAR_TOKEN ${SIDECAR_TOKEN_RULE}`)
  const otherHosts = read.list(
    'SIDECAR_HOSTS',
    (name) => HOST_NAME.test(name),
    'names or addresses without ports',
  )
  const apiUrls = list('API_URLS', API_URL)
  if (apiUrls.length === 0 || !apiUrls.every(isHttpAddress))
    problems.push('API_URLS must be http or https addresses, separated by commas')
  const scratchDir = text('SCRATCH_DIR')
  if (scratchDir === undefined) problems.push('SCRATCH_DIR must name a directory')
  const settings: Settings = {
    host: text('HOST') ?? '127.0.0.1',
    port: read.number('PORT', port, PORTS),
    grpcPort: text(grpcPort)?.toLowerCase() === 'none' ? null : read.number(grpcPort, 0, PORTS),
    token,
    otherHosts,
    apiUrls,
    scratchDir: scratchDir ?? '',
    objectCache: {
      directory: text('OBJECT_CACHE_DIR') ?? join(scratchDir ?? '', 'objects'),
      maxBytes: read.bytes('OBJECT_CACHE_LIMIT', OBJECT_CACHE_BYTES),
    },
    lakeDir: text('LAKE_DIR') ?? null,
    ...ownSettings,
    logFormat: text('LOG_FORMAT') === 'json' ? 'json' : 'text',
    tracing: parseTracing(env, (name, rule) => problems.push(`${name} ${rule}`)),
  }
  if (problems.length > 0) throw new SettingsError(`invalid configuration: ${problems.join('; ')}`)
  return settings
}

/** A DNS name, an IPv4 address, or an IPv6 address with or without brackets. */
const HOST_NAME = /^([\w.-]+|\[?[\da-f]*:[\da-f:.]+\]?)$/i

function isHttpAddress(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, search, hash } = new URL(text)
  return /^https?:$/.test(protocol) && search === '' && hash === ''
}

/**
 * Returns the same settings with absolute paths of both directories, free of symbolic links. Engines work in directories of
 * their own and check a file by the target of its links. Creates missing directories. Throws SettingsError.
 */
export async function withRealDirectories<OwnSettings extends Settings>(
  settings: OwnSettings,
): Promise<OwnSettings> {
  const { scratchDir, lakeDir } = settings
  return {
    ...settings,
    scratchDir: await realDirectory('SCRATCH_DIR', scratchDir),
    lakeDir: lakeDir === null ? null : await realDirectory('LAKE_DIR', lakeDir),
  }
}

async function realDirectory(name: string, path: string): Promise<string> {
  try {
    await mkdir(path, { recursive: true })
    return await realpath(path)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new SettingsError(`${name}: the directory ${path} cannot be used (${reason})`)
  }
}
