import { expect, test } from 'bun:test'
import { featuresOf } from './routes.ts'

const community = { edition: 'community', apiKey: null, audit: true, runnerUrls: ['http://runner'] } as const

test('the community edition has no users, no sharing and no licence', () => {
  expect(featuresOf({ ...community, runnerUrls: [...community.runnerUrls] })).toEqual({
    edition: 'community',
    plugins: {
      auth: { enabled: false },
      sharing: { enabled: false },
      executor: { enabled: true, type: 'runner' },
      audit: { enabled: true },
      enforcement: { enabled: false },
    },
    namespaces: true,
    multi_user: false,
    landing_zones: true,
    license: null,
  })
})

test('an API key turns authentication on, switching a part off turns its feature off', () => {
  const { plugins } = featuresOf({
    edition: 'community',
    apiKey: 'secret',
    audit: false,
    runnerUrls: null,
  })
  expect(plugins.auth).toEqual({ enabled: true, type: 'api_key' })
  expect([plugins.executor.enabled, plugins.audit.enabled]).toEqual([false, false])
})
