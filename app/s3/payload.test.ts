import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import { payloadOf } from './payload.ts'
import { expectedSignature, type Signature, signatureIn, signingKey } from './signature.ts'

// The chunked examples of the Amazon S3 API Reference: 65,536 + 1,024 bytes of `a`.

const SCOPE = '20130524/us-east-1/s3/aws4_request'
const KEY = signingKey('wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY', SCOPE)
const TEXT = 'a'.repeat(66_560)

const signatureWith = (payload: string, value = ''): Signature => ({
  accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
  sessionToken: null,
  date: '20130524T000000Z',
  scope: SCOPE,
  signedHeaders: ['host'],
  payload,
  value,
  expiresSeconds: null,
})

/** The text as a stream of pieces of `size` bytes. */
async function* piecesOf(text: string, size: number) {
  const bytes = Buffer.from(text, 'latin1')
  // One buffer for all pieces, as some runtimes read.
  const buffer = new Uint8Array(size)
  for (let at = 0; at < bytes.length; at += size) {
    const length = bytes.copy(buffer, 0, at, at + size)
    yield buffer.subarray(0, length)
  }
}

interface Sent {
  payload: string
  seed?: string
  headers?: Record<string, string>
  pieceBytes?: number
}

async function received(text: string, { payload, seed, headers = {}, pieceBytes = 1_000 }: Sent) {
  const chunks: Buffer[] = []
  const caller = { signature: signatureWith(payload, seed), signingKey: KEY }
  const body = piecesOf(text, pieceBytes)
  for await (const chunk of payloadOf({ body, headers: new Headers(headers), caller }))
    chunks.push(Buffer.from(chunk))
  return Buffer.concat(chunks).toString('latin1')
}

const refusal = (text: string, sent: Sent) =>
  received(text, sent).then(
    () => 'accepted',
    (error: { s3Code: string }) => error.s3Code,
  )

const SIGNED = {
  payload: 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD',
  seed: '4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9',
}
const signedChunks = [
  `10000;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n${'a'.repeat(65_536)}\r\n`,
  `400;chunk-signature=0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n${'a'.repeat(1_024)}\r\n`,
  '0;chunk-signature=b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n',
]

const TRAILED = {
  payload: 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER',
  seed: '106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e',
  headers: { 'x-amz-trailer': 'x-amz-checksum-crc32c' },
}
const trailedChunks = [
  `10000;chunk-signature=b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2\r\n${'a'.repeat(65_536)}\r\n`,
  `400;chunk-signature=1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7\r\n${'a'.repeat(1_024)}\r\n`,
  '0;chunk-signature=2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992\r\n',
  'x-amz-checksum-crc32c:sOO8/Q==\r\n',
  'x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n',
]

test('the seed signature of the example is that of its headers', () => {
  const headers = new Headers({
    host: 's3.amazonaws.com',
    'x-amz-date': '20130524T000000Z',
    'x-amz-storage-class': 'REDUCED_REDUNDANCY',
    'x-amz-content-sha256': SIGNED.payload,
    'content-encoding': 'aws-chunked',
    'x-amz-decoded-content-length': '66560',
    'content-length': '66824',
  })
  const signed =
    'content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class'
  headers.set(
    'authorization',
    `AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/${SCOPE},SignedHeaders=${signed},Signature=${SIGNED.seed}`,
  )
  const request = { method: 'PUT', path: '/examplebucket/chunkObject.txt', query: '', headers }
  expect(expectedSignature(KEY, request, signatureIn(request))).toBe(SIGNED.seed)
})

test.each([1, 7, 1_000, 100_000])(
  'signed chunks are decoded, with and without trailers, in pieces of %i bytes',
  async (pieceBytes) => {
    expect(await received(signedChunks.join(''), { ...SIGNED, pieceBytes })).toBe(TEXT)
    expect(await received(trailedChunks.join(''), { ...TRAILED, pieceBytes })).toBe(TEXT)
  },
)

