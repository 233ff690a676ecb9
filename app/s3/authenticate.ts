// Finds the caller of an S3 request by its signature.

import type { Clock } from '../core/clock.ts'
import { type Identity, WORK } from '../core/identity.ts'
import type { Sender } from '../wire/client-address.ts'
import type { Failures } from '../wire/rate-limit.ts'
import { targetOf } from '../wire/target.ts'
import { type CredentialIssuer, type Grant, type TableGrant, unknownKey } from './credentials.ts'
import { S3Error } from './errors.ts'
import {
  checkTime,
  expectedSignature,
  isSameSignature,
  type Signature,
  type SignedRequest,
  signatureIn,
  signingKey,
} from './signature.ts'

const PREFIX = '/s3'

/** First segments of other addresses of the service. A bucket with such a name has no address of its own. */
const TAKEN = ['api', 'catalog', 'health', 'iceberg', 'inspector', 'lake', 'metrics', 'swagger']

/**
 * Some clients know no endpoint below a path, such as ClickHouse: for them the address begins with the bucket. The request moves
 * to the endpoint, where all rules for S3 apply.
 */
export function endpointOf(request: Request, bucket: string): Request {
  const { path, query } = targetOf(request.url)
  const hasBucket = path === `/${bucket}` || path.startsWith(`/${bucket}/`)
  if (!hasBucket || TAKEN.includes(bucket)) return request
  return new Request(`http://localhost${PREFIX}${path}${query && `?${query}`}`, request)
}

/** Whether S3 clients use this path. */
export const isS3Path = (path: string) => path === PREFIX || path.startsWith(`${PREFIX}/`)

/** The holder of credentials, who has rights of their own beside those of the grant. */
export interface S3Caller extends Identity {
  grant: Grant
  signature: Signature
  /** Signs the chunks of the body. */
  signingKey: Buffer
}

export const isS3Caller = (identity: Identity | null): identity is S3Caller =>
  identity !== null && 'grant' in identity

interface AuthenticateDeps {
  credentials: CredentialIssuer
  clock: Clock
  /** Limits of forged signatures; null: no limit. */
  failures: Failures | null
  /** The address that clients are given; null: the address that the client itself used. */
  shownUrl: string | null
  /** Whether such callers still exist, such as an API key that was removed. */
  admits(principal: TableGrant['principal']): boolean
}

export function makeS3Authenticate({ credentials, clock, failures, shownUrl, admits }: AuthenticateDeps) {
  return (request: Request, sender: Sender): S3Caller | S3Error => {
    try {
      return callerOf(request)
    } catch (error) {
      if (!(error instanceof S3Error)) throw error
      return isForgery(error) && isTooOften(sender)
        ? new S3Error('SlowDown', 'Too many wrong signatures from this address.')
        : error
    }
  }

  function callerOf({ method, url, headers }: Request): S3Caller {
    const signed: SignedRequest = { method, headers, ...targetOf(url) }
    const signature = signatureIn(signed)
    const { accessKeyId, sessionToken } = signature
    // All credentials are temporary, so a key without a token is unknown.
    if (sessionToken === null) throw unknownKey()
    const { grant, secretAccessKey } = credentials.open(accessKeyId, sessionToken)
    const key = signingKey(secretAccessKey, signature.scope)
    if (!formsOf(signed, shownUrl).some((form) => isSigned(key, form, signature)))
      throw new S3Error(
        'SignatureDoesNotMatch',
        'The request signature we calculated does not match the signature you provided.',
      )
    credentials.checkUnexpired(grant)
    checkTime(signature, clock.now())
    const caller = { grant, signature, signingKey: key }
    if ('work' in grant) return { ...WORK, ...caller }
    if (!admits(grant.principal))
      throw new S3Error('InvalidToken', 'The caller of these credentials no longer exists.')
    return { ...grant.principal, ...caller }
  }

  /** Counts a forgery. A correct signature is always accepted, because it cannot be guessed. */
  function isTooOften(sender: Sender): boolean {
    const allowed = failures?.consume(sender)
    return allowed !== undefined && allowed.retryAfterSeconds > 0
  }
}

const isForgery = ({ s3Code }: S3Error) =>
  s3Code === 'InvalidToken' || s3Code === 'InvalidAccessKeyId' || s3Code === 'SignatureDoesNotMatch'

const isSigned = (key: Buffer, request: SignedRequest, signature: Signature) =>
  isSameSignature(expectedSignature(key, request, signature), signature.value)

/**
 * The request as the client may have signed it. Its address may have begun with the bucket. A reverse proxy may change the host,
 * and may remove a prefix of the path.
 */
function formsOf(request: SignedRequest, shownUrl: string | null): SignedRequest[] {
  const forms = [request, { ...request, path: request.path.slice(PREFIX.length) }]
  if (shownUrl === null) return forms
  const { host, pathname } = new URL(shownUrl)
  const headers = new Headers(request.headers)
  headers.set('host', host)
  const base = pathname.replace(/\/$/, '')
  return [...forms, ...forms.map((form) => ({ ...form, path: `${base}${form.path}`, headers }))]
}
