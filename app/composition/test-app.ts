// Helpers for slice tests: the whole HTTP application around the plugins under test.
import { BlockList } from 'node:net'
import { noAudit } from '../audit/service.ts'
import { NO_PLUGINS } from '../config/plugin-settings.ts'
import { systemClock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import type { Fields, Log } from '../core/log.ts'
import { makeMetrics } from '../core/metrics.ts'
import { accessDenied } from '../s3/errors.ts'
import { type App, type AppParts, buildApp } from './server.ts'

const testConfig: AppParts['config'] = {
  allowedHosts: null,
  apiKeys: [],
  audit: true,
  authFailures: null,
  corsOrigins: ['http://localhost:3000'],
  edition: 'community',
  license: null,
  oidc: null,
  plugins: NO_PLUGINS,
  rateLimit: null,
  runnerUrls: ['http://127.0.0.1:1'],
  shownUrl: null,
  trustedProxies: new BlockList(),
  version: '0.0.0-test',
  gitCommit: 'test',
  buildTime: 'test',
}

/** Discards every entry. */
export const testLog: AppParts['log'] = {
  info: () => {},
  warn: () => {},
  error: () => {},
  named: () => testLog,
}

/** Records every entry. */
export function recordingLog() {
  const entries: { level: string; message: string; fields: Fields | undefined }[] = []
  const record = (level: string) => (message: string, fields?: Fields) =>
    void entries.push({ level, message, fields })
  const log: Log = { info: record('info'), warn: record('warn'), error: record('error'), named: () => log }
  return { log, entries, messages: () => entries.map(({ message }) => message) }
}

const answers = async () => {}

/** `config` overrides an open installation; `apiKey` sets the only key of the application. */
export function testApp(
  parts: Partial<Omit<AppParts, 'config'>> & {
    config?: Partial<AppParts['config']> & { apiKey?: string | null }
  },
): App {
  return buildApp({
    log: testLog,
    clock: systemClock,
    newId,
    metrics: makeMetrics(),
    readiness: { postgres: answers, s3: answers, runner: answers, query: answers },
    audit: noAudit,
    api: [],
    foreign: [],
    ownCredential: [],
    internal: [],
    s3: { authenticate: () => accessDenied() },
    endpointOf: (request) => request,
    ...parts,
    config: testConfigOf(parts.config),
  })
}

/** The configuration that `config` results in. */
export const testConfigOf = ({
  apiKey,
  ...config
}: Partial<AppParts['config']> & { apiKey?: string | null } = {}): AppParts['config'] => ({
  ...testConfig,
  ...(apiKey ? { apiKeys: [{ name: 'default', key: apiKey }] } : {}),
  ...config,
})

/** Sends a request to an app under test; a plain object is sent as JSON. */
export async function requestTo(
  app: App,
  method: string,
  path: string,
  body?: object,
  headers: Record<string, string> = {},
): Promise<Response> {
  const isPlain = body !== undefined && Object.getPrototypeOf(body) === Object.prototype
  return await app.fetch(
    new Request(`http://sluice.test${path}`, {
      method,
      body: isPlain ? JSON.stringify(body) : (body as BodyInit | undefined),
      headers: isPlain ? { 'content-type': 'application/json', ...headers } : headers,
    }),
  )
}
