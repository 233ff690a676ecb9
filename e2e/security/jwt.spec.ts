// Attack class: forged credentials. Specification: Authentication, bearer tokens; Features of the Pro edition.
import { createPrivateKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from '@playwright/test'
import { type OwnService, startOwnService } from '../own-service.ts'

const AUDIENCE = 'sluice-e2e'
const KEY = 'a-key-of-a-machine'
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const stranger = generateKeyPairSync('rsa', { modulusLength: 2048 })
const vendor = generateKeyPairSync('ed25519')
const CLAIMS = { type: 'team', expires_at: '2999-01-01T00:00:00Z', max_users: 7 }

const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
const signed = (header: object, claims: object, key: KeyObject) => {
  const input = `${part(header)}.${part(claims)}`
  const digest = key.asymmetricKeyType === 'ed25519' ? null : 'sha256'
  return `${input}.${sign(digest, Buffer.from(input), key).toString('base64url')}`
}

let provider: Server
let issuer: string
let service: OwnService
let keysAsked = 0
/** Other addresses of the provider that were asked for: nobody should, whatever a token says. */
const asked: (string | undefined)[] = []

test.describe.configure({ mode: 'serial' })
test.beforeAll(async () => {
  provider = createServer((request, response) => {
    if (request.url === '/keys') keysAsked += 1
    else if (request.url !== '/.well-known/openid-configuration') asked.push(request.url)
    const jwk = { ...rsa.publicKey.export({ format: 'jwk' }), kid: 'one', alg: 'RS256', use: 'sig' }
    response.setHeader('content-type', 'application/json')
    response.end(
      JSON.stringify(request.url === '/keys' ? { keys: [jwk] } : { issuer, jwks_uri: `${issuer}/keys` }),
    )
  })
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve))
  issuer = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`
  service = await startOwnService({
    EDITION: 'pro',
    LICENSE: signed(
      { alg: 'EdDSA' },
      CLAIMS,
      createPrivateKey(vendor.privateKey.export({ format: 'pem', type: 'pkcs8' })),
    ),
    LICENSE_PUBLIC_KEY: String(vendor.publicKey.export({ format: 'jwk' }).x),
    OIDC_ISSUER: issuer,
    OIDC_AUDIENCE: AUDIENCE,
    PLATFORM_API_KEYS: `ci:${KEY}`,
    AUTH_FAILURES: '1000',
    RUNNER_URLS: 'none',
    QUERY_URLS: 'none',
  })
})
test.afterAll(async () => {
  await service?.stop()
  provider?.close()
})

const now = Math.floor(Date.now() / 1_000)
const claims = (more: object = {}) => ({ iss: issuer, aud: AUDIENCE, sub: 'ada', exp: now + 600, ...more })
const header = { alg: 'RS256', typ: 'JWT', kid: 'one' }
const good = (more: object = {}) => signed(header, claims(more), rsa.privateKey)
const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } })

test('a token of the provider, and a named key, open the Pro edition, which shows its licence @auth.bearer', async ({
  request,
}) => {
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
  await expect
    .poll(async () => (await request.get(`${service.url}/api/v1/audit`, machine)).json())
    .toContainEqual(
      expect.objectContaining({ user_id: 'ada', resource: '/api/v1/namespaces', action: 'post' }),
    )
})

test('no address that a token names is asked', async ({ request }) => {
  for (const name of ['jku', 'x5u', 'jwks_uri', 'kid', 'iss'])
    for (const key of [rsa.privateKey, stranger.privateKey]) {
      const token = signed(
        { ...header, [name]: `${issuer}/elsewhere` },
        claims({ [name]: `${issuer}/elsewhere` }),
        key,
      )
      const response = await request.get(`${service.url}/api/v1/namespaces`, bearer(token))
      if (key === stranger.privateKey || ['jku', 'x5u', 'kid', 'iss'].includes(name))
        expect([name, response.status()]).toEqual([name, 401])
    }
  expect(asked).toEqual([])
})

test('a header beyond 16 KB is refused before anybody reads the token in it', async ({ request }) => {
  const response = await request.get(
    `${service.url}/api/v1/namespaces`,
    bearer(good({ padding: 'x'.repeat(14_000) })),
  )
  expect(response.status()).toBe(431)
})

test('unknown key ids do not make the service ask the provider again and again', async ({ request }) => {
  const before = keysAsked
  for (let n = 0; n < 30; n++) {
    const token = signed({ ...header, kid: `unknown-${n}` }, claims(), rsa.privateKey)
    expect((await request.get(`${service.url}/api/v1/namespaces`, bearer(token))).status()).toBe(401)
  }
  expect(keysAsked - before).toBeLessThanOrEqual(1)
})
