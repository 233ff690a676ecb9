// A small S3 endpoint for the files of the lake, path style. S3 has one address for many operations: the query says which.
// Source: Amazon S3 API Reference.
import { Elysia } from 'elysia'
import type { Access } from '../core/access.ts'
import { clientHasVersion, entityTag, preconditionOf } from '../http/conditions.ts'
import { exchangeOf } from '../http/exchange.ts'
import type { ObjectInfo } from '../objects/port.ts'
import { decodePath, targetOf } from '../wire/target.ts'
import { isS3Caller, type S3Caller } from './authenticate.ts'
import { REGION } from './credentials.ts'
import { accessDenied, type RefusedRequest, refusalWith, S3Error, s3Failure } from './errors.ts'
import { entityTagOf } from './files.ts'
import { listing } from './listing.ts'
import { payloadOf } from './payload.ts'
import { rangeOf } from './range.ts'
import type { S3Service } from './service.ts'
import { pairsOf } from './signature.ts'
import { keysToDelete, uploadParts } from './upload-parts.ts'
import { document, element, type Markup, xmlResponse } from './xml.ts'

export type S3Parts = Pick<S3Service, 'files' | 'writes' | 'bucket' | 'log'>

/** Parameters that sign or name a request, or that change headers of its answer. They change no operation. */
const NEUTRAL = /^(x-id|x-amz-[\w-]+|response-[\w-]+)$/i
const LIST_PARAMETERS = [
  'list-type',
  'prefix',
  'delimiter',
  'max-keys',
  'marker',
  'continuation-token',
  'start-after',
  'encoding-type',
  'fetch-owner',
]

/** Parts of one list; the limit of S3. */
const PARTS_PAGE = 1_000

export const s3Routes = (parts: S3Parts) =>
  new Elysia({ prefix: '/s3', detail: { hide: true } })
    .onError(({ error, request }) => s3Failure(error, refusedRequest(request), parts.log))
    .get('/:bucket', ({ request }) => bucketResponse(callIn(request, parts), parts))
    .get('/:bucket/*', async ({ request }) => {
      const call = callIn(request, parts)
      return call.key === '' ? await bucketResponse(call, parts) : await objectResponse(call, parts)
    })
    .put('/:bucket/*', ({ request }) => putResponse(callIn(request, parts), parts), { parse: 'none' })
    .post('/:bucket', ({ request }) => bucketPost(callIn(request, parts), parts), { parse: 'none' })
    .post('/:bucket/*', ({ request }) => uploadResponse(callIn(request, parts), parts), { parse: 'none' })
    .delete('/:bucket/*', ({ request }) => deleteResponse(callIn(request, parts), parts), { parse: 'none' })

interface Call {
  request: Request
  caller: S3Caller
  access: Access
  /** The key of the object; empty for the bucket itself. */
  key: string
  /** Parameters of the query, without those that change no operation. */
  parameters: ReadonlyMap<string, string>
}

/** The caller, the key and the parameters of a request. Throws NoSuchBucket for any other bucket than the lake's. */
function callIn(request: Request, { bucket }: S3Parts): Call {
  const { identity, access } = exchangeOf(request)
  if (!isS3Caller(identity)) throw accessDenied()
  const { path, query } = targetOf(request.url)
  const [, , named = '', ...rest] = path.split('/')
  if (decodePath(named) !== bucket) throw new S3Error('NoSuchBucket', 'The specified bucket does not exist')
  return {
    request,
    caller: identity,
    access,
    key: decodePath(rest.join('/')),
    parameters: new Map(pairsOf(query).filter(([name]) => !NEUTRAL.test(name))),
  }
}

