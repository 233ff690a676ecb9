import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Config } from '../config/config.ts'
import { ErrorBody, literals, nullable } from '../core/names.ts'
import type { PluginsHealth } from '../plugins/health.ts'

const Plugin = t.Object(
  {
    enabled: t.Boolean(),
    type: t.Optional(
      literals(['plugin', 'oidc', 'api_key', 'runner'], {
        title: 'PluginType',
        description: '`plugin`: an external plugin replaces the built-in part',
      }),
    ),
    status: t.Optional(
      literals(['healthy', 'unhealthy'], {
        title: 'HealthState',
        description: 'Result of the latest check, which is a few seconds old at most',
      }),
    ),
    version: t.Optional(t.String({ description: 'Version that the plugin reports' })),
  },
  { title: 'PluginFeature' },
)
const License = t.Object(
  {
    type: t.String(),
    expires_at: t.String(),
    max_users: t.Integer({ description: 'Maximum number of distinct users in 30 days' }),
    expired: t.Boolean({
      description:
        'The licence has expired: requests of users are rejected, and requests with API keys are still accepted',
    }),
  },
  { title: 'License' },
)
const Features = t.Object(
  {
    edition: literals(['community', 'pro'], { title: 'Edition' }),
    plugins: t.Object(
      { auth: Plugin, sharing: Plugin, executor: Plugin, audit: Plugin, enforcement: Plugin },
      { title: 'PluginFeatures' },
    ),
    namespaces: t.Boolean(),
    multi_user: t.Boolean(),
    landing_zones: t.Boolean(),
    license: nullable(License),
  },
  { title: 'Features' },
)
type Features = typeof Features.static

interface Settings
  extends Pick<Config, 'apiKeys' | 'audit' | 'edition' | 'license' | 'oidc' | 'plugins' | 'runnerUrls'> {
  /** Absent: the licence has not ended. */
  hasLicenseEnded?: () => boolean
}
type DescribePlugins = PluginsHealth['describe']

/** The features of this installation, so that a client does not discover them through errors. */
export const featureRoutes = (settings: Settings, describePlugins: DescribePlugins = async () => ({})) =>
  new Elysia({ strictPath: true, tags: ['features'] }).get(
    '/features',
    async () => featuresOf(settings, await describePlugins()),
    {
      response: { 200: Features, 401: ErrorBody },
      detail: {
        operationId: 'getFeatures',
        summary: 'Get the features of this installation',
        description: 'Returns the edition, the plugins and the licence.',
      },
    },
  )

export function featuresOf(settings: Settings, found: Awaited<ReturnType<DescribePlugins>> = {}): Features {
  const { edition, apiKeys, oidc, license, audit, runnerUrls, plugins } = settings
  const isPro = edition === 'pro'
  return {
    edition,
    plugins: {
      auth:
        plugins.auth !== null
          ? { enabled: true, type: 'plugin', ...found.auth }
          : oidc !== null
            ? { enabled: true, type: 'oidc' }
            : apiKeys.length > 0
              ? { enabled: true, type: 'api_key' }
              : { enabled: false },
      // A plugin that decides on rights ignores built-in grants, so built-in sharing is off.
      sharing:
        plugins.sharing !== null
          ? { enabled: true, type: 'plugin', ...found.sharing }
          : { enabled: isPro && plugins.enforcement === null },
      executor: { enabled: runnerUrls !== null, type: 'runner' },
      audit: { enabled: audit },
      enforcement:
        plugins.enforcement !== null
          ? { enabled: true, type: 'plugin', ...found.enforcement }
          : { enabled: isPro },
    },
    namespaces: true,
    multi_user: isPro,
    landing_zones: true,
    license: license && {
      type: license.type,
      expires_at: license.expiresAt,
      max_users: license.maxUsers,
      expired: settings.hasLicenseEnded?.() ?? false,
    },
  }
}
