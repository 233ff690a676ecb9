// Tests with forged, damaged and foreign tokens, against a provider with real keys.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { Elysia } from 'elysia'
import { CompactEncrypt, exportSPKI, generateKeyPair, type JWTHeaderParameters, SignJWT } from 'jose'
import { requestTo, testApp } from '../composition/test-app.ts'
import { exchangeOf } from '../http/exchange.ts'
import { AUDIENCE, startTestIssuer, type TestIssuer } from './testing.ts'

let provider: TestIssuer
let elapsedMs = 0
let nowMs = Date.now()
const clock = { now: () => new Date(nowMs), elapsed: () => elapsedMs }
const settings = { audience: AUDIENCE, clockSkewSeconds: 30, rolesClaim: 'roles', admins: ['root'] }

beforeAll(async () => {
  provider = await startTestIssuer()
})
afterAll(() => provider.stop())

const things = new Elysia({ prefix: '/things' }).get('', ({ request }) => exchangeOf(request).identity)
const appOf = (more: Parameters<typeof testApp>[0]['config'] = {}) =>
  testApp({ api: [things], clock, config: { oidc: { ...settings, issuer: provider.issuer }, ...more } })

async function ask(app: ReturnType<typeof appOf>, token: string, headers: Record<string, string> = {}) {
  const sent = { authorization: `Bearer ${token}`, ...headers }
  return requestTo(app, 'GET', '/api/v1/things', undefined, sent)
}

const b64 = (value: unknown) =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')

describe('tokens of the provider', () => {
  test('accepts each of three algorithms, with and without the access token type', async () => {
    const app = appOf()
    for (const alg of ['RS256', 'ES256', 'EdDSA'] as const) {
      const response = await ask(app, await provider.token({ roles: ['writer'], name: 'Ada' }, { alg }))
      expect(await response.json()).toEqual({ kind: 'user', userId: 'ada', name: 'Ada', roles: ['writer'] })
    }
    const typed = new SignJWT({
      iss: provider.issuer,
      aud: [AUDIENCE, 'other'],
      sub: 'ada',
      exp: nowMs / 1000 + 9,
    })
    typed.setProtectedHeader({ alg: 'RS256', typ: 'at+JWT' })
    expect((await ask(app, await typed.sign(provider.keys.RS256.privateKey))).status).toBe(200)
  })

  test('reads roles from a list, text or nested claim; operators add administrators', async () => {
    const identityOf = async (claims: object, rolesClaim = 'roles') => {
      const app = appOf({ oidc: { ...settings, rolesClaim, issuer: provider.issuer } })
      return (await ask(app, await provider.token({ ...claims }))).json()
    }
    expect(await identityOf({ roles: 'a b' })).toMatchObject({ roles: ['a', 'b'], name: 'ada' })
    expect(await identityOf({ realm: { roles: ['a', 7, '', 'b\n'] } }, 'realm.roles')).toMatchObject({
      roles: ['a'],
    })
    expect(await identityOf({ 'https://x.test/r': ['a'] }, 'https://x.test/r')).toMatchObject({
      roles: ['a'],
    })
    expect(await identityOf({ roles: 5 })).toMatchObject({ roles: [] })
    expect(await identityOf({}, '__proto__.roles')).toMatchObject({ roles: [] })
    expect(await identityOf({ sub: 'root' })).toMatchObject({ userId: 'root', roles: ['admin'] })
  })

  test('accepts a token within the clock skew and no longer', async () => {
    const seconds = Math.floor(nowMs / 1_000)
    const statusOf = async (claims: object) =>
      (await ask(appOf(), await provider.token({ ...claims }))).status
    expect(await statusOf({ exp: seconds - 20 })).toBe(200)
    expect(await statusOf({ exp: seconds - 40 })).toBe(401)
    expect(await statusOf({ nbf: seconds + 20 })).toBe(200)
    expect(await statusOf({ nbf: seconds + 40 })).toBe(401)
  })

  test('a cached token still expires', async () => {
    const app = appOf()
    const token = await provider.token({ exp: Math.floor(nowMs / 1_000) + 60 })
    expect((await ask(app, token)).status).toBe(200)
    const before = nowMs
    nowMs += 91_000
    expect((await ask(app, token)).status).toBe(401)
    nowMs = before
  })
})

