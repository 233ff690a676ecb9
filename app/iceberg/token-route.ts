// OAuth2 client credentials for Iceberg clients that cannot send a fixed credential. Source: RFC 6749, section 4.4.
import { Elysia } from 'elysia'
import { AppError } from '../core/errors.ts'
import type { Authenticate } from '../http/auth.ts'
import { exchangeOf } from '../http/exchange.ts'
import { bodyOf } from './requests.ts'

/** The form field that holds the credential, by grant type. Clients exchange a token for a newer one. */
const CREDENTIAL_OF = new Map([
  ['client_credentials', 'client_secret'],
  ['urn:ietf:params:oauth:grant-type:token-exchange', 'subject_token'],
])

/** The access token is the API key itself, so a removed key is refused at once. */
export const tokenRoute = (authenticate: Authenticate) =>
  new Elysia({ prefix: '/iceberg/v1/oauth', detail: { hide: true } }).post(
    '/tokens',
    async ({ request }) => {
      const form = new URLSearchParams(await bodyOf(request))
      const field = CREDENTIAL_OF.get(form.get('grant_type') ?? '')
      if (field === undefined)
        return refused(400, 'unsupported_grant_type', 'grant_type: must be client_credentials')
      const secret = form.get(field) ?? basicSecretIn(request.headers) ?? ''
      const identity = await authenticate(withBearer(request.url, secret), exchangeOf(request).sender)
      if (identity instanceof AppError) {
        if (identity.status !== 401) throw identity
        return refused(401, 'invalid_client', `${field}: is not a valid API key of Sluice`)
      }
      return answer(200, {
        access_token: secret || 'none',
        token_type: 'bearer',
        issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      })
    },
    { parse: 'none' },
  )

/** The error format of RFC 6749, section 5.2. */
const refused = (status: number, error: string, error_description: string) =>
  answer(status, { error, error_description })

const answer = (status: number, body: object) =>
  Response.json(body, { status, headers: { 'cache-control': 'no-store' } })

const withBearer = (url: string, secret: string) =>
  new Request(url, { headers: /^[\x21-\x7e]+$/.test(secret) ? { authorization: `Bearer ${secret}` } : {} })

/** The password of the header `Authorization: Basic`, as RFC 6749 section 2.3.1 encodes it. */
function basicSecretIn(headers: Headers): string | null {
  const encoded = /^basic +(\S+) *$/i.exec(headers.get('authorization') ?? '')?.[1]
  if (encoded === undefined) return null
  const text = Buffer.from(encoded, 'base64').toString()
  const password = text.slice(text.indexOf(':') + 1)
  return new URLSearchParams(`value=${password}`).get('value')
}
