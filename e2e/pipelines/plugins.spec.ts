// The Pro edition with the plugin of examples/plugin, which decides authentication, authorization and sharing.
import { type APIRequestContext, expect, test } from '@playwright/test'
import { type OwnService, startOwnService, startProgram } from '../kit/own-service.ts'
import { getJson, readiness } from '../kit/resources.ts'
import { KEY, licensedWith } from '../security/rights/pro-service.ts'

const PLUGIN_TOKEN = 'known-to-the-plugin-and-the-service'

const startPlugin = () => startProgram('examples/plugin/main.ts', { PLUGIN_TOKEN }, /listens on (\S+)\s/)

let plugin: Awaited<ReturnType<typeof startPlugin>>
let service: OwnService
/** Request contexts, by the name of the caller. */
const users: Record<string, APIRequestContext> = {}
const as = (name: 'ada' | 'ann' | 'bob' | 'vic' | 'stranger' | 'key') => {
  const context = users[name]
  if (context === undefined) throw new Error(`unknown user ${name}`)
  return context
}

test.describe.configure({ mode: 'serial' })
test.beforeAll(async ({ playwright }) => {
  plugin = await startPlugin()
  service = await startOwnService({
    ...licensedWith({ max_users: 7 }),
    AUTH_PLUGIN_URL: plugin.url,
    SHARING_PLUGIN_URL: plugin.url,
    ENFORCEMENT_PLUGIN_URL: plugin.url,
    PLUGIN_TOKEN,
    PLATFORM_API_KEY: KEY,
    RUNNER_URLS: 'none',
    QUERY_URLS: 'none',
  })
  const contextWith = (extraHTTPHeaders: Record<string, string>) =>
    playwright.request.newContext({ baseURL: service.url, extraHTTPHeaders })
  for (const name of ['ada', 'ann', 'bob', 'vic', 'stranger'])
    users[name] = await contextWith({ authorization: `Bearer ${name}-in-the-example` })
  users.key = await contextWith({ 'x-api-key': KEY })
})
test.afterAll(async () => {
  await Promise.all(Object.values(users).map((context) => context.dispose()))
  await service?.stop()
  await plugin?.stop()
})

const ZONES = '/api/v1/landing-zones'
const INBOX = `${ZONES}/default/inbox`
const statusOf = async (answer: Promise<{ status(): number }>) => (await answer).status()
const zonesOf = async (user: APIRequestContext): Promise<string[]> => {
  const { zones } = await getJson(user, ZONES)
  return zones.map(({ name }: { name: string }) => name)
}
let inbox = ''
let grant = ''

test('features and readiness report the status and version of plugins @plugins.health', async () => {
  const { services } = await readiness(as('key'))
  const { plugins } = await (await as('ann').get('/api/v1/features')).json()
  const healthy = { enabled: true, type: 'plugin', status: 'healthy', version: '1.0.0' }
  expect(plugins).toMatchObject({ auth: healthy, sharing: healthy, enforcement: healthy })
  expect(services).toMatchObject({
    auth_plugin: 'healthy',
    sharing_plugin: 'healthy',
    enforcement_plugin: 'healthy',
  })
})

test('only users known to the plugin are authenticated @plugins.authenticate', async () => {
  expect(await statusOf(as('ann').get('/api/v1/features'))).toBe(200)
  const refused = await as('stranger').get('/api/v1/features')
  expect([refused.status(), await refused.json()]).toMatchObject([401, { error: { type: 'AUTHENTICATION' } }])
  expect(refused.headers()['www-authenticate']).toContain('invalid_token')
})

test('a resource belongs to its creator and is hidden from others', async () => {
  const data = { namespace: 'default', name: 'inbox', description: 'of Ann' }
  const made = await as('ann').post(ZONES, { data })
  expect(made.status()).toBe(201)
  const zone = await (await as('ann').get(INBOX)).json()
  expect(zone.owner).toBe('ann')
  inbox = zone.id
  expect([await zonesOf(as('ann')), await zonesOf(as('bob'))]).toEqual([['inbox'], []])
  expect(await statusOf(as('bob').get(INBOX))).toBe(404)
  expect(await statusOf(as('bob').put(INBOX, { data: { description: 'mine' } }))).toBe(403)
})