/** Tokens that must be refused, by their defect. */
async function forgeries(): Promise<Record<string, string>> {
  const { keys, issuer } = provider
  const now = Math.floor(nowMs / 1_000)
  const claims = { iss: issuer, aud: AUDIENCE, sub: 'ada', iat: now, exp: now + 600 }
  const good = await provider.token()
  const [head = '', body = '', signature = ''] = good.split('.')
  const signed = (payload: object, header: object = {}, key = keys.RS256.privateKey) =>
    new SignJWT({ ...payload })
      .setProtectedHeader({ alg: 'RS256', ...header } as JWTHeaderParameters)
      .sign(key)
  const crit = await signed(claims, { crit: ['b64'], b64: true })
  const hmac = (secret: string, header: object) => {
    const input = `${b64(header)}.${b64(claims)}`
    return `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`
  }
  const pem = await exportSPKI(keys.RS256.publicKey)
  const stranger = await generateKeyPair('RS256', { extractable: true })
  const strangerJwk = { kty: 'RSA', n: keys.RS256.jwk.n, e: 'AQAB' }
  const p256 = (await provider.token({}, { alg: 'ES256' })).split('.')
  const jwe = await new CompactEncrypt(Buffer.from(good))
    .setProtectedHeader({ alg: 'RSA-OAEP', enc: 'A256GCM' })
    .encrypt((await generateKeyPair('RSA-OAEP')).publicKey)
  const found: Record<string, string> = {
    'alg none': `${b64({ alg: 'none', typ: 'JWT' })}.${body}.`,
    'alg None': `${b64({ alg: 'None', typ: 'JWT' })}.${body}.`,
    'alg none with a signature': `${b64({ alg: 'none' })}.${body}.${signature}`,
    'no alg': `${b64({ typ: 'JWT' })}.${body}.${signature}`,
    'HS256 with the public key': hmac(pem, { alg: 'HS256', typ: 'JWT' }),
    'HS256 with the public key, its kid': hmac(pem, { alg: 'HS256', kid: keys.RS256.jwk.kid }),
    'HS256 with the modulus': hmac(String(keys.RS256.jwk.n), { alg: 'HS256' }),
    'RS256 header over HS256': hmac(pem, { alg: 'RS256', kid: keys.RS256.jwk.kid }),
    'kid of another algorithm': await provider.token({}, { alg: 'RS256', kid: 'ES256-1' }),
    'kid as a path': await signed(claims, { kid: '../../../../dev/null' }),
    'kid as SQL': await signed(claims, { kid: "x' union select 'key' --" }),
    'kid as an address': await signed(claims, { kid: 'http://169.254.169.254/latest/meta-data' }),
    'kid as a command': await signed(claims, { kid: '|/usr/bin/id' }),
    'kid as __proto__': await signed(claims, { kid: '__proto__' }),
    'kid that is not a text': `${b64({ alg: 'RS256', kid: { a: 1 } })}.${body}.${signature}`,
    'kid of 4 KB': await signed(claims, { kid: 'k'.repeat(4_000) }),
    'another issuer': await provider.token({ iss: 'https://evil.test' }),
    'issuer with an extra slash': await provider.token({ iss: `${issuer}/` }),
    'issuers in a list': await provider.token({ iss: [issuer] }),
    'no issuer': await provider.token({ iss: undefined }),
    'another audience': await provider.token({ aud: 'other' }),
    'audience with a suffix': await provider.token({ aud: `${AUDIENCE}-admin` }),
    'no audience': await provider.token({ aud: undefined }),
    expired: await provider.token({ exp: now - 3_600 }),
    'no expiry': await provider.token({ exp: undefined }),
    'expiry as text': await provider.token({ exp: '99999999999' }),
    'not yet valid': await provider.token({ nbf: now + 3_600 }),
    'not before as text': await provider.token({ nbf: 'now' }),
    'oversized, 17 KB': await provider.token({ padding: 'x'.repeat(12_700) }),
    'encrypted, nested': jwe,
    'signed, nested in a signed one': await signed({ jwt: good }, { cty: 'JWT' }),
    'a token as the payload': `${head}.${b64(good)}.${signature}`,
    'crit b64': crit,
    'crit unknown': `${b64({ alg: 'RS256', crit: ['exp'], exp: 1 })}.${body}.${signature}`,
    'crit empty': `${b64({ alg: 'RS256', crit: [] })}.${body}.${signature}`,
    'own key in the header (jwk)': await signed(claims, { jwk: strangerJwk }, stranger.privateKey),
    'address of own keys (jku)': await signed(claims, { jku: `${issuer}/keys` }),
    'address of own certificate (x5u)': await signed(claims, { x5u: 'https://evil.test/x' }),
    'own certificate in the header (x5c)': await signed(claims, { x5c: ['AAAA'] }),
    'another type': await signed(claims, { typ: 'dpop+jwt' }),
    'no subject': await provider.token({ sub: undefined }),
    'subject that is a number': await provider.token({ sub: 7 }),
    'subject that is null': await provider.token({ sub: null }),
    'subject that is a list': await provider.token({ sub: ['ada'] }),
    'empty subject': await provider.token({ sub: '' }),
    'subject of spaces': await provider.token({ sub: ' ' }),
    'subject with a line': await provider.token({ sub: 'ada\nroot' }),
    'subject with NUL': await provider.token({ sub: 'ada\0' }),
    'subject of 10 KB': await provider.token({ sub: 'a'.repeat(5_000) }),
    'wrong key': await signed(claims, { kid: keys.RS256.jwk.kid }, stranger.privateKey),
    'changed payload': `${head}.${b64({ ...claims, sub: 'root' })}.${signature}`,
    'changed header': `${b64({ alg: 'RS256', typ: 'JWT', kid: keys.RS256.jwk.kid, x: 1 })}.${body}.${signature}`,
    'changed signature': `${head}.${body}.${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`,
    'signature cut off': `${head}.${body}.`,
    'signature cut short': `${head}.${body}.${signature.slice(0, -8)}`,
    'ES256, signature too short': `${p256[0]}.${p256[1]}.${p256[2]?.slice(0, -4)}`,
    'ES256, signature too long': `${p256[0]}.${p256[1]}.${p256[2]}AAAA`,
    'ES256, signature of zeros': `${p256[0]}.${p256[1]}.${Buffer.alloc(64).toString('base64url')}`,
    'ES256, no signature': `${p256[0]}.${p256[1]}.`,
    'another algorithm, same key': `${b64({ alg: 'PS256', kid: keys.RS256.jwk.kid })}.${body}.${signature}`,
    RS512: `${b64({ alg: 'RS512', kid: keys.RS256.jwk.kid })}.${body}.${signature}`,
    'payload that is not an object': await signedRaw('"ada"'),
    'payload that is not JSON': await signedRaw('ada'),
    'two parts': `${head}.${body}`,
    'four parts': `${good}.${signature}`,
    'dots only': '..',
    empty: '',
    'a word': 'token',
    'two tokens': `${good}, Bearer ${good}`,
    'spaces inside': good.replace('.', '. '),
  }
  return found

  async function signedRaw(text: string) {
    const { CompactSign } = await import('jose')
    return new CompactSign(Buffer.from(text)).setProtectedHeader({ alg: 'RS256' }).sign(keys.RS256.privateKey)
  }
}

