// What the environments of the runner and of the query service have in common, and how their values are read.
import { mkdir, realpath } from 'node:fs/promises'
import type { EngineSize } from '../../lake/engine/instance.ts'
import { isSidecarToken, SIDECAR_TOKEN_RULE } from '../../proto/sidecar-token.ts'

export interface Settings {
  host: string
  port: number
  /** The port of native gRPC; 0: any free one, null: not served. */
  grpcPort: number | null
  /** The secret that every call carries. */
  token: string
  /** Names by which clients reach this sidecar, besides `host` and loopback. */
  otherHosts: string[]
  /** Base addresses of the API's replicas: the only ones that are called. */
  apiUrls: string[]
  /** A directory of this process alone: what it holds is removed at start. */
  scratchDir: string
  /** The directory of the API's disk store, where the disk is shared with it. */
  lakeDir: string | null
  /** Attempts or queries that execute at once; each has an engine of its own. */
  concurrency: number
  /** Of one attempt or query. */
  engine: EngineSize
  logFormat: 'text' | 'json'
}

/** sysexits.h: the environment is wrong, and starting again would not mend it. */
export const EX_CONFIG = 78

/** Everything that is wrong with the environment, in one line. */
export class SettingsError extends Error {}

export type Env = Record<string, string | undefined>

export interface Machine {
  cores: number
  memoryBytes: number
}

const PORTS = { min: 0, max: 65_535 }
/** Where an API without settings of its own listens. */
const API_URL = 'http://127.0.0.1:8080'

export const MIB = 1_048_576
export const GIB = 1_024 * MIB
export const CONCURRENCY_MAX = 64
export const THREADS_MAX = 1_024

/** What reads one environment. A bad value is noted, and its fallback goes on in its place. */
export interface EnvReader {
  number(name: string, fallback: number, range: { min: number; max: number }): number
  /** A size such as 512MB or 2GB, in bytes. */
  bytes(name: string, fallback: number): number
  /** One of these words; the first is the fallback. */
  oneOf<Word extends string>(name: string, words: readonly [Word, ...Word[]]): Word
}

/** Reads the common part and, by `own`, the rest. `port` is a default, `grpcPort` the name of a variable. Throws one SettingsError that lists every bad name. */
export function readSettings(
  env: Env,
  { port, grpcPort }: { port: number; grpcPort: string },
  own: (read: EnvReader) => Pick<Settings, 'concurrency' | 'engine'>,
): Settings {
  const problems: string[] = []
  const text = (name: string) => env[name]?.trim() || undefined
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
      const known = words.find((word) => word === value)
      if (known === undefined) problems.push(`${name} must be ${words.join(', ')}`)
      return known ?? words[0]
    },
  }
  const list = (name: string, fallback: string) =>
    (text(name) ?? fallback)
      .split(',')
      .map((one) => one.trim())
      .filter((one) => one !== '')
  const ofItsOwn = own(read)
  const token = text('SIDECAR_TOKEN') ?? ''
  if (!isSidecarToken(token)) problems.push(`SIDECAR_TOKEN ${SIDECAR_TOKEN_RULE}`)
  const otherHosts = list('SIDECAR_HOSTS', '')
  if (!otherHosts.every((name) => HOST_NAME.test(name)))
    problems.push('SIDECAR_HOSTS must be names or addresses without ports, separated by commas')
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
    lakeDir: text('LAKE_DIR') ?? null,
    ...ofItsOwn,
    logFormat: text('LOG_FORMAT') === 'json' ? 'json' : 'text',
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
 * The same settings with the absolute names of both directories, free of symbolic links: engines work in directories of
 * their own, and judge a file by where its links lead. Makes what is not there. Throws SettingsError.
 */
export async function withRealDirectories<Given extends Settings>(settings: Given): Promise<Given> {
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
