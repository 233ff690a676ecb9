// The environment is parsed here, once, and nowhere else; values are passed in from there.
import { readFileSync } from 'node:fs'
import { BlockList } from 'node:net'
import { isSidecarToken, SIDECAR_TOKEN_RULE } from '../../proto/sidecar-token.ts'
import { networksOf } from './client-address.ts'
import { LICENSE_PUBLIC_KEY, type License, readLicense } from './license.ts'
import { limits } from './limits.ts'
import { hostName } from './own-host.ts'
import type { PluginSettings } from './plugin-settings.ts'
import type { RateLimit } from './rate-limit.ts'
import { isLoopback, isSafeAddress } from './safe-address.ts'

/** Addresses of sidecars begin with Connect (`http`, `https`), or native gRPC without and with TLS. */
const RPC_PROTOCOL = /^(https?|grpcs?):$/

/** Requests per second of one client, unless configured; twice as many at once. */
const REQUESTS_PER_SECOND = 50
/** Wrong credentials of one address: at once, and as many again in a minute. */
const AUTH_FAILURES = 60
/** Time of one statement of a request, by default and at most. */
const DATABASE_TIMEOUT_SECONDS = 10
const DATABASE_TIMEOUT_SECONDS_MAX = 3_600

export interface ApiKey {
  /** Shown in logs and to people; several keys let one be replaced while the others still open. */
  name: string
  key: string
}

/** Characters below which a key can be guessed. */
export const KEY_LENGTH_MIN = 16

export interface OidcSettings {
  issuer: string
  audience: string
  clockSkewSeconds: number
  /** Name of the claim, or its path with dots: `realm_access.roles`. */
  rolesClaim: string
  /** Subjects that are administrators whatever their roles. */
  admins: readonly string[]
}

export type StoreSettings =
  /** `floorBytes`: DISK_FLOOR; null: the default, 0: none. */
  | { kind: 'disk'; root: string; floorBytes?: number | null }
  | {
      kind: 's3'
      endpoint: string
      bucket: string
      region: string
      accessKeyId: string
      secretAccessKey: string
    }

export interface Config {
  host: string
  port: number
  /** Where runners and query services reach the API: PUBLIC_URL, or else this machine's own address of it. */
  publicUrl: string
  /** Bytes of the JSON of one engine answer: a query, a table preview, a pipeline preview. */
  answerBytesMax: number
  /** What addresses shown to clients begin with; null: the address that the client itself has used. */
  shownUrl: string | null
  databaseUrl: string
  /** What a request may ask of Postgres in one statement. */
  databaseTimeoutMs: number
  dataDir: string
  store: StoreSettings
  /** Null: the part is switched off (`none`). */
  runnerUrls: string[] | null
  queryUrls: string[] | null
  /** The secret that runners and query services know this API by; null: calls carry none. */
  sidecarToken: string | null
  /** The only addresses that get the token, set by the supervisor for a token of its own; null: every sidecar gets it. */
  sidecarTokenUrls: string[] | null
  /** Keys that open the API; empty: none does. */
  apiKeys: ApiKey[]
  /** Whose access tokens open it. */
  oidc: OidcSettings | null
  /** What answers in place of what is built in. */
  plugins: PluginSettings
  edition: 'community' | 'pro'
  /** Pro edition only. */
  license: License | null
  /** Anybody who reaches this address may do everything: the operator has allowed it. */
  isOpenToNetwork: boolean
  /** `PLATFORM_API_KEY` can be guessed; allowed on loopback only. */
  isWeakKey: boolean
  /** Null: requests are not counted. */
  rateLimit: RateLimit | null
  /** Wrong credentials of one address in a minute; null: they are not counted. */
  authFailures: number | null
  metadataStore: boolean
  audit: boolean
  reaper: boolean
  /** Whose X-Forwarded-For is believed. */
  trustedProxies: BlockList
  /** Origins of other sites whose pages may use the API; `*` stands for all of them. */
  corsOrigins: string[]
  /** Host names under which an open service answers; null: every name, because a credential protects the service. */
  allowedHosts: string[] | null
  /** Event streams of run logs that may be open, in all and of one client address. */
  streamsPerProcess: number
  streamsPerClient: number
  logFormat: 'text' | 'json'
  version: string
  gitCommit: string
  buildTime: string
}