test('refuses every forged, damaged or foreign token with 401 and a reason', async () => {
  const app = appOf()
  expect((await ask(app, await provider.token())).status).toBe(200)
  const tokens = Object.entries(await forgeries())
  let slowest = { what: '', ms: 0 }
  for (const [what, token] of tokens) {
    const times: number[] = []
    for (let round = 0; round < 5; round++) {
      const since = performance.now()
      expect([what, (await ask(app, token)).status]).toEqual([what, 401])
      times.push(performance.now() - since)
    }
    const ms = times.sort((a, b) => a - b)[2] ?? 0
    if (ms > slowest.ms) slowest = { what, ms }
    const response = await ask(app, token)
    const challenge = response.headers.get('www-authenticate') ?? ''
    expect([what, challenge]).toEqual([
      what,
      expect.stringMatching(/^Bearer realm="sluice", error="invalid_token"/),
    ])
    const body = await response.text()
    expect(body).toContain('"AUTHENTICATION"')
    if (token.length > 20) expect(body + challenge).not.toContain(token.slice(0, 20))
  }
  console.log(
    `  ${tokens.length} tokens refused; the slowest takes ${slowest.ms.toFixed(2)} ms (median of 5): ${slowest.what}`,
  )
})

describe('credentials', () => {
  const statusOf = async (app: ReturnType<typeof appOf>, headers: Record<string, string>) => {
    const response = await requestTo(app, 'GET', '/api/v1/things', undefined, headers)
    return [response.status, response.headers.get('www-authenticate')]
  }
  test('asks for missing credentials; ignores other schemes and cookies', async () => {
    const app = appOf()
    const asked = [401, 'Bearer realm="sluice"']
    expect(await statusOf(app, {})).toEqual(asked)
    expect(await statusOf(app, { authorization: 'Basic YTpi' })).toEqual(asked)
    expect(await statusOf(app, { authorization: `Bearer${await provider.token()}` })).toEqual(asked)
    expect(await statusOf(app, { cookie: `token=${await provider.token()}` })).toEqual(asked)
    const inQuery = await requestTo(app, 'GET', `/api/v1/things?access_token=${await provider.token()}`)
    expect(inQuery.status).toBe(401)
  })
  test('accepts a key or a token, and never both at once', async () => {
    const app = appOf({ apiKey: 'a-key-of-a-machine' })
    const [key, authorization] = ['a-key-of-a-machine', `Bearer ${await provider.token()}`]
    expect((await statusOf(app, { 'x-api-key': key }))[0]).toBe(200)
    expect((await statusOf(app, { authorization }))[0]).toBe(200)
    const both = [401, 'Bearer realm="sluice", ApiKey realm="sluice"']
    expect(await statusOf(app, { 'x-api-key': key, authorization })).toEqual(both)
    expect(await statusOf(app, { 'x-api-key': 'wrong', authorization })).toEqual(both)
    expect(await statusOf(app, {})).toEqual(both)
    expect((await statusOf(app, { 'x-api-key': key, authorization: 'Basic YTpi' }))[0]).toBe(200)
  })
  test('ignores credentials of a mode that is off', async () => {
    const app = appOf()
    expect((await statusOf(app, { 'x-api-key': 'anything' }))[0]).toBe(401)
    const authorization = `Bearer ${await provider.token()}`
    expect((await statusOf(app, { 'x-api-key': 'anything', authorization }))[0]).toBe(200)
  })
  test('accepts the scheme in any case, but only once', async () => {
    const token = await provider.token()
    for (const scheme of ['bearer', 'BEARER', 'Bearer '])
      expect((await statusOf(appOf(), { authorization: `${scheme} ${token}` }))[0]).toBe(200)
    const twice = new Headers({ authorization: `Bearer ${token}` })
    twice.append('authorization', `Bearer ${token}`)
    const request = new Request('http://sluice.test/api/v1/things', { headers: twice })
    expect((await appOf().fetch(request)).status).toBe(401)
  })
})

