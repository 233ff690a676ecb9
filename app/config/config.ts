// Parses the environment, once. No other file reads it; values are passed on from here.
import type { BlockList } from 'node:net'
import type { TracingSettings } from '../../ground/telemetry/recorder.ts'
import { type MetricsSettings, parseMetricsExport, parseTracing } from '../../ground/telemetry/settings.ts'
import { isSidecarToken, SIDECAR_TOKEN_RULE } from '../../proto/sidecar-token.ts'
import { limits } from '../core/limits.ts'
import { shareOf } from '../core/shares.ts'
import { hostName } from '../wire/own-host.ts'
import type { RateLimit } from '../wire/rate-limit.ts'
import {
  type ApiKey,
  KEY_LENGTH_MIN,
  type OidcSettings,
  PLUGIN_VARIABLES,
  parseApiKeys,
  parseLicense,
  parseOidc,
  parsePlugins,
  RPC_PROTOCOL,
} from './access-settings.ts'
import type { License } from './license.ts'
import type { PluginSettings } from './plugin-settings.ts'
import { isLoopback } from './safe-address.ts'
import { type Env, Variables } from './variables.ts'

/** Default requests per second of one client. The default burst is twice as large. */
const REQUESTS_PER_SECOND = 50
/** Default limit of wrong credentials from one address: the burst, and the refill per minute. */
const AUTH_FAILURES = 60
/** Time limit of one statement of a request: default and maximum. */
const DATABASE_TIMEOUT_SECONDS = 10
const DATABASE_TIMEOUT_SECONDS_MAX = 3_600
/** A balancer notices a failed probe sooner, and process managers wait no longer. */
const STOP_DELAY_SECONDS_MAX = 60

export type StoreSettings =
  /** `floorBytes`: DISK_FLOOR; null: the default; 0: no floor. */
  | { kind: 'disk'; root: string; floorBytes?: number | null }
  | {
      kind: 's3'
      /** Null: the endpoint of AWS in this region. */
      endpoint: string | null
      bucket: string
      region: string
      /** Null: the default credential chain of AWS. */
      credentials: { accessKeyId: string; secretAccessKey: string; sessionToken?: string } | null
    }

export interface Config {
  host: string
  port: number
  /** Address of the API for runners and query services: PUBLIC_URL, or the local address. */
  publicUrl: string
  /** Maximum size of one engine answer in bytes of JSON: a query, a table preview, a pipeline preview. */
  answerBytesMax: number
  /** Start of every address that clients are shown; null: the address that the client itself used. */
  shownUrl: string | null
  databaseUrl: string
  /** Time limit of one Postgres statement of a request. */
  databaseTimeoutMs: number
  /** Time between a stop signal and the end of service. `/health/ready` is 503 meanwhile, so that a balancer turns away. */
  stopDelayMs: number
  dataDir: string
  store: StoreSettings
  /** The start of every location in the lake's metadata. It ends in a slash. */
  lakeRoot: string
  /** Null: the part is off (`none`). */
  runnerUrls: string[] | null
  /** Null: no collector of OpenTelemetry is named, and nothing is recorded. */
  tracing: TracingSettings | null
  /** Null: metrics are only at /metrics. */
  metricsExport: MetricsSettings | null
  /** Runs of one namespace that execute at once; null: no limit. */
  namespaceLimit: number | null
  queryUrls: string[] | null
  /** The secret that identifies this API to runners and query services; null: calls carry no token. */
  sidecarToken: string | null
  /** Only these addresses receive the token; the supervisor sets them for its own token. Null: every sidecar receives it. */
  sidecarTokenUrls: string[] | null
  /** Keys that clients may use; empty: no key is valid. */
  apiKeys: ApiKey[]
  /** The issuer of access tokens that clients may use; null: no token is valid. */
  oidc: OidcSettings | null
  /** Remote implementations that replace the built-in ones. */
  plugins: PluginSettings
  edition: 'community' | 'pro'
  /** Pro edition only. */
  license: License | null
  /** Every client that reaches HOST has all rights without a credential; the operator has allowed that. */
  isOpenToNetwork: boolean
  /** `PLATFORM_API_KEY` can be guessed; allowed on loopback only. */
  isWeakKey: boolean
  /** Null: requests are not limited. */
  rateLimit: RateLimit | null
  /** Wrong credentials that one address may send per minute; null: no limit. */
  authFailures: number | null
  metadataStore: boolean
  /** Engines of users may commit to main through Iceberg REST. */
  icebergMainWrites: boolean
  audit: boolean
  reaper: boolean
  /** The reaper closes branches without a change for so long; null: never. */
  branchMaxIdleDays: number | null
  /** Null: tables are not maintained. */
  maintenance: MaintenanceSettings | null
  /** Proxies whose X-Forwarded-For is trusted. */
  trustedProxies: BlockList
  /** Origins of other sites whose pages may use the API; `*` allows every origin. */
  corsOrigins: string[]
  /** Host names that an open service accepts; null: every name, because a credential protects the service. */
  allowedHosts: string[] | null
  /** Open event streams of run logs: in total, and per client address. */
  streamsPerProcess: number
  streamsPerClient: number
  logFormat: 'text' | 'json'
  version: string
  gitCommit: string
  buildTime: string
}

