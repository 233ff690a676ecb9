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

type Settings = Pick<Config, 'edition' | 'apiKey' | 'audit' | 'runnerUrls'>

/** What this installation can do, so that a client need not find out by failing. */
export const featureRoutes = (settings: Settings) =>
  new Elysia({ strictPath: true, tags: ['features'] }).get('/features', () => featuresOf(settings), {
    response: { 200: Features, 401: ErrorBody },
    detail: { summary: 'What this installation can do' },
  })

export const featuresOf = ({ edition, apiKey, audit, runnerUrls }: Settings): Features => ({
  edition,
  plugins: {
    auth: apiKey === null ? { enabled: false } : { enabled: true, type: 'api_key' },
    sharing: { enabled: false },
    executor: { enabled: runnerUrls !== null, type: 'runner' },
    audit: { enabled: audit },
    enforcement: { enabled: false },
  },
  namespaces: true,
  multi_user: false,
  landing_zones: true,
  license: null,
})
