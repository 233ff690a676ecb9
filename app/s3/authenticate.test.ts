import { expect, test } from 'bun:test'
import { systemClock } from '../core/clock.ts'
import { makeFailures } from '../wire/rate-limit.ts'
import { endpointOf, makeS3Authenticate } from './authenticate.ts'
import { makeCredentials } from './credentials.ts'
import { S3Error } from './errors.ts'
import { expectedSignature, signatureIn, signingKey } from './signature.ts'

const credentials = makeCredentials('a secret', systemClock)
const issued = credentials.issue({
  prefixes: ['_lake/a/'],
  write: null,
  table: { namespace: 'default', layer: 'gold', name: 'a' },
  view: { commit: 1, branch: null },
  principal: { kind: 'anonymous', userId: '', name: '', roles: [] },
})
const SENDER = { address: '192.0.2.1', peer: '192.0.2.1' }

/** A request that was signed for `signedUrl` and arrives at `url`. */
function arrived(signedUrl: string, url: string): Request {
  const { host, pathname } = new URL(signedUrl)
  const date = new Date().toISOString().replace(/[-:]|\.\d+/g, '')
  const scope = `${date.slice(0, 8)}/us-east-1/s3/aws4_request`
  const headers = new Headers({
    host,
    'x-amz-date': date,
    'x-amz-content-sha256': 'UNSIGNED-PAYLOAD',
    'x-amz-security-token': issued.sessionToken,
  })
  const authorize = (value: string) =>
    headers.set(
      'authorization',
      `AWS4-HMAC-SHA256 Credential=${issued.accessKeyId}/${scope}, SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, Signature=${value}`,
    )
  authorize('0')
  const request = { method: 'GET', path: pathname, query: '', headers }
  authorize(expectedSignature(signingKey(issued.secretAccessKey, scope), request, signatureIn(request)))
  headers.set('host', new URL(url).host)
  return new Request(url, { headers })
}

function authenticateWith(shownUrl: string | null, authFailures: number | null = null) {
  const authenticate = makeS3Authenticate({
    credentials,
    clock: systemClock,
    failures: makeFailures({ authFailures }, systemClock),
    shownUrl,
    admits: () => true,
  })
  return (request: Request) => {
    const found = authenticate(request, SENDER)
    return found instanceof S3Error ? found.s3Code : found.kind
  }
}

test('a signature for the public address is valid behind a proxy', () => {
  const shown = 'https://data.example.org/base'
  for (const path of ['/s3/sluice/_lake/a/b', '/sluice/_lake/a/b']) {
    const request = endpointOf(arrived(`${shown}${path}`, `http://10.0.0.1:8080${path}`), 'sluice')
    expect(authenticateWith(shown)(request)).toBe('anonymous')
    expect(authenticateWith(null)(request)).toBe('SignatureDoesNotMatch')
    expect(authenticateWith('https://other.example.org/base')(request)).toBe('SignatureDoesNotMatch')
  }
})

test('an address that begins with the bucket moves to the endpoint', () => {
  const moved = (url: string, bucket = 'sluice') => endpointOf(new Request(url), bucket).url
  expect(moved('http://a/sluice/_lake/x?list-type=2')).toBe('http://localhost/s3/sluice/_lake/x?list-type=2')
  expect(moved('http://sluice/sluice')).toBe('http://localhost/s3/sluice')
  for (const url of ['http://a/sluices/x', 'http://a/s3/sluice/x', 'http://a/']) expect(moved(url)).toBe(url)
  expect(moved('http://a/iceberg/v1/config', 'iceberg')).toBe('http://a/iceberg/v1/config')
})

test('forged signatures are counted, and a correct one is still accepted', () => {
  const url = 'http://a/s3/sluice/_lake/a/b'
  const authenticate = authenticateWith(null, 2)
  const forged = () => authenticate(arrived('http://a/s3/sluice/_lake/a/c', url))
  expect([forged(), forged(), forged()]).toEqual([
    'SignatureDoesNotMatch',
    'SignatureDoesNotMatch',
    'SlowDown',
  ])
  expect(authenticate(arrived(url, url))).toBe('anonymous')
})
