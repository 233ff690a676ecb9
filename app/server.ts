// The HTTP application: slices in, one `fetch` out. It names no runtime, so it answers wherever web standards do.
import { type AnyElysia, Elysia } from 'elysia'
import { accessBy, everythingToAll } from './access/access.ts'
import { makeGuard } from './access/guard.ts'
import type { Resources } from './access/service.ts'
import type { AuditTrail } from './audit/service.ts'
import { makeAccessTokens } from './auth/access-tokens.ts'
import { makeApiKeys } from './auth/api-keys.ts'
import { makeIssuerKeys } from './auth/issuer-keys.ts'
import type { Enforcement } from './core/access.ts'
import { remember } from './core/bound.ts'
import { makeSenderOf, type Peer } from './core/client-address.ts'
import type { Clock } from './core/clock.ts'
import type { Config } from './core/config.ts'
import type { NewId } from './core/ids.ts'
import type { Log } from './core/log.ts'
import type { Metrics } from './core/metrics.ts'
import { makeCheckHost } from './core/own-host.ts'
import { makeFailures, makeLimitRequest } from './core/rate-limit.ts'
import { makeRouteTable, type Route } from './core/route-table.ts'
import { refuseMisspelt } from './core/unknown-fields.ts'
import { featureRoutes } from './features/routes.ts'
import { healthRoutes } from './health/routes.ts'
import {
  makeHealthService,
  type PythonHealth,
  type Readiness,
  type ReadinessChecks,
} from './health/service.ts'
import { homeRoutes } from './home/routes.ts'
import { type Authenticate, makeAuthenticate } from './http/auth.ts'
import { readBody } from './http/body.ts'
import { makeCors } from './http/cors.ts'
import { exchangeOf, makeFetch } from './http/exchange.ts'
import { routesOf } from './http/routes-of.ts'
import { inspectorPage } from './inspector/page-routes.ts'
import type { Licensing } from './licensing/service.ts'
import type { Plugins } from './plugins/plugins.ts'
import { openApiDocument } from './swagger/openapi.ts'
import { swaggerRoutes } from './swagger/routes.ts'

export interface AppParts {
  config: Pick<
    Config,
    | 'allowedHosts'
    | 'apiKeys'
    | 'audit'
    | 'authFailures'
    | 'buildTime'
    | 'corsOrigins'
    | 'edition'
    | 'gitCommit'
    | 'license'
    | 'oidc'
    | 'plugins'
    | 'rateLimit'
    | 'runnerUrls'
    | 'shownUrl'
    | 'trustedProxies'
    | 'version'
  >
  log: Log
  clock: Clock
  newId: NewId
  metrics: Metrics
  readiness: ReadinessChecks
  shortages?: () => Promise<Readiness['details']>
  describePython?: (signal: AbortSignal) => Promise<PythonHealth | null>
  /** What answers in place of what is built in. */
  plugins?: Pick<Plugins, 'auth' | 'describe'>
  /** Pro edition only: the users that the licence allows. */
  licensing?: Pick<Licensing, 'admit' | 'hasEnded'>
  /** Of the Pro edition, and only there: what is whose, and who may do what with it. */
  ownership?: { resources: Resources; enforcement: Enforcement }
  audit: AuditTrail
  /** Route plugins of the slices, mounted under /api/v1. */
  api: readonly AnyElysia[]
  /** As `api`, but they check a credential of their own: webhooks. */
  ownCredential: readonly AnyElysia[]
  /** Plugins that check a credential of their own, mounted at the root: /catalog, /lake/objects. */
  internal: readonly AnyElysia[]
}

export interface App {
  /**
   * Answers every request and neither throws nor rejects. Any server will do: `Bun.serve({ fetch: (request) => app.fetch(request) })`.
   * One that knows who is at the other end of the connection says so with `peer`.
   */
  fetch(request: Request, peer?: Peer): Response | Promise<Response>
}

