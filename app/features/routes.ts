import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Config } from '../config.ts'
import { ErrorBody, nullable } from '../http/names.ts'

const Plugin = t.Object({ enabled: t.Boolean(), type: t.Optional(t.String()) })
const License = t.Object({
  type: t.String(),
  expires_at: t.String(),
  max_users: t.Integer(),
})
const Features = t.Object({
  edition: t.Union([t.Literal('community'), t.Literal('pro')]),
  plugins: t.Object({
    auth: Plugin,
    sharing: Plugin,
    executor: Plugin,
    audit: Plugin,
    enforcement: Plugin,
  }),
  namespaces: t.Boolean(),
  multi_user: t.Boolean(),
  landing_zones: t.Boolean(),
  license: nullable(License),
})
type Features = typeof Features.static

type Settings = Pick<Config, 'apiKeys' | 'audit' | 'edition' | 'license' | 'oidc' | 'runnerUrls'>

/** What this installation can do, so that a client need not find out by failing. */
export const featureRoutes = (settings: Settings) =>
  new Elysia({ strictPath: true, tags: ['features'] }).get('/features', () => featuresOf(settings), {
    response: { 200: Features, 401: ErrorBody },
    detail: { summary: 'What this installation can do' },
  })

export function featuresOf({ edition, apiKeys, oidc, license, audit, runnerUrls }: Settings): Features {
  const isPro = edition === 'pro'
  return {
    edition,
    plugins: {
      auth:
        oidc !== null
          ? { enabled: true, type: 'oidc' }
          : apiKeys.length > 0
            ? { enabled: true, type: 'api_key' }
            : { enabled: false },
      sharing: { enabled: isPro },
      executor: { enabled: runnerUrls !== null, type: 'runner' },
      audit: { enabled: audit },
      enforcement: { enabled: isPro },
    },
    namespaces: true,
    multi_user: isPro,
    landing_zones: true,
    license: license && {
      type: license.type,
      expires_at: license.expiresAt,
      max_users: license.maxUsers,
    },
  }
}