async function bucketResponse(
  { request, caller, access, parameters }: Call,
  { files, bucket }: S3Parts,
): Promise<Response> {
  checkParameters(parameters, ['location', ...LIST_PARAMETERS])
  if (exchangeOf(request).isHead) return new Response(null, { headers: { 'x-amz-bucket-region': REGION } })
  // The region us-east-1 has this empty answer.
  if (parameters.has('location')) return xmlResponse(document('LocationConstraint', ''))
  const parameter = (name: string) => parameters.get(name) ?? null
  const prefix = parameter('prefix') ?? ''
  const list = await files.lister(caller, access, prefix)
  return xmlResponse(await listing(list, prefix, { parameter, bucket }))
}

async function objectResponse(call: Call, parts: S3Parts): Promise<Response> {
  const { request, caller, access, key, parameters } = call
  const { files } = parts
  const uploadId = parameters.get('uploadId')
  if (uploadId !== undefined) return partsResponse(call, uploadId, parts)
  checkParameters(parameters, [])
  const { headers } = request
  const { isHead } = exchangeOf(request)
  const info = await files.describe(caller, access, key)
  const etag = entityTagOf(info.object.key + (info.object.version ?? ''), info.size)
  const shown = { ...headersOf(info, etag), ...idOf(request) }
  const [required, known] = [headers.get('if-match'), headers.get('if-none-match')]
  if (required !== null && preconditionOf({ 'if-match': required })?.(etag) === false)
    throw new S3Error('PreconditionFailed', 'At least one of the pre-conditions you specified did not hold')
  if (known !== null && clientHasVersion({ 'if-none-match': known }, etag))
    return new Response(null, { status: 304, headers: shown })
  const range = rangeOf(headers.get('range'), info.size)
  if (range === 'unsatisfiable')
    return refusalWith('InvalidRange', 'The requested range is not satisfiable', 416, {
      ...refusedRequest(request),
      headers: { 'content-range': `bytes */${info.size}` },
    })
  const { start, end } = range ?? { start: 0, end: info.size }
  const part = {
    ...shown,
    'content-length': String(end - start),
    ...(range !== null && { 'content-range': `bytes ${start}-${end - 1}/${info.size}` }),
  }
  const status = range === null ? 200 : 206
  if (isHead) return new Response(null, { status, headers: part })
  const { body } = await files.read(info.object, range ?? undefined)
  return new Response(body, { status, headers: part })
}

/** The parts of an incomplete upload. */
async function partsResponse(
  { request, caller, access, key, parameters }: Call,
  uploadId: string,
  { writes, bucket }: S3Parts,
): Promise<Response> {
  checkParameters(parameters, ['uploadId', 'max-parts', 'part-number-marker'])
  const after = Number(parameters.get('part-number-marker') ?? 0)
  const arrived = (await writes.parts(caller, access, key, uploadId)).filter(({ number }) => number > after)
  const page = arrived.slice(0, PARTS_PAGE)
  const next = page.length < arrived.length ? page.at(-1) : undefined
  return answer(
    request,
    document('ListPartsResult', [
      element('Bucket', bucket),
      element('Key', key),
      element('UploadId', uploadId),
      element('MaxParts', PARTS_PAGE),
      element('IsTruncated', next !== undefined),
      ...(next === undefined ? [] : [element('NextPartNumberMarker', next.number)]),
      ...page.map(({ number, modified, etag, size }) =>
        element('Part', [
          element('PartNumber', number),
          element('LastModified', modified.toISOString()),
          element('ETag', entityTag(etag)),
          element('Size', size),
        ]),
      ),
    ]),
  )
}

/** A new file, or a part of one. */
async function putResponse({ request, caller, access, key, parameters }: Call, { writes }: S3Parts) {
  if (request.headers.has('x-amz-copy-source'))
    throw new S3Error('NotImplemented', 'Copying objects is not implemented')
  const uploadId = parameters.get('uploadId')
  checkParameters(parameters, uploadId === undefined ? [] : ['uploadId', 'partNumber'])
  const body = payloadOf({ body: request.body, headers: request.headers, caller })
  const etag =
    uploadId === undefined
      ? await writes.put(caller, access, key, body)
      : await writes.addPart(
          caller,
          access,
          { key, uploadId, number: parameters.get('partNumber') ?? '' },
          body,
        )
  return new Response(null, { headers: { ...idOf(request), etag: entityTag(etag) } })
}