/** Settings of the maintenance of tables, in bytes. */
interface MaintenanceSettings {
  /** The largest number of bytes that the maintenance of one table, or of all tables in one tick, rewrites. */
  tableBytes: number
  tickBytes: number
}

/** All problems of the environment, one line each. */
export class ConfigError extends Error {
  constructor(readonly problems: string[]) {
    super(`invalid configuration: ${problems.join('; ')}`)
  }
}

const MAINTENANCE_TABLE_BYTES = 1_073_741_824
const MAINTENANCE_TICK_BYTES = 4_294_967_296
const LOOPBACK = '127.0.0.0/8,::1'

/** Reads the environment, or throws one ConfigError that lists every invalid variable. */
export function parseConfig(env: Env, dataDirBase: string): Config {
  const vars = new Variables(env)
  const addresses = parseAddresses(vars)
  const access = parseAccess(vars, addresses)
  const config: Config = {
    ...addresses,
    ...parseDatabase(vars),
    stopDelayMs: parseStopDelay(vars),
    ...parseStore(vars, dataDirBase),
    ...parseSidecars(vars),
    ...access,
    ...parseLimits(vars, access.edition === 'community' && isLoopback(addresses.host)),
    metadataStore: vars.isOn('METADATA'),
    icebergMainWrites: vars.either('ICEBERG_MAIN_WRITES', 'off', 'on') === 'on',
    audit: vars.isOn('AUDIT'),
    reaper: vars.isOn('REAPER'),
    branchMaxIdleDays: vars.limit('BRANCH_MAX_IDLE_DAYS', 'off'),
    maintenance: parseMaintenance(vars),
    tracing: parseTracing(env, (name, rule) => vars.bad(name, rule)),
    metricsExport: parseMetricsExport(env, (name, rule) => vars.bad(name, rule)),
    logFormat: vars.either('LOG_FORMAT', 'text', 'json'),
    version: vars.text('SLUICE_VERSION', '0.1.0'),
    gitCommit: vars.text('GIT_COMMIT', 'unknown'),
    buildTime: vars.text('BUILD_TIME', 'unknown'),
  }
  if (vars.problems.length > 0) throw new ConfigError(vars.problems)
  return config
}

/** The address to listen on, and the address for other parts. */
function parseAddresses(vars: Variables) {
  const port = Number(vars.text('PORT', '8080'))
  if (!Number.isInteger(port) || port < 1 || port > 65_535)
    vars.bad('PORT', 'must be a port number from 1 to 65535')
  const host = vars.text('HOST', '127.0.0.1')
  const givenUrl = vars.text('PUBLIC_URL')
  const localUrl = vars.text('LOCAL_URL', `http://${host.includes(':') ? `[${host}]` : host}:${port}`)
  const publicUrl = parseUrl(vars, { name: 'PUBLIC_URL', value: givenUrl || localUrl }, /^https?:$/, 'http')
  return { host, port, publicUrl, shownUrl: givenUrl === '' ? null : publicUrl }
}

function parseUrl(
  vars: Variables,
  { name, value }: { name: string; value: string },
  protocol: RegExp,
  kind: string,
): string {
  if (!URL.canParse(value) || !protocol.test(new URL(value).protocol))
    vars.bad(name, `'${value}' is not an ${kind} address`)
  return value.replace(/\/+$/, '')
}

