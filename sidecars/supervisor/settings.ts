/** The settings of the supervisor, and the environment of each of its children. */
import { randomBytes } from 'node:crypto'
import { join, resolve } from 'node:path'
import { Refusal } from './refusal.ts'

type Env = Record<string, string | undefined>

export type Settings = {
  host: string
  port: number
  /** The address of the API for this machine, whatever address it listens on. */
  localUrl: string
  dataDir: string
  /** Without it, the supervisor starts the embedded Postgres. */
  databaseUrl?: string
  /** Addresses or `none`, set by the user. Without it, the supervisor starts that sidecar. */
  runnerUrls?: string
  queryUrls?: string
  /** The secret that API, runner and query service share. It is configured, or generated at this start. */
  sidecarToken: string
  /** Whether the token was generated at this start. Only sidecars that the supervisor starts know such a token. */
  isTokenMade: boolean
  /** Addresses at which sidecars may call the API: this one, and other replicas that the user lists. */
  apiUrls: string[]
  isDiskStore: boolean
  /** The runtime of the API process. Everything else runs on Bun. */
  apiRuntime: ApiRuntime
  logFormat: 'text' | 'json'
  /** The API answers requests for this time after a stop signal. The API checks the value. */
  stopDelayMs: number
}

const API_RUNTIMES = ['bun', 'node', 'deno'] as const
type ApiRuntime = (typeof API_RUNTIMES)[number]

/** 256 bits cannot be guessed. */
const SIDECAR_TOKEN_BYTES = 32

/** Reads only the settings that the supervisor needs. The API process checks the other settings (exit code 78). */
export function readSettings(env: Env, workingDirectory: string): Settings {
  const value = (name: string) => env[name]?.trim() || undefined
  const port = Number(value('PORT') ?? 8080)
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    throw new Refusal(`PORT must be a number from 1 to 65535, not '${env.PORT}'`)
  }
  const runtime = value('API_RUNTIME') ?? 'bun'
  const apiRuntime = API_RUNTIMES.find((known) => known === runtime)
  if (apiRuntime === undefined)
    throw new Refusal(`API_RUNTIME must be one of ${API_RUNTIMES.join(', ')}, not '${runtime}'`)
  const host = value('HOST') ?? '127.0.0.1'
  const localHost = host === '0.0.0.0' || host === '::' || host === 'localhost' ? '127.0.0.1' : host
  const localUrl = `http://${localHost.includes(':') ? `[${localHost}]` : localHost}:${port}`
  return {
    host,
    port,
    localUrl,
    dataDir: resolve(workingDirectory, value('DATA_DIR') ?? 'data'),
    databaseUrl: value('DATABASE_URL'),
    runnerUrls: value('RUNNER_URLS'),
    queryUrls: value('QUERY_URLS'),
    sidecarToken: value('SIDECAR_TOKEN') ?? randomBytes(SIDECAR_TOKEN_BYTES).toString('hex'),
    isTokenMade: value('SIDECAR_TOKEN') === undefined,
    apiUrls: [value('PUBLIC_URL') ?? localUrl, ...(value('API_URLS')?.split(',') ?? [])],
    isDiskStore: value('S3_ENDPOINT') === undefined && value('S3_BUCKET') === undefined,
    apiRuntime,
    logFormat: value('LOG_FORMAT') === 'json' ? 'json' : 'text',
    stopDelayMs: 1_000 * (Number(value('STOP_DELAY')) || 0),
  }
}

/** The addresses chosen at this start. */
interface Chosen {
  databaseUrl: string
  runnerUrls: string
  queryUrls: string
  /** Addresses of the sidecars that the supervisor starts. */
  ownSidecars: readonly string[]
}

/** The environment of the API process: every setting of the user, and the addresses chosen here. */
export const apiEnv = (env: Env, settings: Settings, chosen: Chosen) => ({
  ...env,
  HOST: settings.host,
  PORT: String(settings.port),
  LOCAL_URL: settings.localUrl,
  DATA_DIR: settings.dataDir,
  DATABASE_URL: chosen.databaseUrl,
  RUNNER_URLS: chosen.runnerUrls,
  QUERY_URLS: chosen.queryUrls,
  ...tokenEnv(settings, chosen),
})

/** A generated token is sent only to sidecars of this start, because others may be on other machines. */
function tokenEnv({ sidecarToken, isTokenMade }: Settings, { ownSidecars }: Chosen) {
  if (!isTokenMade) return { SIDECAR_TOKEN: sidecarToken }
  if (ownSidecars.length === 0) return {}
  return { SIDECAR_TOKEN: sidecarToken, SIDECAR_TOKEN_URLS: ownSidecars.join(',') }
}

/**
 * Variables that sidecars may receive. Sidecars execute code of users, so they get no database address and no key of the store
 * or the API.
 */
const SIDECAR_NAMES =
  /^(PATH|HOME|TZ|LANG|TMPDIR|LOG_FORMAT|SANDBOX|SIDECAR_HOSTS|RUN_TIMEOUT|RUN_OUTPUT_LIMIT|DISK_FLOOR|OBJECT_CACHE_LIMIT|SPARK_REMOTE|AUTO_SPILL_LIMIT|(RUNNER|QUERY|ENGINE|PYTHON|OTEL)_(?!URLS$)\w+)$/

export const sidecarEnv = (env: Env, settings: Settings, sidecar: { name: string; port: number }) => ({
  ...Object.fromEntries(Object.entries(env).filter(([name]) => SIDECAR_NAMES.test(name))),
  HOST: '127.0.0.1',
  PORT: String(sidecar.port),
  SIDECAR_TOKEN: settings.sidecarToken,
  API_URLS: settings.apiUrls.join(','),
  DATA_DIR: settings.dataDir,
  SCRATCH_DIR: join(settings.dataDir, 'scratch', sidecar.name),
  OBJECT_CACHE_DIR: env.OBJECT_CACHE_DIR ?? join(settings.dataDir, 'scratch', 'objects'),
  ...(settings.isDiskStore ? { LAKE_DIR: join(settings.dataDir, 'objects') } : {}),
})