/** Begins or completes an upload in parts. */
async function uploadResponse(call: Call, { writes, bucket }: S3Parts) {
  const { request, caller, access, key, parameters } = call
  if (key === '') return bucketPost(call, { writes })
  const uploadId = parameters.get('uploadId')
  checkParameters(parameters, [uploadId === undefined ? 'uploads' : 'uploadId'])
  if (uploadId === undefined && !parameters.has('uploads'))
    throw new S3Error('NotImplemented', 'Forms are not implemented')
  const body = payloadOf({ body: request.body, headers: request.headers, caller })
  const names = [element('Bucket', bucket), element('Key', key)]
  if (uploadId === undefined) {
    await uploadParts(body, false)
    const begun = await writes.begin(caller, access, key)
    return answer(request, document('InitiateMultipartUploadResult', [...names, element('UploadId', begun)]))
  }
  const named = await uploadParts(body, true)
  const etag = await writes.complete(caller, access, { key, uploadId, named })
  const shown = [element('Location', targetOf(request.url).path), ...names, element('ETag', entityTag(etag))]
  return answer(request, document('CompleteMultipartUploadResult', shown))
}

/** Removes a file that no commit names, or ends an upload. */
async function deleteResponse({ request, caller, access, key, parameters }: Call, { writes }: S3Parts) {
  const uploadId = parameters.get('uploadId')
  checkParameters(parameters, ['uploadId'])
  if (uploadId === undefined) await writes.remove(caller, access, key)
  else await writes.abort(caller, access, key, uploadId)
  return new Response(null, { status: 204, headers: idOf(request) })
}

/** DeleteObjects: each key has its own outcome. */
async function bucketPost(
  { request, caller, access, parameters }: Call,
  { writes }: Pick<S3Parts, 'writes'>,
) {
  if (!parameters.has('delete')) throw new S3Error('NotImplemented', 'Forms are not implemented')
  checkParameters(parameters, ['delete'])
  const { keys, isQuiet } = await keysToDelete(
    payloadOf({ body: request.body, headers: request.headers, caller }),
  )
  const outcomes: Markup[] = []
  for (const key of keys) {
    const refusal = await refusalOf(() => writes.remove(caller, access, key))
    if (refusal !== null)
      outcomes.push(
        element('Error', [
          element('Key', key),
          element('Code', refusal.s3Code),
          element('Message', refusal.message),
        ]),
      )
    else if (!isQuiet) outcomes.push(element('Deleted', [element('Key', key)]))
  }
  return answer(request, document('DeleteResult', outcomes))
}

/** The refusal of one key; null: it was performed. */
async function refusalOf(work: () => Promise<void>): Promise<S3Error | null> {
  try {
    await work()
    return null
  } catch (error) {
    if (error instanceof S3Error) return error
    throw error
  }
}

const idOf = (request: Request) => ({ 'x-amz-request-id': exchangeOf(request).requestId })
const answer = (request: Request, markup: Markup) => xmlResponse(markup, 200, idOf(request))

const headersOf = ({ modified }: ObjectInfo, etag: string) => ({
  'accept-ranges': 'bytes',
  'content-type': 'application/octet-stream',
  etag: entityTag(etag),
  'last-modified': modified.toUTCString(),
})

/** Refuses parameters that name another operation, such as `acl` or `tagging`. */
function checkParameters(parameters: ReadonlyMap<string, string>, allowed: readonly string[]): void {
  for (const name of parameters.keys())
    if (!allowed.includes(name))
      throw new S3Error('NotImplemented', `The parameter ${name.slice(0, 100)} is not implemented`)
}

const refusedRequest = (request: Request): RefusedRequest => ({
  path: targetOf(request.url).path,
  requestId: exchangeOf(request).requestId,
})
