import { afterAll, beforeAll, expect, test } from 'bun:test'
import { systemClock } from '../core/clock.ts'
import { makePluginsHealth } from './health.ts'
import { channelTo, says, startTestPlugin, type TestPlugin } from './testing.ts'

let plugin: TestPlugin
beforeAll(async () => {
  plugin = await startTestPlugin()
})
afterAll(() => plugin.stop())

const healthOf = () => makePluginsHealth({ auth: channelTo(plugin.url) }, systemClock)
const described = async () => (await healthOf().describe()).auth

test('reports whether a plugin is serving, and its version', async () => {
  plugin.answer = says({ status: 'PLUGIN_STATUS_SERVING', version: '1.2.3' })
  expect(await described()).toEqual({ status: 'healthy', version: '1.2.3' })
  expect(plugin.asked.at(-1)?.method).toBe('PluginService/HealthCheck')
})

test('any other status or answer is unhealthy', async () => {
  for (const answer of [
    { status: 'PLUGIN_STATUS_NOT_SERVING', version: '1' },
    {},
    { status: 'PLUGIN_STATUS_WELL' },
    { status: 7 },
    'healthy',
  ]) {
    plugin.answer = says(answer)
    expect([answer, await described()]).toEqual([answer, { status: 'unhealthy', version: '' }])
  }
})

test('hides a version that cannot be displayed', async () => {
  for (const version of ['', 'a\nb', 'x'.repeat(65)]) {
    plugin.answer = says({ status: 'PLUGIN_STATUS_SERVING', version })
    expect(await described()).toEqual({ status: 'healthy', version: '' })
  }
})

test('checks a plugin once within the cache time', async () => {
  plugin.answer = says({ status: 'PLUGIN_STATUS_SERVING' })
  const before = plugin.asked.length
  const health = healthOf()
  await Promise.all([health.describe(), health.describe()])
  await health.describe()
  expect(plugin.asked.length).toBe(before + 1)
})
