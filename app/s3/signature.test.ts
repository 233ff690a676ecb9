import { expect, test } from 'bun:test'
import {
  checkTime,
  expectedSignature,
  type Signature,
  type SignedRequest,
  signatureIn,
  signingKey,
} from './signature.ts'

// The examples of the Amazon S3 API Reference, "Authenticating Requests (AWS Signature Version 4)".

const SECRET = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'
const EMPTY = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
const SCOPE = '20130524/us-east-1/s3/aws4_request'

interface Example {
  title: string
  method?: string
  path?: string
  query?: string
  headers?: Record<string, string>
  signed: string
  payload?: string
  signature: string
}

const examples: Example[] = [
  {
    title: 'GET of a range',
    path: '/test.txt',
    headers: { range: 'bytes=0-9' },
    signed: 'host;range;x-amz-content-sha256;x-amz-date',
    signature: 'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
  },
  {
    title: 'PUT of a key with a special character',
    method: 'PUT',
    path: '/test$file.text',
    headers: { date: 'Fri, 24 May 2013 00:00:00 GMT', 'x-amz-storage-class': 'REDUCED_REDUNDANCY' },
    signed: 'date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class',
    payload: '44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072',
    signature: '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
  },
  {
    title: 'a parameter without a value',
    query: 'lifecycle',
    signed: 'host;x-amz-content-sha256;x-amz-date',
    signature: 'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
  },
  {
    title: 'a list',
    query: 'max-keys=2&prefix=J',
    signed: 'host;x-amz-content-sha256;x-amz-date',
    signature: '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
  },
]

test.each(examples)('the signature of $title is that of the specification', (example) => {
  const { method = 'GET', path = '/', query = '', headers = {}, signed, payload = EMPTY, signature } = example
  const request: SignedRequest = {
    method,
    path,
    query,
    headers: new Headers({
      host: 'examplebucket.s3.amazonaws.com',
      'x-amz-content-sha256': payload,
      'x-amz-date': '20130524T000000Z',
      authorization: `AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/${SCOPE},SignedHeaders=${signed},Signature=${signature}`,
      ...headers,
    }),
  }
  const found = signatureIn(request)
  expect(found).toMatchObject({ accessKeyId: 'AKIAIOSFODNN7EXAMPLE', scope: SCOPE, value: signature })
  expect(expectedSignature(signingKey(SECRET, SCOPE), request, found)).toBe(signature)
  expect(expectedSignature(signingKey('other', SCOPE), request, found)).not.toBe(signature)
})

const PRESIGNED =
  `X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request` +
  '&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host' +
  '&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404'
const presigned = (query = PRESIGNED): SignedRequest => ({
  method: 'GET',
  path: '/test.txt',
  query,
  headers: new Headers({ host: 'examplebucket.s3.amazonaws.com' }),
})

test('the signature of a presigned address is that of the specification', () => {
  const found = signatureIn(presigned())
  expect(expectedSignature(signingKey(SECRET, SCOPE), presigned(), found)).toBe(found.value)
})

test('a presigned address is valid for its method, path, host and signed headers only', () => {
  const query = PRESIGNED.replace('=host', '=content-length%3Bhost')
  const put = (change: Partial<SignedRequest> = {}, headers: Record<string, string> = {}): SignedRequest => ({
    ...presigned(query),
    method: 'PUT',
    ...change,
    headers: new Headers({ host: 'a', 'content-length': '3', ...headers }),
  })
  const key = signingKey(SECRET, SCOPE)
  const signatureOf = (request: SignedRequest) => expectedSignature(key, request, signatureIn(request))
  const valid = signatureOf(put())
  expect(signatureOf(put({}, { range: 'bytes=0-3' }))).toBe(valid)
  for (const other of [
    ...['GET', 'HEAD', 'POST', 'DELETE'].map((method) => put({ method })),
    put({ path: '/test.txt/' }),
    put({ query: `${query}&versionId=1` }),
    put({}, { host: 'b' }),
    put({}, { 'content-length': '4' }),
  ])
    expect(signatureOf(other)).not.toBe(valid)
  for (const name of ['x-amz-copy-source', 'x-amz-acl', 'x-amz-content-sha256'])
    expect(() => signatureOf(put({}, { [name]: 'a' }))).toThrow('not signed')
})

