import assert from 'node:assert/strict'
import {
  CreateBucketCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetBucketVersioningCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListObjectVersionsCommand,
  type ListObjectVersionsCommandInput,
  type ObjectIdentifier,
  PutBucketVersioningCommand,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3'
import type { StoreSettings } from '../config/config.ts'
import { limits } from '../core/limits.ts'
import { chunksOf, textOf } from './body.ts'
import { checkFolder, checkKey, checkPrefix, compareKeys, isLakeKey } from './key.ts'
import {
  type Body,
  type ByteRange,
  type ObjectBody,
  type ObjectInfo,
  type ObjectPage,
  type ObjectStore,
  ObjectTooLarge,
  type ObjectVersion,
  type StagedObject,
  type StageOptions,
  type StoredObject,
  StoreUnavailable,
  type VersionPage,
} from './port.ts'
import { openDownload } from './s3-download.ts'
import { receiveChunks } from './s3-upload.ts'

// The object store on a versioned S3 bucket. It uses no conditional PUT, because servers differ in their support. Keys under
// `_lake/` have versions here like all others. Their deletion removes all versions, and their version ids are hidden.

type VersionMarker = Pick<ListObjectVersionsCommandInput, 'KeyMarker' | 'VersionIdMarker'>
type S3Settings = Extract<StoreSettings, { kind: 's3' }>

/** Versions in a page of a listing and in a delete request: the limit of S3. */
const PAGE_SIZE = 1000
const CONNECT_TIMEOUT_MS = 3_000
/** The client repeats a request after 503, a lost connection or a time-out, with a growing delay. */
const ATTEMPTS_MAX = 5
/** A server that is silent for this long counts as dead; the client then retries. */
const SILENCE_TIMEOUT_MS = 30_000

/** Opens a bucket; creates it and enables its versioning if needed. Throws StoreUnavailable when that fails. */
export async function openS3Store(settings: S3Settings): Promise<ObjectStore> {
  const client = new S3Client({
    region: settings.region,
    maxAttempts: ATTEMPTS_MAX,
    // Servers other than AWS seldom have a host name for each bucket.
    ...(settings.endpoint !== null && { endpoint: settings.endpoint, forcePathStyle: true }),
    // Without keys, the client uses the default credential chain and renews credentials before they expire.
    ...(settings.credentials !== null && { credentials: settings.credentials }),
    requestHandler: { connectionTimeout: CONNECT_TIMEOUT_MS, socketTimeout: SILENCE_TIMEOUT_MS },
  })
  await prepare(client, settings)
  const bucket: Bucket = { client, Bucket: settings.bucket }
  return {
    ...makeWrites(bucket),
    ...makeReads(bucket),
    ...makeRemovals(bucket),
    list: (prefix, page) => listKeys(bucket, prefix, page),
    versions: (prefix, after) => listVersions(bucket, prefix, after),
    async ping() {
      await client.send(new HeadBucketCommand({ Bucket: settings.bucket }))
    },
    async close() {
      client.destroy()
    },
  }
}

interface Bucket {
  client: S3Client
  Bucket: string
}

function makeWrites({ client, Bucket }: Bucket): Pick<ObjectStore, 'put' | 'stage'> {
  async function stage(body: Body, { key, contentType, maxBytes }: StageOptions = {}): Promise<StagedObject> {
    const target = { Bucket, Key: key, ContentType: contentType }
    const { size, send, discard } = await receiveChunks(client, target, chunksOf(body, maxBytes))
    return {
      size,
      async commit(name) {
        checkKey(name)
        return { versionId: externalVersionId(name, (await send(name)).VersionId) }
      },
      discard,
    }
  }

  return {
    stage,
    async put(key, body, options = {}) {
      checkKey(key)
      const { contentType, maxBytes } = options
      if (body instanceof Uint8Array) {
        if (maxBytes !== undefined && body.byteLength > maxBytes) throw new ObjectTooLarge(maxBytes)
        const target = { Bucket, Key: key, ContentType: contentType }
        const stored = await client.send(new PutObjectCommand({ ...target, Body: body }))
        return { versionId: externalVersionId(key, stored.VersionId), size: body.byteLength }
      }
      const staged = await stage(body, { ...options, key })
      return { ...(await staged.commit(key)), size: staged.size }
    },
  }
}

function makeReads({ client, Bucket }: Bucket): Pick<ObjectStore, 'get' | 'head' | 'text'> {
  async function get(key: string, versionId?: string, range?: ByteRange): Promise<ObjectBody | null> {
    checkKey(key)
    const VersionId = requestedVersionId(key, versionId)
    const found = await orNull(openDownload(client, { Bucket, Key: key, VersionId }, range), versionId)
    return found && { ...infoOf(key, found), body: found.body }
  }

  return {
    get,
    async head(key, versionId) {
      checkKey(key)
      const VersionId = requestedVersionId(key, versionId)
      const head = client.send(new HeadObjectCommand({ Bucket, Key: key, VersionId }))
      try {
        const found = await orNull(head, versionId)
        return found && infoOf(key, found)
      } catch (error) {
        // An answer to HEAD has no body, so only a GET tells a wrong version id from wrong credentials.
        if (versionId === undefined || statusOf(error) !== 400) throw error
        const found = await get(key, versionId)
        await found?.body.cancel()
        return found && { size: found.size, modified: found.modified, versionId: found.versionId }
      }
    },
    async text(key, versionId, maxBytes) {
      const found = await get(key, versionId)
      return found && textOf(found, maxBytes)
    },
  }
}

function makeRemovals(bucket: Bucket): Pick<ObjectStore, 'delete' | 'deleteVersion' | 'removeAll'> {
  const { client, Bucket } = bucket
  async function remove(key: string) {
    checkKey(key)
    if (isLakeKey(key)) await removeVersions(bucket, key, (found) => found === key)
    else await client.send(new DeleteObjectCommand({ Bucket, Key: key }))
  }

  return {
    delete: remove,
    async deleteVersion(key, versionId) {
      checkKey(key)
      if (isLakeKey(key)) return remove(key)
      await orNull(
        client.send(new DeleteObjectCommand({ Bucket, Key: key, VersionId: versionId })),
        versionId,
      )
    },
    async removeAll(prefix) {
      checkFolder(prefix)
      await removeVersions(bucket, prefix, () => true)
    },
  }
}

/** Each round lists from the beginning: earlier versions are gone, and a marker must not point at them. */
async function removeVersions(bucket: Bucket, prefix: string, matches: (key: string) => boolean) {
  const { client, Bucket } = bucket
  let more: boolean | undefined
  do {
    const { Versions = [], DeleteMarkers = [], IsTruncated } = await versionPage(bucket, prefix)
    const Objects = [...Versions, ...DeleteMarkers].flatMap(({ Key, VersionId }): ObjectIdentifier[] =>
      Key !== undefined && matches(Key) ? [{ Key, VersionId }] : [],
    )
    if (Objects.length === 0) return
    const { Errors = [] } = await client.send(
      new DeleteObjectsCommand({ Bucket, Delete: { Objects, Quiet: true } }),
    )
    const [first] = Errors
    if (first)
      throw new Error(
        `S3 did not delete ${Errors.length} object versions; first error: ${first.Key}: ${first.Message}`,
      )
    more = IsTruncated
  } while (more)
}

async function listKeys(
  bucket: Bucket,
  prefix: string,
  page: { limit: number; after?: string },
): Promise<ObjectPage> {
  checkPrefix(prefix)
  const limit = Math.min(page.limit, limits.listCap)
  let last = page.after ?? ''
  const objects: StoredObject[] = []
  for await (const { Versions = [] } of versionPages(bucket, prefix, page.after)) {
    for (const { Key, Size, LastModified, VersionId, IsLatest } of Versions) {
      // Servers differ in whether a page repeats the key of its marker.
      if (Key === undefined || !IsLatest || compareKeys(Key, last) <= 0) continue
      if (objects.length === limit) return { objects, truncated: true }
      last = Key
      const info = infoOf(Key, { ContentLength: Size, LastModified, VersionId })
      objects.push({ key: Key, ...info })
    }
  }
  return { objects, truncated: false }
}

/** The last key of a server page may continue on the next one. That key moves to the next page of this listing. */
async function listVersions(bucket: Bucket, prefix: string, after = ''): Promise<VersionPage> {
  checkPrefix(prefix)
  const found = new Map<string, ObjectVersion[]>()
  const inOrder = () => [...found].sort(([a], [b]) => compareKeys(a, b)).map(([, versions]) => versions)
  for await (const page of versionPages(bucket, prefix, after || undefined)) {
    const { Versions = [], DeleteMarkers = [], IsTruncated } = page
    const listed = [...Versions, ...DeleteMarkers.map((marker) => ({ ...marker, Size: null }))]
    for (const { Key, VersionId, Size, LastModified, IsLatest } of listed) {
      if (Key === undefined || compareKeys(Key, after) <= 0) continue
      assert(VersionId !== undefined && Size !== undefined && LastModified !== undefined, MISSING_FIELD)
      const version = {
        key: Key,
        versionId: VersionId,
        size: Size,
        modified: LastModified,
        isNewest: IsLatest === true,
      }
      found.set(Key, [...(found.get(Key) ?? []), version])
    }
    if (IsTruncated && found.size > 1) return { versions: inOrder().slice(0, -1).flat(), truncated: true }
  }
  return { versions: inOrder().flat(), truncated: false }
}

/** All versions and delete markers of a prefix, one limited page at a time. */
async function* versionPages(bucket: Bucket, prefix: string, after?: string) {
  let from: VersionMarker = { KeyMarker: after }
  for (;;) {
    const page = await versionPage(bucket, prefix, from)
    yield page
    if (!page.IsTruncated) return
    from = { KeyMarker: page.NextKeyMarker, VersionIdMarker: page.NextVersionIdMarker }
  }
}

const versionPage = ({ client, Bucket }: Bucket, prefix: string, from: VersionMarker = {}) =>
  client.send(new ListObjectVersionsCommand({ Bucket, Prefix: prefix, MaxKeys: PAGE_SIZE, ...from }))

async function prepare(client: S3Client, { endpoint, region, bucket: Bucket }: S3Settings): Promise<void> {
  try {
    if (!(await orNull(client.send(new HeadBucketCommand({ Bucket })))))
      await client.send(new CreateBucketCommand({ Bucket })).catch(unlessOwned)
    const versioning = () => client.send(new GetBucketVersioningCommand({ Bucket }))
    if ((await versioning()).Status === 'Enabled') return
    await client.send(
      new PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: 'Enabled' } }),
    )
    if ((await versioning()).Status !== 'Enabled')
      throw new Error('the server does not support bucket versioning')
  } catch (error) {
    client.destroy()
    throw new StoreUnavailable(
      `the versioned bucket '${Bucket}' at ${endpoint ?? `AWS (${region})`} cannot be used: ${reasonOf(error)}`,
      { cause: error },
    )
  }
}

