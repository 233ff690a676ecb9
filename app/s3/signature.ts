// Signature Version 4, the server's half: which signature a request carries, and which it should carry.
// Source: Amazon S3 API Reference, "Authenticating Requests (AWS Signature Version 4)". Why not a library: ADR 45.
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { S3Error } from './errors.ts'

const ALGORITHM = 'AWS4-HMAC-SHA256'
export const UNSIGNED_PAYLOAD = 'UNSIGNED-PAYLOAD'
/** Longest lifetime of a presigned address; the limit of S3. Its credentials end earlier. */
const PRESIGNED_SECONDS_MAX = 604_800
/** Difference of the clocks of client and server that S3 accepts. */
const SKEW_MS = 900_000

/** The parts of a request that a signature covers. Path and query are raw, without the question mark. */
export interface SignedRequest {
  method: string
  path: string
  query: string
  headers: Headers
}

/** The signature that a request carries. */
export interface Signature {
  accessKeyId: string
  sessionToken: string | null
  /** `YYYYMMDD'T'HHMMSS'Z'` */
  date: string
  /** `<day>/<region>/s3/aws4_request` */
  scope: string
  /** Sorted, in lower case. */
  signedHeaders: readonly string[]
  /** The hash of the body, or the name of the way in which the body is signed. */
  payload: string
  /** Lower-case hexadecimal digits. */
  value: string
  /** The lifetime of a presigned address; null: the signature is in the header. */
  expiresSeconds: number | null
}

/** The signature of a request. Throws the error of S3 for a request without a complete one. */
export function signatureIn({ headers, query }: SignedRequest): Signature {
  const parameters = pairsOf(query)
  const parameter = (name: string) => parameters.find(([key]) => key === name)?.[1] ?? null
  const authorization = headers.get('authorization')
  if (parameter('X-Amz-Algorithm') !== null) {
    if (authorization !== null)
      throw new S3Error('InvalidArgument', 'Only one auth mechanism allowed: sign by header or by query.')
    return withSignedHeaders(presignedIn(parameter), headers)
  }
  if (authorization === null) throw new S3Error('AccessDenied', 'Access Denied: the request is not signed.')
  return withSignedHeaders(headerSignatureIn(authorization, headers), headers)
}

/** Every header that S3 gives a meaning must be signed. */
function withSignedHeaders(signature: Signature, headers: Headers): Signature {
  const { signedHeaders } = signature
  const unsigned = [...headers.keys()].find(
    (name) => name.startsWith('x-amz-') && !signedHeaders.includes(name),
  )
  if (unsigned !== undefined || !signedHeaders.includes('host'))
    throw new S3Error(
      'AccessDenied',
      `There were headers present in the request which were not signed: ${unsigned ?? 'host'}`,
    )
  return signature
}

function headerSignatureIn(authorization: string, headers: Headers): Signature {
  const [, fields] = /^AWS4-HMAC-SHA256\s+(.+)$/.exec(authorization) ?? []
  const field = (name: string) => new RegExp(`(?:^|[,\\s])${name}=([^,\\s]+)`).exec(fields ?? '')?.[1]
  const [credential, signedHeaders, value] = ['Credential', 'SignedHeaders', 'Signature'].map(field)
  if (!credential || !signedHeaders || !value)
    throw new S3Error(
      'AuthorizationHeaderMalformed',
      `The authorization header is malformed: ${ALGORITHM} with Credential, SignedHeaders and Signature is expected.`,
    )
  const payload = headers.get('x-amz-content-sha256')
  if (payload === null)
    throw new S3Error('InvalidRequest', 'Missing required header for this request: x-amz-content-sha256')
  return {
    ...scopeOf(credential, 'AuthorizationHeaderMalformed'),
    sessionToken: headers.get('x-amz-security-token'),
    date: dateOf(headers.get('x-amz-date')),
    signedHeaders: signedHeaders.split(';'),
    payload,
    value,
    expiresSeconds: null,
  }
}

function presignedIn(parameter: (name: string) => string | null): Signature {
  const badQuery = (why: string) => new S3Error('AuthorizationQueryParametersError', why)
  if (parameter('X-Amz-Algorithm') !== ALGORITHM)
    throw badQuery(`X-Amz-Algorithm only supports "${ALGORITHM}"`)
  const [credential, names, value, expires] = ['Credential', 'SignedHeaders', 'Signature', 'Expires'].map(
    (name) => parameter(`X-Amz-${name}`),
  )
  if (!credential || !names || !value || !expires)
    throw badQuery(
      'Query-string authentication requires X-Amz-Credential, -SignedHeaders, -Signature, -Expires',
    )
  const expiresSeconds = Number(expires)
  if (!/^\d{1,6}$/.test(expires) || expiresSeconds > PRESIGNED_SECONDS_MAX)
    throw badQuery(`X-Amz-Expires must be a number from 0 to ${PRESIGNED_SECONDS_MAX}`)
  const signedHeaders = names.split(';')
  if (!signedHeaders.includes('host')) throw badQuery('X-Amz-SignedHeaders must name host')
  return {
    ...scopeOf(credential, 'AuthorizationQueryParametersError'),
    sessionToken: parameter('X-Amz-Security-Token'),
    date: dateOf(parameter('X-Amz-Date')),
    signedHeaders,
    payload: parameter('X-Amz-Content-Sha256') ?? UNSIGNED_PAYLOAD,
    value,
    expiresSeconds,
  }
}