test('a route that the plugin denies to a user is 403 @plugins.authorize', async () => {
  const refused = await as('vic').post(ZONES, { data: { namespace: 'default', name: 'of-vic' } })
  expect([refused.status(), await refused.json()]).toMatchObject([403, { error: { type: 'AUTHORIZATION' } }])
  expect(await statusOf(as('vic').get(ZONES))).toBe(200)
})

test('a shared resource can be used as far as the grant allows @plugins.enforcement', async () => {
  const share = (permission: string, grantee_id = 'bob') =>
    as('ann').post('/api/v1/sharing', {
      data: { grantee_id, resource_type: 'landing_zone', resource_id: inbox, permission },
    })
  expect(await statusOf(share('read', 'nobody-knows-him'))).toBe(400)
  const made = await share('read')
  expect([made.status(), await made.json()]).toMatchObject([
    201,
    {
      grantor_id: 'ann',
      grantee_id: 'bob',
      resource_type: 'landing_zone',
      resource_id: inbox,
      permission: 'read',
    },
  ])
  expect(await statusOf(as('bob').get(INBOX))).toBe(200)
  expect(await zonesOf(as('bob'))).toEqual(['inbox'])
  expect(await statusOf(as('bob').put(INBOX, { data: { description: 'mine' } }))).toBe(403)
  grant = (await (await share('write')).json()).id
  expect(await statusOf(as('bob').put(INBOX, { data: { description: 'ours' } }))).toBe(200)
  expect(await statusOf(as('bob').delete(INBOX))).toBe(403)
})

test('grants are listed, and revoking one ends its access at once @plugins.sharing', async () => {
  const query = `/api/v1/sharing?resource_type=landing_zone&resource_id=${inbox}`
  const { grants, total } = await (await as('ann').get(query)).json()
  expect([total, grants]).toMatchObject([1, [{ id: grant, grantee_id: 'bob', permission: 'write' }]])
  expect(await statusOf(as('bob').delete(`/api/v1/sharing/${grant}`))).toBe(403)
  expect(await statusOf(as('ann').delete(`/api/v1/sharing/${grant}`))).toBe(204)
  expect(await statusOf(as('ann').delete(`/api/v1/sharing/${grant}`))).toBe(404)
  expect(await statusOf(as('bob').get(INBOX))).toBe(404)
  expect(await zonesOf(as('bob'))).toEqual([])
})

test('a pipeline can be transferred only to users known to the plugin @plugins.transfer', async () => {
  const data = { namespace: 'default', layer: 'silver', name: 'flights', type: 'sql' }
  const made = await as('ada').post('/api/v1/pipelines', { data })
  expect(made.status()).toBe(201)
  const url = '/api/v1/pipelines/default/silver/flights'
  const { id } = await (await as('ada').get(url)).json()
  const hand = (to_user_id: string) =>
    as('ada').post('/api/v1/sharing/transfer', {
      data: { resource_type: 'pipeline', resource_id: id, to_user_id },
    })
  expect(await statusOf(hand('nobody-knows-him'))).toBe(400)
  expect(await statusOf(as('bob').get(url))).toBe(404)
  expect(await statusOf(hand('bob'))).toBe(200)
  expect(await statusOf(as('bob').get(url))).toBe(200)
})

test('without the plugin only keys authenticate, and errors name the plugin @plugins.away', async () => {
  await plugin.stop()
  await expect(async () => {
    const answer = await as('ann').get(ZONES)
    expect([answer.status(), await answer.json()]).toMatchObject([
      503,
      { error: { code: 'UNAVAILABLE', message: expect.stringContaining('plugin is not available') } },
    ])
  }).toPass()
  expect(await statusOf(as('key').get(ZONES))).toBe(200)
  const ready = await as('key').get('/health/ready')
  expect([ready.status(), (await ready.json()).services]).toMatchObject([
    503,
    { auth_plugin: 'unhealthy', sharing_plugin: 'unhealthy', enforcement_plugin: 'unhealthy' },
  ])
})