function parseDatabase(vars: Variables) {
  const databaseUrl = vars.text('DATABASE_URL')
  if (!/^postgres(ql)?:\/\//.test(databaseUrl)) vars.bad('DATABASE_URL', 'must be a postgres:// address')
  // A `statement_timeout` in the address would apply to all connections. It would contradict the timeouts of the service.
  if (/statement_timeout/i.test(queryOf(databaseUrl)))
    vars.bad('DATABASE_URL', 'must not set statement_timeout: use DATABASE_TIMEOUT, in seconds')
  const seconds = vars.count('DATABASE_TIMEOUT', DATABASE_TIMEOUT_SECONDS, DATABASE_TIMEOUT_SECONDS_MAX)
  return { databaseUrl, databaseTimeoutMs: 1_000 * seconds }
}

/** Without a balancer, nobody needs the delay. */
const parseStopDelay = (vars: Variables) =>
  vars.text('STOP_DELAY', 'off') === 'off' ? 0 : 1_000 * vars.count('STOP_DELAY', 1, STOP_DELAY_SECONDS_MAX)

/** Names and values of the query as plain text. An address with several hosts is not a valid URL. */
const queryOf = (address: string) =>
  [...new URLSearchParams(address.split('?').slice(1).join('?'))].flat().join(' ')

function parseStore(vars: Variables, dataDirBase: string): Pick<Config, 'dataDir' | 'store' | 'lakeRoot'> {
  const dataDir = vars.text('DATA_DIR', `${dataDirBase}/data`)
  const floor = vars.text('DISK_FLOOR')
  const floorBytes = floor === '' ? null : floor === 'off' ? 0 : vars.bytes('DISK_FLOOR', 0)
  const endpoint = vars.text('S3_ENDPOINT')
  const bucket = vars.text('S3_BUCKET')
  if (endpoint === '' && bucket === '')
    return {
      dataDir,
      store: { kind: 'disk', root: `${dataDir}/objects`, floorBytes },
      lakeRoot: lakeRootOf(DISK_BUCKET),
    }
  if (bucket === '') vars.bad('S3_BUCKET', 'is required with S3_ENDPOINT')
  return {
    dataDir,
    lakeRoot: lakeRootOf(bucket),
    store: {
      kind: 's3',
      endpoint: endpoint === '' ? null : endpoint,
      bucket,
      region: vars.text('S3_REGION', vars.text('AWS_REGION', 'us-east-1')),
      credentials: parseS3Credentials(vars),
    },
  }
}

/** The bucket in locations of a disk store. */
const DISK_BUCKET = 'sluice'

const lakeRootOf = (bucket: string) => `s3://${bucket}/`

function parseS3Credentials(vars: Variables) {
  const accessKeyId = vars.text('S3_ACCESS_KEY_ID')
  const secretAccessKey = vars.text('S3_SECRET_ACCESS_KEY')
  const sessionToken = vars.text('S3_SESSION_TOKEN')
  if (accessKeyId === '' && secretAccessKey === '') {
    if (sessionToken !== '') vars.bad('S3_SESSION_TOKEN', 'needs S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY')
    return null
  }
  if (accessKeyId === '') vars.bad('S3_ACCESS_KEY_ID', 'is required with S3_SECRET_ACCESS_KEY')
  if (secretAccessKey === '') vars.bad('S3_SECRET_ACCESS_KEY', 'is required with S3_ACCESS_KEY_ID')
  return { accessKeyId, secretAccessKey, ...(sessionToken === '' ? {} : { sessionToken }) }
}

function parseSidecars(vars: Variables) {
  const addresses = (name: string) => {
    const value = vars.text(name, 'none')
    return value === 'none'
      ? null
      : value
          .split(',')
          .map((url) => parseUrl(vars, { name, value: url.trim() }, RPC_PROTOCOL, 'http or grpc'))
  }
  const sidecarToken = vars.text('SIDECAR_TOKEN')
  if (sidecarToken !== '' && !isSidecarToken(sidecarToken)) vars.bad('SIDECAR_TOKEN', SIDECAR_TOKEN_RULE)
  return {
    runnerUrls: addresses('RUNNER_URLS'),
    namespaceLimit: vars.limit('NAMESPACE_CONCURRENCY', 'off'),
    queryUrls: addresses('QUERY_URLS'),
    sidecarToken: sidecarToken === '' ? null : sidecarToken,
    sidecarTokenUrls: addresses('SIDECAR_TOKEN_URLS'),
  }
}

/** `isAtHome`: an installation for one person, where the rate limit is off by default. */
function parseMaintenance(vars: Variables): MaintenanceSettings | null {
  const isOn = vars.isOn('MAINTENANCE')
  const settings = {
    tableBytes: vars.bytes('MAINTENANCE_TABLE_LIMIT', MAINTENANCE_TABLE_BYTES),
    tickBytes: vars.bytes('MAINTENANCE_TICK_LIMIT', MAINTENANCE_TICK_BYTES),
  }
  return isOn ? settings : null
}

function parseLimits(vars: Variables, isAtHome: boolean) {
  const perSecond = vars.limit('RATE_LIMIT', isAtHome ? 'off' : REQUESTS_PER_SECOND)
  const streamsPerProcess = vars.count('SSE_STREAMS', 10_000)
  return {
    answerBytesMax: vars.bytes('QUERY_ANSWER_LIMIT', limits.answerBytes),
    rateLimit:
      perSecond === null
        ? null
        : { perSecond, burst: vars.count('RATE_BURST', perSecond * 2 > 0 ? perSecond * 2 : 1) },
    authFailures: vars.limit('AUTH_FAILURES', AUTH_FAILURES),
    trustedProxies: vars.networks('TRUSTED_PROXIES', LOOPBACK),
    streamsPerProcess,
    streamsPerClient: vars.count('SSE_STREAMS_PER_CLIENT', shareOf(streamsPerProcess)),
  }
}

/** Accepted credentials, origins and host names, and the edition. */
function parseAccess(vars: Variables, { host, publicUrl }: { host: string; publicUrl: string }) {
  const apiKeys = parseApiKeys(vars)
  const edition = vars.text('EDITION', 'community')
  if (edition !== 'community' && edition !== 'pro')
    vars.bad('EDITION', `'${edition}' is not an edition: use community or pro`)
  const isPro = edition === 'pro'
  const oidc = parseOidc(vars)
  if (oidc !== null && !isPro)
    vars.bad('OIDC_ISSUER', 'access tokens require the Pro edition: set EDITION=pro')
  const plugins = parsePlugins(vars)
  const [pluginVariable] = Object.values(PLUGIN_VARIABLES).filter((name) => vars.text(name) !== '')
  if (pluginVariable !== undefined && !isPro)
    vars.bad(pluginVariable, 'plugins require the Pro edition: set EDITION=pro')
  if (plugins.auth !== null && oidc !== null)
    vars.bad('AUTH_PLUGIN_URL', 'conflicts with OIDC_ISSUER, because both verify access tokens: set only one')
  const isOpen = apiKeys.length === 0 && oidc === null && (plugins.auth === null || !isPro)
  if (isPro && isOpen)
    vars.bad('EDITION', 'pro requires credentials: set OIDC_ISSUER, AUTH_PLUGIN_URL or PLATFORM_API_KEY')
  const isWeakKey = apiKeys.some(({ key }) => key.length < KEY_LENGTH_MIN)
  if (isWeakKey && !isLoopback(host))
    vars.bad(
      'PLATFORM_API_KEY',
      `has fewer than ${KEY_LENGTH_MIN} characters, and HOST ${host} is not loopback: set a longer key`,
    )
  const isOpenToNetwork = !isLoopback(host) && isOpen
  if (isOpenToNetwork && vars.text('ALLOW_OPEN') !== 'true')
    vars.bad('HOST', `${host} is not loopback and no PLATFORM_API_KEY is set: set a key, or ALLOW_OPEN=true`)
  return {
    apiKeys,
    oidc,
    plugins,
    license: isPro ? parseLicense(vars) : null,
    edition: isPro ? ('pro' as const) : ('community' as const),
    isWeakKey,
    isOpenToNetwork,
    corsOrigins: parseOrigins(vars),
    allowedHosts: isOpen ? parseAllowedHosts(vars, { host, publicUrl }) : null,
  }
}

/** A scheme and a host, as browsers send them in `Origin`: no path, no user. */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#@*]+$/

function parseOrigins(vars: Variables): string[] {
  const origins = vars.list('CORS_ORIGINS').map((origin) => origin.replace(/\/+$/, '').toLowerCase())
  for (const origin of origins)
    if (origin !== '*' && !ORIGIN.test(origin))
      vars.bad('CORS_ORIGINS', `'${origin}' is neither * nor an origin such as https://app.example.com`)
  return origins
}

/** Loopback names, the service's own addresses, and ALLOWED_HOSTS; null when ALLOWED_HOSTS contains `*`. */
function parseAllowedHosts(
  vars: Variables,
  { host, publicUrl }: { host: string; publicUrl: string },
): string[] | null {
  const extra = vars.list('ALLOWED_HOSTS')
  if (extra.includes('*')) return null
  const publicHost = URL.canParse(publicUrl) ? new URL(publicUrl).host : ''
  const ownHost = host.includes(':') ? `[${host}]` : host
  const names = ['localhost', '127.0.0.1', '[::1]', ownHost, publicHost].flatMap((own) => hostName(own) ?? [])
  for (const text of extra) {
    const name = hostName(text)
    if (name === null)
      vars.bad('ALLOWED_HOSTS', `'${text}' is neither * nor a host name such as sluice.example.com`)
    else names.push(name)
  }
  return [...new Set(names)]
}