/** Any region is accepted, because clients must name one and this service has none. */
function scopeOf(
  credential: string,
  code: 'AuthorizationHeaderMalformed' | 'AuthorizationQueryParametersError',
) {
  const [, accessKeyId, scope] = /^([\w-]+)\/(\d{8}\/[\w-]+\/s3\/aws4_request)$/.exec(credential) ?? []
  if (accessKeyId === undefined || scope === undefined)
    throw new S3Error(code, 'The credential must be <key id>/<YYYYMMDD>/<region>/s3/aws4_request.')
  return { accessKeyId, scope }
}

function dateOf(text: string | null): string {
  if (text === null || !/^\d{8}T\d{6}Z$/.test(text))
    throw new S3Error('AccessDenied', 'AWS authentication requires a valid X-Amz-Date')
  return text
}

/** Throws RequestTimeTooSkewed, or AccessDenied for an expired address. */
export function checkTime({ date, scope, expiresSeconds }: Signature, now: Date): void {
  const at = Date.parse(date.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'))
  const ageMs = now.getTime() - at
  if (expiresSeconds !== null && ageMs > expiresSeconds * 1_000)
    throw new S3Error('AccessDenied', 'Request has expired')
  const isSkewed = Number.isNaN(at) || ageMs < -SKEW_MS || (expiresSeconds === null && ageMs > SKEW_MS)
  if (isSkewed)
    throw new S3Error(
      'RequestTimeTooSkewed',
      'The difference between the request time and the current time is too large.',
    )
  if (!scope.startsWith(date.slice(0, 8)))
    throw new S3Error('SignatureDoesNotMatch', 'The day of the credential is not the day of X-Amz-Date.')
}

/** The key that signs requests of one day, region and service. */
export const signingKey = (secretAccessKey: string, scope: string): Buffer =>
  scope
    .split('/')
    .reduce<Buffer>((key, part) => hmac(key, part), Buffer.from(`AWS4${secretAccessKey}`, 'utf8'))

/** The signature that the request should carry, in hexadecimal digits. */
export function expectedSignature(key: Buffer, request: SignedRequest, signature: Signature): string {
  const { date, scope } = signature
  const canonical = sha256(canonicalRequest(request, signature))
  return hmac(key, [ALGORITHM, date, scope, canonical].join('\n')).toString('hex')
}

/** Compares hexadecimal signatures in constant time. */
export function isSameSignature(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length === b.length && timingSafeEqual(a, b)
}

function canonicalRequest(
  { method, path, query, headers }: SignedRequest,
  { signedHeaders, payload, expiresSeconds }: Signature,
): string {
  const values = signedHeaders.map((name) => `${name}:${plain(headers.get(name) ?? '')}\n`)
  return [
    method,
    path
      .split('/')
      .map((segment) => encoded(decoded(segment)))
      .join('/'),
    canonicalQuery(query, expiresSeconds !== null),
    values.join(''),
    signedHeaders.join(';'),
    payload,
  ].join('\n')
}

const plain = (value: string) => value.trim().replaceAll(/\s+/g, ' ')

function canonicalQuery(query: string, isPresigned: boolean): string {
  return pairsOf(query)
    .filter(([name]) => !(isPresigned && name === 'X-Amz-Signature'))
    .map(([name, value]) => `${encoded(name)}=${encoded(value)}`)
    .sort(byCharacters)
    .join('&')
}

/** Sorts by name, then by value. All characters are ASCII; `=` is greater than the digits that may follow in a longer name. */
function byCharacters(one: string, other: string): number {
  const [a, b] = [one.replace('=', '\0'), other.replace('=', '\0')]
  return a < b ? -1 : a > b ? 1 : 0
}

/** The decoded names and values of a raw query. */
export function pairsOf(query: string): [string, string][] {
  if (query === '') return []
  return query.split('&').map((pair) => {
    const at = pair.indexOf('=')
    return at === -1 ? [decoded(pair), ''] : [decoded(pair.slice(0, at)), decoded(pair.slice(at + 1))]
  })
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new S3Error('InvalidURI', 'The percent-encoding of the address is not valid.')
  }
}

/** `UriEncode` of the specification: only unreserved characters stay. */
export const encoded = (text: string): string =>
  encodeURIComponent(text.toWellFormed()).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )

export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
export const hmac = (key: Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest()
