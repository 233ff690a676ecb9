import { expect, test } from 'bun:test'
import { NO_PLUGINS } from '../config/plugin-settings.ts'
import { featuresOf } from './routes.ts'

const community = {
  edition: 'community',
  apiKeys: [],
  oidc: null,
  license: null,
  plugins: NO_PLUGINS,
  audit: true,
  runnerUrls: ['http://runner'],
} satisfies Parameters<typeof featuresOf>[0]

test('a key enables authentication, and a disabled part disables its feature', () => {
  const { plugins } = featuresOf({
    ...community,
    apiKeys: [{ name: 'default', key: 'secret' }],
    audit: false,
    runnerUrls: null,
  })
  expect(plugins.auth).toEqual({ enabled: true, type: 'api_key' })
  expect([plugins.executor.enabled, plugins.audit.enabled]).toEqual([false, false])
})

test('the Pro edition shows users, sharing and its licence', () => {
  const features = featuresOf({
    ...community,
    edition: 'pro',
    apiKeys: [{ name: 'default', key: 'secret' }],
    oidc: {
      issuer: 'https://id.test',
      audience: 'sluice',
      clockSkewSeconds: 30,
      rolesClaim: 'roles',
      admins: [],
    },
    license: { type: 'team', expiresAt: '2030-01-01T00:00:00Z', maxUsers: 25 },
  })
  expect(features).toMatchObject({
    edition: 'pro',
    plugins: {
      auth: { enabled: true, type: 'oidc' },
      sharing: { enabled: true },
      enforcement: { enabled: true },
    },
    multi_user: true,
    license: { type: 'team', expires_at: '2030-01-01T00:00:00Z', max_users: 25, expired: false },
  })
})

test('a plugin is shown instead of the part that it replaces', () => {
  const plugins = { ...NO_PLUGINS, auth: 'http://127.0.0.1:1', enforcement: 'http://127.0.0.1:1' }
  const healthy = { status: 'healthy', version: '1.2.3' } as const
  const { plugins: shown } = featuresOf({ ...community, edition: 'pro', plugins }, { auth: healthy })
  expect(shown).toMatchObject({
    auth: { enabled: true, type: 'plugin', ...healthy },
    enforcement: { enabled: true, type: 'plugin' },
    sharing: { enabled: false },
  })
})
