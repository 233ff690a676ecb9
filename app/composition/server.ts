// The HTTP application: slices in, one `fetch` out. It uses web standards only, so it runs on any runtime.
import { type AnyElysia, Elysia } from 'elysia'
import { accessBy, everythingToAll } from '../access/access.ts'
import { makeGuard } from '../access/guard.ts'
import { RULES } from '../access/rules.ts'
import type { Resources } from '../access/service.ts'
import type { AuditTrail } from '../audit/service.ts'
import { makeAccessTokens } from '../auth/access-tokens.ts'
import { makeApiKeys } from '../auth/api-keys.ts'
import { makeIssuerKeys } from '../auth/issuer-keys.ts'
import type { Config } from '../config/config.ts'
import { consoleRoutes } from '../console/routes.ts'
import type { Enforcement } from '../core/access.ts'
import { storeRule } from '../core/bound.ts'
import type { Clock } from '../core/clock.ts'
import type { AppError } from '../core/errors.ts'
import type { NewId } from '../core/ids.ts'
import type { Log } from '../core/log.ts'
import type { Metrics } from '../core/metrics.ts'
import { featureRoutes } from '../features/routes.ts'
import { healthRoutes } from '../health/routes.ts'
import {
  makeHealthService,
  type PythonHealth,
  type Readiness,
  type ReadinessChecks,
} from '../health/service.ts'
import { homeRoutes } from '../home/routes.ts'
import { type Authenticate, isOfEngine, makeAuthenticate } from '../http/auth.ts'
import { readBody } from '../http/body.ts'
import { makeCors } from '../http/cors.ts'
import { exchangeOf, makeFetch } from '../http/exchange.ts'
import { presentOf } from '../http/present.ts'
import { routesOf } from '../http/routes-of.ts'
import { icebergError } from '../iceberg/errors.ts'
import { tokenRoute } from '../iceberg/token-route.ts'
import type { Licensing } from '../licensing/service.ts'
import type { Plugins } from '../plugins/plugins.ts'
import { isS3Path } from '../s3/authenticate.ts'
import { s3Error } from '../s3/errors.ts'
import type { S3Service } from '../s3/service.ts'
import { openApiDocument } from '../swagger/openapi.ts'
import { swaggerRoutes } from '../swagger/routes.ts'
import { makeSenderOf, type Peer } from '../wire/client-address.ts'
import { errorResponse } from '../wire/error-response.ts'
import { makeCheckHost } from '../wire/own-host.ts'
import { makeFailures, makeLimitRequest } from '../wire/rate-limit.ts'
import { makeRouteTable, type Route } from '../wire/route-table.ts'
import { targetOf } from '../wire/target.ts'
import { checkFields, refuseChanged } from '../wire/unknown-fields.ts'

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
  /** Whether this replica is about to stop. */
  isLeaving?: () => boolean
  /** Remote implementations that replace the built-in ones. */
  plugins?: Pick<Plugins, 'auth' | 'describe'>
  /** Pro edition only: the limit of users in the licence. */
  licensing?: Pick<Licensing, 'admit' | 'hasEnded'>
  /** Pro edition only: the owners of resources, and the rights of users on them. */
  ownership?: { resources: Resources; enforcement: Enforcement }
  audit: AuditTrail
  /** Route plugins of the slices, mounted under /api/v1. */
  api: readonly AnyElysia[]
  /** Webhooks, mounted under /api/v1. They check a credential of their own. */
  ownCredential: readonly AnyElysia[]
  /** Authenticates requests of S3 clients by their signatures. */
  s3: Pick<S3Service, 'authenticate'>
  /** The request at the address that answers it. Some engines use another address. */
  endpointOf(request: Request): Request
  /** Plugins mounted at the root. They require a credential of the API and answer errors in their own format: /iceberg, /s3. */
  foreign: readonly AnyElysia[]
  /** Plugins mounted at the root that check a credential of their own: /catalog, /lake/objects. */
  internal: readonly AnyElysia[]
}

export interface App {
  /**
   * Answers every request; never throws or rejects. Any server can call it: `Bun.serve({ fetch: (request) => app.fetch(request)
   * })`. A server that knows its client passes `peer`.
   */
  fetch(request: Request, peer?: Peer): Response | Promise<Response>
}

