// Attack class: forged credentials. Specification: Authentication, bearer tokens; Features of the Pro edition.
import { generateKeyPairSync } from 'node:crypto'
import { expect, test } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import { type OwnService, startOwnService } from '../kit/own-service.ts'
import { KEY, licensedWith, startProvider } from '../security/rights/pro-service.ts'

const foreignKeys = generateKeyPairSync('rsa', { modulusLength: 2048 })
const CLAIMS = { type: 'team', expires_at: '2999-01-01T00:00:00Z', max_users: 7 }

let provider: Awaited<ReturnType<typeof startProvider>>
let service: OwnService

test.describe.configure({ mode: 'serial' })
test.beforeAll(async () => {
  provider = await startProvider()
  service = await startOwnService({
    ...licensedWith(CLAIMS),
    ...provider.env,
    PLATFORM_API_KEYS: `ci:${KEY}`,
    AUTH_FAILURES: '1000',
    RUNNER_URLS: 'none',
    QUERY_URLS: 'none',
  })
})
test.afterAll(async () => {
  await service?.stop()
  provider?.stop()
})

const good = (more: object = {}) => provider.token({ sub: 'ada', ...more })
const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } })

test('provider tokens and named keys open Pro, which shows its licence @auth.bearer', async ({ request }) => {
  for (const options of [bearer(good()), { headers: { 'x-api-key': KEY } }]) {
    const response = await request.get(`${service.url}/api/v1/features`, options)
    expect(response.status()).toBe(200)
    expect(await response.json()).toMatchObject({
      edition: 'pro',
      multi_user: true,
      plugins: { auth: { enabled: true, type: 'oidc' } },
      license: CLAIMS,
    })
  }
})

test('the audit log shows the subject of the token', async ({ request }) => {
  await request.post(`${service.url}/api/v1/namespaces`, { ...bearer(good()), data: { name: 'by-ada' } })
  const machine = { headers: { 'x-api-key': KEY } }
  await eventually(async () =>
    (await request.get(`${service.url}/api/v1/audit`, machine)).json(),
  ).toContainEqual(
    expect.objectContaining({ user_id: 'ada', resource: '/api/v1/namespaces', action: 'post' }),
  )
})

test('the service requests no address that a token names', async ({ request }) => {
  for (const name of ['jku', 'x5u', 'jwks_uri', 'kid', 'iss'])
    for (const key of [undefined, foreignKeys.privateKey]) {
      const elsewhere = { [name]: `${provider.issuer}/elsewhere` }
      const token = provider.token({ sub: 'ada', ...elsewhere }, elsewhere, key)
      const response = await request.get(`${service.url}/api/v1/namespaces`, bearer(token))
      if (key !== undefined || ['jku', 'x5u', 'kid', 'iss'].includes(name))
        expect([name, response.status()]).toEqual([name, 401])
    }
  expect(new Set(provider.asked)).toEqual(new Set(['/.well-known/openid-configuration', '/keys']))
})

test('a header over 16 KB is refused before its token is read', async ({ request }) => {
  const response = await request.get(
    `${service.url}/api/v1/namespaces`,
    bearer(good({ padding: 'x'.repeat(14_000) })),
  )
  expect(response.status()).toBe(431)
})

test('unknown key ids do not cause repeated requests to the provider', async ({ request }) => {
  const before = provider.asked.length
  for (let n = 0; n < 30; n++) {
    const token = provider.token({ sub: 'ada' }, { kid: `unknown-${n}` })
    expect((await request.get(`${service.url}/api/v1/namespaces`, bearer(token))).status()).toBe(401)
  }
  expect(provider.asked.length - before).toBeLessThanOrEqual(1)
})