/** Everything that is wrong with the environment, one line each. */
export class ConfigError extends Error {
  constructor(readonly problems: string[]) {
    super(`invalid configuration: ${problems.join('; ')}`)
  }
}

const MIB = 1_048_576
const LOOPBACK = '127.0.0.0/8,::1'

type Env = Record<string, string | undefined>

/** Reads the environment, or throws one ConfigError that lists every bad name. */
export function parseConfig(env: Env, dataDirBase: string): Config {
  const problems: string[] = []
  const text = (name: string, fallback: string) => env[name]?.trim() || fallback
  const bad = (name: string, why: string) => problems.push(`${name}: ${why}`)

  const port = Number(text('PORT', '8080'))
  if (!Number.isInteger(port) || port < 1 || port > 65_535) bad('PORT', 'must be a port number')
  const host = text('HOST', '127.0.0.1')
  const access = parseAccess(env, bad)
  const isWeakKey = access.apiKeys.some(({ key }) => key.length < KEY_LENGTH_MIN)
  if (isWeakKey && !isLoopback(host))
    bad(
      'PLATFORM_API_KEY',
      `has fewer than ${KEY_LENGTH_MIN} characters, and HOST ${host} is not loopback: set a longer key`,
    )
  const isOpenToNetwork = !isLoopback(host) && access.isOpen
  if (isOpenToNetwork && env.ALLOW_OPEN !== 'true')
    bad('HOST', `${host} is not loopback and no PLATFORM_API_KEY is set; set one, or ALLOW_OPEN=true`)

  const databaseUrl = text('DATABASE_URL', '')
  if (!/^postgres(ql)?:\/\//.test(databaseUrl)) bad('DATABASE_URL', 'must be a postgres:// address')
  // It would be that of all connections, and who waits for their answers would not know it.
  if (/statement_timeout/i.test(queryOf(databaseUrl)))
    bad('DATABASE_URL', 'must not set statement_timeout: DATABASE_TIMEOUT does, in seconds')
  const dataDir = text('DATA_DIR', `${dataDirBase}/data`)
  const address = (name: string, value: string, protocol = /^https?:$/, kind = 'http') => {
    if (!URL.canParse(value) || !protocol.test(new URL(value).protocol))
      bad(name, `'${value}' is no ${kind} address`)
    return value.replace(/\/+$/, '')
  }
  const addresses = (name: string) => {
    const value = text(name, 'none')
    return value === 'none'
      ? null
      : value.split(',').map((url) => address(name, url.trim(), RPC_PROTOCOL, 'http or grpc'))
  }
  const sidecarToken = text('SIDECAR_TOKEN', '')
  if (sidecarToken !== '' && !isSidecarToken(sidecarToken)) bad('SIDECAR_TOKEN', SIDECAR_TOKEN_RULE)
  const givenUrl = text('PUBLIC_URL', '')
  const localUrl = text('LOCAL_URL', `http://${host.includes(':') ? `[${host}]` : host}:${port}`)
  const publicUrl = address('PUBLIC_URL', givenUrl || localUrl)
  /** A part that `off` switches off. */
  const isOn = (name: string) => {
    const value = text(name, 'on')
    if (value !== 'on' && value !== 'off') bad(name, 'must be on or off')
    return value === 'on'
  }
  const networks = (name: string, fallback: string) => {
    const value = text(name, fallback)
    const found = networksOf(value === 'none' ? [] : value.split(',').map((network) => network.trim()))
    if (found === null) bad(name, `'${value}' is no list of addresses and networks such as 10.0.0.0/8`)
    return found ?? new BlockList()
  }
  const count = (name: string, fallback: number, most = 9_999_999) => {
    const value = text(name, String(fallback))
    if (!/^[1-9]\d{0,6}$/.test(value) || Number(value) > most)
      bad(name, `'${value}' is no number from 1 to ${most}`)
    return Number(value)
  }
  /** A size such as 512MB or 2GB, in bytes. */
  const bytes = (name: string, fallback: number) => {
    const value = text(name, `${fallback / MIB}MB`)
    const [, amount, unit] = /^(\d+(?:\.\d+)?)\s*(M|G)i?B$/i.exec(value) ?? []
    if (!(Number(amount) > 0)) bad(name, `'${value}' is no size such as 512MB or 2GB`)
    return Math.floor(Number(amount) * (unit?.toUpperCase() === 'G' ? 1_024 * MIB : MIB))
  }
  const floor = text('DISK_FLOOR', '')
  const floorBytes = floor === '' ? null : floor === 'off' ? 0 : bytes('DISK_FLOOR', 0)
  /** Where `off` means that there is no limit. */
  const limit = (name: string, fallback: number | null) =>
    text(name, fallback === null ? 'off' : String(fallback)) === 'off' ? null : count(name, fallback ?? 0)
  const isAtHome = access.edition === 'community' && isLoopback(host)
  const perSecond = limit('RATE_LIMIT', isAtHome ? null : REQUESTS_PER_SECOND)
  const logFormat = text('LOG_FORMAT', 'text')
  if (logFormat !== 'text' && logFormat !== 'json') bad('LOG_FORMAT', 'must be text or json')

  const config: Config = {
    host,
    port,
    publicUrl,
    answerBytesMax: bytes('QUERY_ANSWER_LIMIT', limits.answerBytes),
    shownUrl: givenUrl === '' ? null : publicUrl,
    databaseUrl,
    databaseTimeoutMs:
      1_000 * count('DATABASE_TIMEOUT', DATABASE_TIMEOUT_SECONDS, DATABASE_TIMEOUT_SECONDS_MAX),
    dataDir,
    store: parseStore(env, dataDir, bad, floorBytes),
    runnerUrls: addresses('RUNNER_URLS'),
    queryUrls: addresses('QUERY_URLS'),
    sidecarToken: sidecarToken === '' ? null : sidecarToken,
    sidecarTokenUrls: addresses('SIDECAR_TOKEN_URLS'),
    apiKeys: access.apiKeys,
    oidc: access.oidc,
    plugins: access.plugins,
    edition: access.edition,
    license: access.license,
    isOpenToNetwork,
    isWeakKey,
    rateLimit:
      perSecond === null
        ? null
        : { perSecond, burst: count('RATE_BURST', perSecond * 2 > 0 ? perSecond * 2 : 1) },
    authFailures: limit('AUTH_FAILURES', AUTH_FAILURES),
    metadataStore: isOn('METADATA'),
    audit: isOn('AUDIT'),
    reaper: isOn('REAPER'),
    trustedProxies: networks('TRUSTED_PROXIES', LOOPBACK),
    corsOrigins: parseOrigins(env, bad),
    allowedHosts: access.isOpen ? parseAllowedHosts(env, [host, publicUrl], bad) : null,
    streamsPerProcess: count('SSE_STREAMS', 10_000),
    streamsPerClient: count('SSE_STREAMS_PER_CLIENT', 1_000),
    logFormat: logFormat === 'json' ? 'json' : 'text',
    version: text('SLUICE_VERSION', '0.1.0'),
    gitCommit: text('GIT_COMMIT', 'unknown'),
    buildTime: text('BUILD_TIME', 'unknown'),
  }
  if (problems.length > 0) throw new ConfigError(problems)
  return config
}

/** Its names and values in plain text. An address of several hosts is no URL. */
const queryOf = (address: string) =>
  [...new URLSearchParams(address.split('?').slice(1).join('?'))].flat().join(' ')

type Bad = (name: string, why: string) => void

/** Who may come in, and the edition that knows users. */
function parseAccess(env: Env, bad: Bad) {
  const apiKeys = parseApiKeys(env, bad)
  const edition = env.EDITION?.trim() || 'community'
  if (edition !== 'community' && edition !== 'pro')
    bad('EDITION', `'${edition}' is no edition: use community or pro`)
  const isPro = edition === 'pro'
  const oidc = parseOidc(env, bad)
  if (oidc !== null && !isPro) bad('OIDC_ISSUER', 'users are a part of the Pro edition: set EDITION=pro')
  const plugins = parsePlugins(env, bad)
  const [pluginVariable] = Object.values(PLUGIN_VARIABLES).filter((name) => env[name]?.trim())
  if (pluginVariable !== undefined && !isPro)
    bad(pluginVariable, 'plugins are a part of the Pro edition: set EDITION=pro')
  if (plugins.auth !== null && oidc !== null)
    bad('AUTH_PLUGIN_URL', 'who brings a token is said by the plugin or by OIDC_ISSUER: set one of them')
  const isOpen = apiKeys.length === 0 && oidc === null && (plugins.auth === null || !isPro)
  if (isPro && isOpen)
    bad('EDITION', 'pro needs somebody to let in: set OIDC_ISSUER, AUTH_PLUGIN_URL or PLATFORM_API_KEY')
  const license = isPro ? parseLicense(env, bad) : null
  return {
    apiKeys,
    oidc,
    plugins,
    license,
    isOpen,
    edition: isPro ? ('pro' as const) : ('community' as const),
  }
}

/** Names are shown. */
const KEY_NAME = /^[\w.-]{1,64}$/

function parseApiKeys(env: Env, bad: Bad): ApiKey[] {
  const single = env.PLATFORM_API_KEY?.trim()
  const keys: ApiKey[] = single ? [{ name: 'default', key: single }] : []
  // What is wrong is told without the key.
  for (const [at, entry] of (env.PLATFORM_API_KEYS?.trim() || '').split(',').entries()) {
    if (entry.trim() === '') continue
    const [name = '', ...rest] = entry.trim().split(':')
    const key = rest.join(':').trim()
    if (rest.length === 0 || !KEY_NAME.test(name)) bad('PLATFORM_API_KEYS', `entry ${at + 1} is not name:key`)
    else if (keys.some((other) => other.name === name)) bad('PLATFORM_API_KEYS', `'${name}' is there twice`)
    else if (key.length < KEY_LENGTH_MIN)
      bad('PLATFORM_API_KEYS', `the key '${name}' has fewer than ${KEY_LENGTH_MIN} characters`)
    else keys.push({ name, key })
  }
  return keys
}

const CLOCK_SKEW_SECONDS = '30'
const CLOCK_SKEW_SECONDS_MAX = 300

function parseOidc(env: Env, bad: Bad): OidcSettings | null {
  const text = (name: string, fallback = '') => env[name]?.trim() || fallback
  const issuer = text('OIDC_ISSUER')
  if (issuer === '') return null
  if (!isSafeAddress(issuer))
    bad('OIDC_ISSUER', 'must be an https address, or an http address of this machine')
  const audience = text('OIDC_AUDIENCE')
  if (audience === '')
    bad('OIDC_AUDIENCE', 'is required with OIDC_ISSUER: tokens for others must not open this')
  const clockSkewSeconds = Number(text('OIDC_CLOCK_SKEW_SECONDS', CLOCK_SKEW_SECONDS))
  if (
    !Number.isInteger(clockSkewSeconds) ||
    clockSkewSeconds < 0 ||
    clockSkewSeconds > CLOCK_SKEW_SECONDS_MAX
  )
    bad('OIDC_CLOCK_SKEW_SECONDS', `must be 0 to ${CLOCK_SKEW_SECONDS_MAX}`)
  const rolesClaim = text('OIDC_ROLES_CLAIM', 'roles')
  return { issuer, audience, clockSkewSeconds, rolesClaim, admins: parseAdmins(env) }
}

const parseAdmins = (env: Env) =>
  (env.PRO_ADMINS ?? '')
    .split(',')
    .map((subject) => subject.trim())
    .filter((subject) => subject !== '')

const PLUGIN_VARIABLES = {
  auth: 'AUTH_PLUGIN_URL',
  sharing: 'SHARING_PLUGIN_URL',
  enforcement: 'ENFORCEMENT_PLUGIN_URL',
} as const

function parsePlugins(env: Env, bad: Bad): PluginSettings {
  const isPlainAllowed = env.ALLOW_PLAIN_PLUGINS === 'true'
  const address = (name: string) => {
    const value = env[name]?.trim()
    if (!value) return null
    const url = URL.canParse(value) ? new URL(value) : null
    // The text is not shown: it may hold a password.
    if (
      url === null ||
      !RPC_PROTOCOL.test(url.protocol) ||
      url.username ||
      url.password ||
      url.search ||
      url.hash
    )
      bad(name, 'must be an http(s) or grpc(s) address, without user, query or fragment')
    else if (!isPlainAllowed && !isSafeAddress(value.replace(/^grpc/i, 'http')))
      bad(
        name,
        'must be https or grpcs, or on this machine, or set ALLOW_PLAIN_PLUGINS=true: it is sent credentials',
      )
    return value.replace(/\/+$/, '')
  }
  const auth = address(PLUGIN_VARIABLES.auth)
  const sharing = address(PLUGIN_VARIABLES.sharing)
  const enforcement = address(PLUGIN_VARIABLES.enforcement)
  if (sharing !== null && enforcement === null)
    bad('SHARING_PLUGIN_URL', 'needs ENFORCEMENT_PLUGIN_URL: nobody else knows what it is told to share')
  const token = env.PLUGIN_TOKEN?.trim() ?? ''
  if ((auth ?? sharing ?? enforcement) !== null && !/^[\x21-\x7e]{16,1024}$/.test(token))
    bad('PLUGIN_TOKEN', 'is required with a plugin, which knows us by it: 16 or more printable characters')
  return { auth, sharing, enforcement, token, admins: parseAdmins(env) }
}

function parseLicense(env: Env, bad: Bad): License | null {
  const file = env.LICENSE_FILE?.trim()
  let text = env.LICENSE?.trim()
  if (!text && file) {
    try {
      text = readFileSync(file, 'utf8').trim()
    } catch {
      bad('LICENSE_FILE', `${file} cannot be read`)
      return null
    }
  }
  if (!text) {
    bad('EDITION', 'pro needs a licence: set LICENSE or LICENSE_FILE')
    return null
  }
  const publicKey = env.LICENSE_PUBLIC_KEY?.trim() || LICENSE_PUBLIC_KEY
  const license = readLicense(text, { publicKey, now: new Date() })
  if (typeof license !== 'string') return license
  bad(env.LICENSE?.trim() ? 'LICENSE' : 'LICENSE_FILE', license)
  return null
}

/** The values of a list that is separated by commas. */
const listed = (text = '') =>
  text
    .split(',')
    .map((value) => value.trim())
    .filter((value) => value !== '')

/** A scheme and a host, as browsers send it in `Origin`: no path, no user. */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#@*]+$/

function parseOrigins(env: Env, bad: Bad): string[] {
  const origins = listed(env.CORS_ORIGINS).map((origin) => origin.replace(/\/+$/, '').toLowerCase())
  for (const origin of origins)
    if (origin !== '*' && !ORIGIN.test(origin))
      bad('CORS_ORIGINS', `'${origin}' is not an origin such as https://app.example.com, and not *`)
  return origins
}

/** This machine, its own addresses, and the names in ALLOWED_HOSTS; null where that is `*`. */
function parseAllowedHosts(env: Env, [host = '', publicUrl = '']: string[], bad: Bad): string[] | null {
  const extra = listed(env.ALLOWED_HOSTS)
  if (extra.includes('*')) return null
  const publicHost = URL.canParse(publicUrl) ? new URL(publicUrl).host : ''
  const ownHost = host.includes(':') ? `[${host}]` : host
  const names = ['localhost', '127.0.0.1', '[::1]', ownHost, publicHost].flatMap((own) => hostName(own) ?? [])
  for (const text of extra) {
    const name = hostName(text)
    if (name === null)
      bad('ALLOWED_HOSTS', `'${text}' is not a host name such as sluice.example.com, and not *`)
    else names.push(name)
  }
  return [...new Set(names)]
}

function parseStore(env: Env, dataDir: string, bad: Bad, floorBytes: number | null): StoreSettings {
  const endpoint = env.S3_ENDPOINT?.trim()
  if (!endpoint) return { kind: 'disk', root: `${dataDir}/objects`, floorBytes }
  const required = (name: string) => {
    const value = env[name]?.trim()
    if (!value) bad(name, 'is required with S3_ENDPOINT')
    return value ?? ''
  }
  return {
    kind: 's3',
    endpoint,
    bucket: required('S3_BUCKET'),
    region: env.S3_REGION?.trim() || 'us-east-1',
    accessKeyId: required('S3_ACCESS_KEY_ID'),
    secretAccessKey: required('S3_SECRET_ACCESS_KEY'),
  }
}