/** Another replica that starts at the same time may create the bucket first. */
function unlessOwned(error: unknown): void {
  if (!(error instanceof Error) || error.name !== 'BucketAlreadyOwnedByYou') throw error
}

/**
 * Returns null instead of an error for a missing object. Its status is 404, 405 for a version that is a delete marker, or 400
 * for a version id that this server cannot have issued. Expired credentials are a 400, too, and stay an error.
 */
async function orNull<T>(found: Promise<T>, versionId?: string): Promise<T | null> {
  try {
    return await found
  } catch (error) {
    const status = statusOf(error)
    if (status === 404 || (versionId !== undefined && status === 405)) return null
    if (versionId !== undefined && status === 400 && error instanceof Error && error.name === BAD_VERSION)
      return null
    throw error
  }
}

const BAD_VERSION = 'InvalidArgument'

const statusOf = (error: unknown) =>
  error instanceof S3ServiceException ? error.$metadata.httpStatusCode : undefined

/** Responses to HEAD have no body, so the client knows no names of their errors. The status is sufficient. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const status = statusOf(error)
  if (status === 403) return 'access denied (check S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY)'
  if (error.name === 'CredentialsProviderError')
    return `no credentials (set S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY, or those of AWS): ${error.message}`
  return status === undefined ? error.message : `${error.name} (HTTP ${status})`
}

const externalVersionId = (key: string, versionId = '') => (isLakeKey(key) ? '' : versionId)
const requestedVersionId = (key: string, versionId?: string) => (isLakeKey(key) ? undefined : versionId)

/** The client's types allow missing values; no server omits them. */
const MISSING_FIELD = 'S3 response without size, time or version of an object'

function infoOf(
  key: string,
  {
    ContentLength,
    LastModified,
    VersionId,
  }: { ContentLength?: number; LastModified?: Date; VersionId?: string },
): ObjectInfo {
  assert(ContentLength !== undefined && LastModified !== undefined, MISSING_FIELD)
  return { size: ContentLength, modified: LastModified, versionId: externalVersionId(key, VersionId) }
}