export function buildApp(parts: AppParts): App {
  const { config, metrics, ownership } = parts
  const { auth = null, describe: describePlugins } = parts.plugins ?? {}
  const authenticate = authenticateBy(parts)
  const isOpen = config.apiKeys.length === 0 && config.oidc === null && auth === null
  if ((config.edition === 'pro') !== (ownership !== undefined))
    throw new Error('ownership is required in the Pro edition, and not allowed in the community edition')
  const health = healthRoutes(makeHealthService(parts), metrics, config)
  const plainApi = together(
    [...parts.api, featureRoutes({ ...config, hasLicenseEnded: parts.licensing?.hasEnded }, describePlugins)],
    '/api/v1',
  )
  const plainForeign = together(parts.foreign)
  const apiRoutes = [
    ...routesOf(plainApi, 'identity', 'fields and parameters'),
    ...routesOf(plainForeign, 'identity'),
  ]
  const inEdition = (plugin: AnyElysia) =>
    ownership === undefined ? plugin : guarded(plugin, apiRoutes, ownership.resources)
  const api = inEdition(plainApi)
  const ownCredential = together(parts.ownCredential, '/api/v1')
  const internal = together([...parts.internal, tokenRoute(authenticate)])
  const swagger = swaggerRoutes(() =>
    openApiDocument({
      routes: [...api.routes, ...ownCredential.routes, ...health.routes],
      version: config.version,
      hasKeys: config.apiKeys.length > 0,
      hasTokens: config.oidc !== null || auth !== null,
      neededRight: (method, pattern) => RULES[`${method} ${pattern}`]?.summary,
    }),
  )
  const pages = together([homeRoutes(), swagger, consoleRoutes()])

  const perform = async (request: Request) => await elysia.fetch(request)
  const elysia: AnyElysia = new Elysia({ strictPath: true })
    .onParse({ as: 'global' }, async ({ request }) => {
      const { route } = exchangeOf(request)
      const body = await readBody(request, route)
      const sentBack = route.fields === null ? [] : checkFields(body, route.fields)
      if (sentBack.length > 0) refuseChanged(sentBack, await presentOf(request, { routes, perform }))
      return body
    })
    .onError({ as: 'global' }, ({ error, request }) => {
      // Errors are rethrown to the exchange, the only place that maps them to HTTP.
      if (!exchangeOf(request).route.answersOwnErrors) throw error
    })
    .use(pages)
    .use(health)
    .use(internal)
    .use(ownCredential)
    .use(inEdition(plainForeign))
    .use(api)

  const routes = makeRouteTable([
    ...routesOf(pages, 'open'),
    ...routesOf(health, 'open', 'parameters'),
    ...routesOf(internal, 'own-credential'),
    // A webhook's body belongs to its caller.
    ...routesOf(ownCredential, 'own-credential', 'parameters'),
    ...apiRoutes,
  ])
  const fetch = makeFetch({
    ...parts,
    routes,
    perform,
    authenticate: (request, sender) =>
      isS3Path(targetOf(request.url).path)
        ? parts.s3.authenticate(request, sender)
        : authenticate(request, sender),
    authorize: auth?.authorize ?? null,
    admitUser: parts.licensing?.admit ?? null,
    accessOf: ownership === undefined ? everythingToAll : accessBy(ownership.enforcement),
    limitRequest: makeLimitRequest(config.rateLimit, parts.clock),
    cors: makeCors({ origins: config.corsOrigins, publicUrl: config.shownUrl, isOpen }),
    checkHost: makeCheckHost(config.allowedHosts),
    senderOf: makeSenderOf(config.trustedProxies),
    refusal,
  })
  return { fetch: (request, peer) => fetch(parts.endpointOf(request), peer) }
}

/** The response to a request that was refused before its handler, in the format of the path. */
function refusal(path: string, error: AppError, requestId: string): Response {
  if (isS3Path(path)) return s3Error(error, { path, requestId })
  return isOfEngine(path) ? icebergError(error) : errorResponse(error)
}

/** Checks the access rule of each route before its handler runs. */
function guarded(api: AnyElysia, routes: readonly Route[], resources: Resources): AnyElysia {
  const guard = makeGuard(routes, resources)
  return new Elysia({ strictPath: true })
    .onBeforeHandle(async ({ request, params, query, body }) => {
      const { route, access } = exchangeOf(request)
      const ask = () => guard(route, { params, query, body, access })
      await ask()
      storeRule(request, ask)
    })
    .use(api)
}

/** Authentication with every method that the configuration enables. */
function authenticateBy({ config, clock, log, plugins }: AppParts): Authenticate {
  const tokens = plugins?.auth?.tokens ?? null
  if (config.plugins.auth !== null && tokens === null)
    throw new Error('the configured authentication plugin has no client: pass plugins.auth')
  if (config.edition === 'pro' && config.apiKeys.length === 0 && config.oidc === null && tokens === null)
    throw new Error('the Pro edition requires API keys, an OIDC issuer or an authentication plugin')
  const onFailure = (error: unknown) =>
    log.warn('keys of the identity provider not fetched: check OIDC_ISSUER', { error })
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
