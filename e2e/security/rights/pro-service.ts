// A Pro service with an identity provider, and callers with tokens of that provider.
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { startOwnService } from '../../kit/own-service.ts'

const AUDIENCE = 'sluice-e2e'
export const KEY = 'a-key-of-a-machine'

export interface Answer {
  status: number
  /** Empty for a stream of events, which is closed at once. */
  text: string
  /** The parsed body; undefined if the content is not JSON. */
  json: unknown
}

/** Headers that identify the caller. */
export type Caller = Readonly<Record<string, string>>

export interface ProService {
  url: string
  /** A caller with a token of the provider; `claims` are added to the token. */
  user(subject: string, claims?: object): Caller
  /** A caller whose token has the role `admin`. */
  root: Caller
  machine: Caller
  ask(caller: Caller, method: string, path: string, body?: object | FormData): Promise<Answer>
  /** Like `ask`, but rejects on any other status. */
  must(
    status: number,
    caller: Caller,
    method: string,
    path: string,
    body?: object,
  ): Promise<Record<string, unknown>>
  stop(): Promise<void>
}

const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
/** A signed token; the key is RSA or Ed25519. */
const signed = (header: object, claims: object, key: KeyObject) => {
  const input = `${part(header)}.${part(claims)}`
  const digest = key.asymmetricKeyType === 'ed25519' ? null : 'sha256'
  return `${input}.${sign(digest, Buffer.from(input), key).toString('base64url')}`
}

/** The environment of the Pro edition with a new licence. */
export function licensedWith(claims: object = {}) {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const all = { type: 'team', expires_at: '2999-01-01T00:00:00Z', max_users: 10_000, ...claims }
  return {
    EDITION: 'pro',
    LICENSE: signed({ alg: 'EdDSA' }, all, privateKey),
    LICENSE_PUBLIC_KEY: String(publicKey.export({ format: 'jwk' }).x),
  }
}

/** Starts an identity provider with one key. */
export async function startProvider() {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const jwk = { ...publicKey.export({ format: 'jwk' }), kid: 'one', alg: 'RS256', use: 'sig' }
  const asked: string[] = []
  const server = createServer(({ url = '' }, response) => {
    asked.push(url)
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(url === '/keys' ? { keys: [jwk] } : { issuer, jwks_uri: `${issuer}/keys` }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    issuer,
    env: { OIDC_ISSUER: issuer, OIDC_AUDIENCE: AUDIENCE },
    /** Paths of all requests to the provider. */
    asked,
    /** A token that lasts an hour; a different `key` forges its signature. */
    token(claims: object, header: object = {}, key: KeyObject = privateKey) {
      const all = { iss: issuer, aud: AUDIENCE, exp: Math.floor(Date.now() / 1_000) + 3_600, ...claims }
      return signed({ alg: 'RS256', typ: 'JWT', kid: 'one', ...header }, all, key)
    },
    stop: () => void server.close(),
  }
}

/** Runners and query services are off unless `env` sets them, because authorization is decided before they are called. */
export async function startProService(
  env: Record<string, string> = {},
  licensed: { expires_at?: string; max_users?: number } = {},
): Promise<ProService> {
  const provider = await startProvider()
  const service = await startOwnService({
    ...licensedWith(licensed),
    ...provider.env,
    PLATFORM_API_KEYS: `ci:${KEY}`,
    AUTH_FAILURES: '100000',
    RATE_LIMIT: 'off',
    RUNNER_URLS: 'none',
    QUERY_URLS: 'none',
    ...env,
  })

  const user = (subject: string, claims: object = {}): Caller => ({
    authorization: `Bearer ${provider.token({ sub: subject, ...claims })}`,
  })

  async function ask(caller: Caller, method: string, path: string, body?: object): Promise<Answer> {
    const isForm = body instanceof FormData
    const response = await fetch(service.url + path, {
      method,
      headers: { ...caller, ...(body === undefined || isForm ? {} : { 'content-type': 'application/json' }) },
      body: body === undefined ? undefined : isForm ? body : JSON.stringify(body),
    })
    const type = response.headers.get('content-type') ?? ''
    if (type.startsWith('text/event-stream')) {
      await response.body?.cancel()
      return { status: response.status, text: '', json: undefined }
    }
    const text = await response.text()
    return {
      status: response.status,
      text,
      json: type.includes('json') && text !== '' ? JSON.parse(text) : undefined,
    }
  }

  return {
    url: service.url,
    user,
    root: user('root', { roles: ['admin'] }),
    machine: { 'x-api-key': KEY },
    ask,
    async must(status, caller, method, path, body) {
      const answer = await ask(caller, method, path, body)
      if (answer.status !== status)
        throw new Error(`${method} ${path}: ${answer.status} in place of ${status}: ${answer.text}`)
      return typeof answer.json === 'object' && answer.json !== null ? { ...answer.json } : {}
    },
    stop: async () => {
      await service.stop()
      provider.stop()
    },
  }
}