describe('keys of the provider', () => {
  test('fetches keys once a minute, however many unknown ids tokens name', async () => {
    const app = appOf()
    expect((await ask(app, await provider.token())).status).toBe(200)
    const before = provider.keyRequests()
    const flood = async () => {
      const tokens = await Promise.all(
        Array.from({ length: 50 }, (_, n) => provider.token({}, { kid: `unknown-${n}` })),
      )
      const answers = await Promise.all(tokens.map((token) => ask(app, token)))
      expect(answers.filter(({ status }) => status !== 401)).toEqual([])
    }
    await flood()
    expect(provider.keyRequests() - before).toBe(0)
    elapsedMs += 61_000
    await flood()
    await flood()
    expect(provider.keyRequests() - before).toBe(1)
  })

  test('finds new keys on demand and then refuses tokens of withdrawn keys', async () => {
    const app = appOf()
    const old = await provider.token({}, { alg: 'ES256' })
    expect((await ask(app, old)).status).toBe(200)
    await provider.rotate('ES256')
    elapsedMs += 61_000
    expect((await ask(app, old)).status).toBe(200)
    expect((await ask(app, await provider.token({}, { alg: 'ES256' }))).status).toBe(200)
    expect((await ask(app, old)).status).toBe(401)
  })

  test('answers 503 without keys, and uses known keys during an outage', async () => {
    const app = appOf()
    for (const body of [
      '{}',
      'no JSON',
      JSON.stringify({ issuer: 'https://evil.test', jwks_uri: `${provider.issuer}/keys` }),
      JSON.stringify({ issuer: provider.issuer, jwks_uri: 'http://evil.test/keys' }),
      JSON.stringify({ issuer: provider.issuer, jwks_uri: 'file:///etc/passwd' }),
      JSON.stringify({
        issuer: provider.issuer,
        jwks_uri: `${provider.issuer}/keys`,
        x: 'x'.repeat(300_000),
      }),
    ]) {
      provider.answers.set('/.well-known/openid-configuration', { body })
      elapsedMs += 6_000
      expect([body.slice(0, 80), (await ask(app, await provider.token())).status]).toEqual([
        body.slice(0, 80),
        503,
      ])
    }
    provider.answers.clear()
    expect((await ask(app, await provider.token())).status).toBe(503)
    elapsedMs += 6_000
    expect((await ask(app, await provider.token())).status).toBe(200)
    provider.answers.set('/keys', { status: 500, body: '' })
    elapsedMs += 3_600_000
    expect((await ask(app, await provider.token({ n: 1 }))).status).toBe(200)
    elapsedMs += 86_400_000
    expect((await ask(app, await provider.token({ n: 2 }))).status).toBe(503)
    provider.answers.clear()
  })
})