export function buildApp(parts: AppParts): App {
  const { config, metrics, ownership } = parts
  const { auth = null, describe: describePlugins } = parts.plugins ?? {}
  const authenticate = authenticateBy(parts)
  const isOpen = config.apiKeys.length === 0 && config.oidc === null && auth === null
  if ((config.edition === 'pro') !== (ownership !== undefined))
    throw new Error('ownership belongs to the Pro edition, which does not start without it')
  const health = healthRoutes(makeHealthService(parts), metrics, config)
  const plainApi = together(
    [...parts.api, featureRoutes({ ...config, hasLicenseEnded: parts.licensing?.hasEnded }, describePlugins)],
    '/api/v1',
  )
  const apiRoutes = routesOf(plainApi, 'identity')
  const api = ownership === undefined ? plainApi : guarded(plainApi, apiRoutes, ownership.resources)
  const ownCredential = together(parts.ownCredential, '/api/v1')
  const internal = together(parts.internal)
  const swagger = swaggerRoutes(() =>
    openApiDocument({
      routes: [...api.routes, ...ownCredential.routes, ...health.routes],
      version: config.version,
      hasKeys: config.apiKeys.length > 0,
      hasTokens: config.oidc !== null || auth !== null,
    }),
  )
  const open = together([homeRoutes(), health, swagger, inspectorPage()])

  const elysia = new Elysia({ strictPath: true })
    .onParse({ as: 'global' }, async ({ request }) => {
      const { route } = exchangeOf(request)
      const body = await readBody(request, route)
      if (route.fields !== null) refuseMisspelt(body, route.fields)
      return body
    })
    .onError({ as: 'global' }, ({ error, request }) => {
      // Errors travel on to the exchange, which alone knows what they mean in HTTP.
      if (!exchangeOf(request).route.answersOwnErrors) throw error
    })
    .use(open)
    .use(internal)
    .use(ownCredential)
    .use(api)

  return {
    fetch: makeFetch({
      ...parts,
      routes: makeRouteTable([
        ...routesOf(open, 'open'),
        ...routesOf(internal, 'own-credential'),
        ...routesOf(ownCredential, 'own-credential'),
        ...apiRoutes,
      ]),
      perform: async (request) => await elysia.fetch(request),
      authenticate,
      authorize: auth?.authorize ?? null,
      admitUser: parts.licensing?.admit ?? null,
      accessOf: ownership === undefined ? everythingToAll : accessBy(ownership.enforcement),
      limitRequest: makeLimitRequest(config.rateLimit, parts.clock),
      cors: makeCors({ origins: config.corsOrigins, publicUrl: config.shownUrl, isOpen }),
      checkHost: makeCheckHost(config.allowedHosts),
      senderOf: makeSenderOf(config.trustedProxies),
    }),
  }
}

/** Nothing of the API is performed before its rule has been asked. */
function guarded(api: AnyElysia, routes: readonly Route[], resources: Resources): AnyElysia {
  const guard = makeGuard(routes, resources)
  return new Elysia({ strictPath: true })
    .onBeforeHandle(async ({ request, params, query, body }) => {
      const { route, access } = exchangeOf(request)
      const ask = () => guard(route, { params, query, body, access })
      await ask()
      remember(request, ask)
    })
    .use(api)
}

/** What the configuration lets in. */
function authenticateBy({ config, clock, log, plugins }: AppParts): Authenticate {
  const tokens = plugins?.auth?.tokens ?? null
  if (config.plugins.auth !== null && tokens === null) throw new Error('the auth plugin is not connected')
  if (config.edition === 'pro' && config.apiKeys.length === 0 && config.oidc === null && tokens === null)
    throw new Error('the Pro edition is not open to everybody: nothing here can tell who comes')
  const onFailure = (error: unknown) =>
    log.warn('the identity provider cannot be asked for its keys', { error })
  return makeAuthenticate({
    apiKeys: config.apiKeys.length === 0 ? null : makeApiKeys(config.apiKeys),
    tokens:
      config.oidc === null
        ? tokens
        : makeAccessTokens(config.oidc, {
            keys: makeIssuerKeys({ issuer: config.oidc.issuer, clock, onFailure }),
            clock,
          }),
    failures: makeFailures(config, clock),
  })
}

const together = (plugins: readonly AnyElysia[], prefix = '') => {
  const all = new Elysia({ prefix, strictPath: true })
  for (const plugin of plugins) all.use(plugin)
  return all
}
