// The environment is parsed here, once, and nowhere else; values are passed in from there.
import { BlockList } from 'node:net'
import { networksOf } from './http/client-address.ts'
import { RPC_PROTOCOL } from './rpc/protocol.ts'

export type StoreSettings =
  | { kind: 'disk'; root: string }
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
  /** What addresses shown to clients begin with; null: the address that the client itself has used. */
  shownUrl: string | null
  databaseUrl: string
  dataDir: string
  store: StoreSettings
  /** Null: the part is switched off (`none`). */
  runnerUrls: string[] | null
  queryUrls: string[] | null
  apiKey: string | null
  edition: 'community'
  metadataStore: boolean
  audit: boolean
  reaper: boolean
  /** Whose X-Forwarded-For is believed. */
  trustedProxies: BlockList
  corsOrigins: string[]
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
  const apiKey = env.PLATFORM_API_KEY?.trim() || null
  if (!isLoopback(host) && apiKey === null && env.ALLOW_OPEN !== 'true')
    bad('HOST', `${host} is not loopback and no PLATFORM_API_KEY is set; set one, or ALLOW_OPEN=true`)

  const databaseUrl = text('DATABASE_URL', '')
  if (!/^postgres(ql)?:\/\//.test(databaseUrl)) bad('DATABASE_URL', 'must be a postgres:// address')
  const dataDir = text('DATA_DIR', `${dataDirBase}/data`)
  const edition = text('EDITION', 'community')
  if (edition !== 'community') bad('EDITION', `'${edition}' is not available; use community`)

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
  const count = (name: string, fallback: number) => {
    const value = text(name, String(fallback))
    if (!/^[1-9]\d{0,6}$/.test(value)) bad(name, `'${value}' is no number from 1 to 9999999`)
    return Number(value)
  }
  const logFormat = text('LOG_FORMAT', 'text')
  if (logFormat !== 'text' && logFormat !== 'json') bad('LOG_FORMAT', 'must be text or json')

  const config: Config = {
    host,
    port,
    publicUrl,
    shownUrl: givenUrl === '' ? null : publicUrl,
    databaseUrl,
    dataDir,
    store: parseStore(env, dataDir, bad),
    runnerUrls: addresses('RUNNER_URLS'),
    queryUrls: addresses('QUERY_URLS'),
    apiKey,
    edition: 'community',
    metadataStore: isOn('METADATA'),
    audit: isOn('AUDIT'),
    reaper: isOn('REAPER'),
    trustedProxies: networks('TRUSTED_PROXIES', LOOPBACK),
    corsOrigins: text('CORS_ORIGINS', 'http://localhost:3000')
      .split(',')
      .map((origin) => origin.trim()),
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

function parseStore(env: Env, dataDir: string, bad: (name: string, why: string) => void): StoreSettings {
  const endpoint = env.S3_ENDPOINT?.trim()
  if (!endpoint) return { kind: 'disk', root: `${dataDir}/objects` }
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

const isLoopback = (host: string) => host === 'localhost' || host === '::1' || /^127\./.test(host)