test('a changed, lost, repeated or unsigned chunk is refused', async () => {
  const [first = '', second = '', last = ''] = signedChunks
  const changed = (text: string) => `${text.slice(0, 200)}b${text.slice(201)}`
  expect(await refusal(changed(first) + second + last, SIGNED)).toBe('SignatureDoesNotMatch')
  expect(await refusal(first + last, SIGNED)).toBe('SignatureDoesNotMatch')
  expect(await refusal(first + first + second + last, SIGNED)).toBe('SignatureDoesNotMatch')
  expect(await refusal(first + second, SIGNED)).toBe('IncompleteBody')
  expect(await refusal(first.slice(0, 1_000), SIGNED)).toBe('IncompleteBody')
  expect(await refusal('0\r\n\r\n', SIGNED)).toBe('SignatureDoesNotMatch')
  expect(await refusal('', SIGNED)).toBe('IncompleteBody')
  expect(await refusal(`${first}${second}${last}more`, SIGNED)).toBe('IncompleteBody')
  expect(await refusal('x'.repeat(10_000), SIGNED)).toBe('IncompleteBody')
  expect(await refusal('fffffffff;chunk-signature=00\r\n', SIGNED)).toBe('IncompleteBody')
})

test('a changed or missing trailer is refused', async () => {
  const chunks = trailedChunks.join('')
  expect(await refusal(chunks.replace('sOO8', 'sOO9'), TRAILED)).toBe('SignatureDoesNotMatch')
  expect(await refusal(trailedChunks.slice(0, 3).join(''), TRAILED)).toBe('SignatureDoesNotMatch')
  const many = `${trailedChunks.slice(0, 3).join('')}${'a:b\r\n'.repeat(100)}\r\n`
  expect(await refusal(many, TRAILED)).toBe('IncompleteBody')
})

test('a whole body must have the hash that was signed', async () => {
  const hash = createHash('sha256').update(TEXT).digest('hex')
  expect(await received(TEXT, { payload: hash })).toBe(TEXT)
  expect(await received(TEXT, { payload: 'UNSIGNED-PAYLOAD' })).toBe(TEXT)
  expect(await refusal(`${TEXT}a`, { payload: hash })).toBe('XAmzContentSHA256Mismatch')
  expect(await refusal(TEXT, { payload: 'UNSIGNED-PAYLOAD', headers: { 'content-length': '1' } })).toBe(
    'IncompleteBody',
  )
  expect(await refusal(TEXT, { payload: 'STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD' })).toBe('InvalidArgument')
})

const digests = {
  'content-md5': createHash('md5').update(TEXT).digest('base64'),
  'x-amz-checksum-sha1': createHash('sha1').update(TEXT).digest('base64'),
  'x-amz-checksum-sha256': createHash('sha256').update(TEXT).digest('base64'),
  'x-amz-checksum-crc32': Buffer.from(crc32(TEXT).toString(16).padStart(8, '0'), 'hex').toString('base64'),
}

test.each(Object.entries(digests))('the checksum %s is verified', async (name, digest) => {
  const payload = 'UNSIGNED-PAYLOAD'
  expect(await received(TEXT, { payload, headers: { [name]: digest } })).toBe(TEXT)
  expect(await refusal(`${TEXT}a`, { payload, headers: { [name]: digest } })).toBe('BadDigest')
  const trailed = {
    payload: 'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
    headers: { 'x-amz-trailer': name, 'x-amz-decoded-content-length': String(TEXT.length) },
  }
  const chunks = `${TEXT.length.toString(16)}\r\n${TEXT}\r\n0\r\n`
  expect(await received(`${chunks}${name}:${digest}\r\n\r\n`, trailed)).toBe(TEXT)
  expect(await refusal(`${chunks}${name}:AAAA\r\n\r\n`, trailed)).toBe('BadDigest')
  expect(await refusal(`${chunks}\r\n`, trailed)).toBe('BadDigest')
})

test('unsigned chunks are decoded however they are divided', async () => {
  const payload = 'STREAMING-UNSIGNED-PAYLOAD-TRAILER'
  const texts = fc.array(fc.string({ minLength: 1, maxLength: 50, unit: 'binary-ascii' }), { maxLength: 8 })
  await fc.assert(
    fc.asyncProperty(texts, fc.integer({ min: 1, max: 40 }), async (parts, pieceBytes) => {
      const chunks = parts.map((part) => `${part.length.toString(16)}\r\n${part}\r\n`)
      expect(await received(`${chunks.join('')}0\r\n\r\n`, { payload, pieceBytes })).toBe(parts.join(''))
    }),
  )
})
