// An identity provider and licences for tests: real keys, real HTTP.
import { createPrivateKey, generateKeyPairSync, sign } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'

type TestAlgorithm = 'RS256' | 'ES256' | 'EdDSA'
export const AUDIENCE = 'sluice-test'

export interface TestIssuer {
  issuer: string
  /** The number of requests for its keys. */
  keyRequests(): number
  /** The private keys, and the public keys as the provider shows them. */
  keys: Record<TestAlgorithm, { privateKey: CryptoKey; publicKey: CryptoKey; jwk: JWK }>
  /** Signs a token as a provider would. Claims and header replace the defaults, and `undefined` removes them. */
  token(claims?: Record<string, unknown>, header?: { alg?: TestAlgorithm; kid?: string }): Promise<string>
  /** Responses that replace the defaults, by path. */
  answers: Map<string, { status?: number; body: string }>
  /** Replaces the keys of one algorithm; later tokens are signed with the new key. */
  rotate(algorithm: TestAlgorithm): Promise<void>
  stop(): void
}

export async function startTestIssuer(): Promise<TestIssuer> {
  let keyRequests = 0
  let generation = 1
  const make = async (algorithm: TestAlgorithm) => {
    const { privateKey, publicKey } = await generateKeyPair(algorithm, { extractable: true })
    const kid = `${algorithm}-${generation}`
    return {
      privateKey,
      publicKey,
      jwk: { ...(await exportJWK(publicKey)), kid, alg: algorithm, use: 'sig' },
    }
  }
  const keys = { RS256: await make('RS256'), ES256: await make('ES256'), EdDSA: await make('EdDSA') }
  const answers: TestIssuer['answers'] = new Map()
  const server = createServer((request, response) => {
    const path = request.url ?? ''
    const defaults: Record<string, object> = {
      '/.well-known/openid-configuration': { issuer, jwks_uri: `${issuer}/keys` },
      '/keys': { keys: Object.values(keys).map(({ jwk }) => jwk) },
    }
    if (path === '/keys') keyRequests += 1
    const override = answers.get(path)
    response.writeHead(override?.status ?? (path in defaults ? 200 : 404), {
      'content-type': 'application/json',
    })
    response.end(override?.body ?? JSON.stringify(defaults[path] ?? {}))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  return {
    issuer,
    keyRequests: () => keyRequests,
    keys,
    answers,
    async token(claims = {}, { alg = 'RS256', kid = keys[alg].jwk.kid } = {}) {
      const now = Math.floor(Date.now() / 1_000)
      const defaults = { iss: issuer, aud: AUDIENCE, sub: 'ada', iat: now, exp: now + 600 }
      const all = Object.entries({ ...defaults, ...claims }).filter(([, value]) => value !== undefined)
      return new SignJWT(Object.fromEntries(all))
        .setProtectedHeader({ alg, typ: 'JWT', ...(kid === undefined ? {} : { kid }) })
        .sign(keys[alg].privateKey)
    },
    async rotate(algorithm) {
      generation += 1
      keys[algorithm] = await make(algorithm)
    },
    stop: () => server.close(),
  }
}

/** A licence with these claims, and the public key that verifies it. */
export function testLicense(claims: object, header: object = { alg: 'EdDSA' }) {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const input = `${part(header)}.${part(claims)}`
  const signature = sign(
    null,
    Buffer.from(input),
    createPrivateKey(privateKey.export({ format: 'pem', type: 'pkcs8' })),
  )
  return {
    license: `${input}.${signature.toString('base64url')}`,
    publicKey: String(publicKey.export({ format: 'jwk' }).x),
  }
}