test('a presigned address is valid from fifteen minutes before its time until its end', () => {
  const found = signatureIn(presigned())
  const at = (text: string) => () => checkTime(found, new Date(text))
  at('2013-05-23T23:46:00Z')()
  at('2013-05-24T23:59:59Z')()
  expect(at('2013-05-23T23:44:00Z')).toThrow('difference between the request time')
  expect(at('2013-05-25T00:00:01Z')).toThrow('Request has expired')
})

test('a request is valid for fifteen minutes around its time', () => {
  const found: Signature = { ...signatureIn(presigned()), expiresSeconds: null }
  for (const minutes of [-15, 0, 15]) checkTime(found, new Date(Date.UTC(2013, 4, 24, 0, minutes)))
  for (const minutes of [-16, 16, 60 * 24 * 365])
    expect(() => checkTime(found, new Date(Date.UTC(2013, 4, 24, 0, minutes)))).toThrow('too large')
  expect(() =>
    checkTime({ ...found, scope: SCOPE.replace('24', '23') }, new Date(Date.UTC(2013, 4, 24))),
  ).toThrow('day of the credential')
})

const HEADER = `AWS4-HMAC-SHA256 Credential=A/${SCOPE}, SignedHeaders=host;x-amz-date;x-amz-content-sha256, Signature=00`

test.each([
  ['AccessDenied', {}, ''],
  ['AuthorizationHeaderMalformed', { authorization: 'AWS AKIA:signature' }, ''],
  ['AuthorizationHeaderMalformed', { authorization: 'Bearer x' }, ''],
  ['AuthorizationHeaderMalformed', { authorization: HEADER.replace('Signature', 'Sign') }, ''],
  ['InvalidRequest', { authorization: HEADER }, ''],
  ['AccessDenied', { authorization: HEADER, 'x-amz-content-sha256': EMPTY }, ''],
  ['AccessDenied', { authorization: HEADER, 'x-amz-content-sha256': EMPTY, 'x-amz-date': '2013-05-24' }, ''],
  [
    'AccessDenied',
    {
      authorization: HEADER,
      'x-amz-content-sha256': EMPTY,
      'x-amz-date': '20130524T000000Z',
      'x-amz-acl': 'public',
    },
    '',
  ],
  [
    'AccessDenied',
    {
      authorization: HEADER.replace('host;', ''),
      'x-amz-content-sha256': EMPTY,
      'x-amz-date': '20130524T000000Z',
    },
    '',
  ],
  ['InvalidArgument', { authorization: HEADER }, PRESIGNED],
  ['AuthorizationQueryParametersError', {}, PRESIGNED.replace('SHA256', 'SHA1')],
  ['AuthorizationQueryParametersError', {}, PRESIGNED.replace('=86400', '=604801')],
  ['AuthorizationQueryParametersError', {}, PRESIGNED.replace('=86400', '=-1')],
  ['AuthorizationQueryParametersError', {}, PRESIGNED.replace('&X-Amz-Expires=86400', '')],
  ['AuthorizationQueryParametersError', {}, PRESIGNED.replace('=host', '=range')],
  ['AuthorizationQueryParametersError', {}, PRESIGNED.replace('%2Fs3%2F', '%2Fsts%2F')],
  ['InvalidURI', {}, 'X-Amz-Algorithm=%zz'],
])('an incomplete signature is refused with %s (%j)', (s3Code, headers, query) => {
  const request = {
    method: 'GET',
    path: '/',
    query,
    headers: new Headers({ host: 'a', ...(headers as Record<string, string>) }),
  }
  expect(() => signatureIn(request)).toThrow(expect.objectContaining({ s3Code }))
})
