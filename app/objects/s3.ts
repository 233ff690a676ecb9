import {
  CreateBucketCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetBucketVersioningCommand,
  GetObjectCommand,
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
import type { StoreSettings } from '../core/config.ts'
import { limits } from '../core/limits.ts'
import { chunksOf, textOf } from './body.ts'
import { checkFolder, checkKey, checkPrefix, compareKeys, isLakeKey } from './key.ts'
import {
  type Body,
  type ObjectBody,
  type ObjectInfo,
  type ObjectPage,
  type ObjectStore,
  ObjectTooLarge,
  type ObjectVersion,
  type PutOptions,
  type StagedObject,
  type StageOptions,
  type StoredObject,
  StoreUnavailable,
  type VersionPage,
} from './port.ts'
import { receiveChunks } from './s3-upload.ts'

// The object store on a versioned S3 bucket. No conditional PUT anywhere: servers differ in it. Keys under `_lake/`
// have versions here like all others, but a delete of one removes them all, and their ids are not told.

type VersionMarker = Pick<ListObjectVersionsCommandInput, 'KeyMarker' | 'VersionIdMarker'>
type S3Settings = Extract<StoreSettings, { kind: 's3' }>

/** Versions one listing page and one delete request hold: S3's own limit. */
const PAGE_SIZE = 1000
const CONNECT_TIMEOUT_MS = 3_000
/** A server silent for so long is taken for dead; the client then tries again. */
const SILENCE_TIMEOUT_MS = 30_000

/** Opens a bucket, making it and switching its versioning on where needed; StoreUnavailable when that cannot be. */
export async function openS3Store(settings: S3Settings): Promise<ObjectStore> {
  const { bucket: Bucket } = settings
  const client = new S3Client({
    region: settings.region,
    endpoint: settings.endpoint,
    forcePathStyle: true,
    credentials: { accessKeyId: settings.accessKeyId, secretAccessKey: settings.secretAccessKey },
    requestHandler: { connectionTimeout: CONNECT_TIMEOUT_MS, socketTimeout: SILENCE_TIMEOUT_MS },
  })
  await prepare(client, settings)

  async function put(key: string, body: Body, options: PutOptions = {}) {
    checkKey(key)
    const { contentType, maxBytes } = options
    if (body instanceof Uint8Array) {
      if (maxBytes !== undefined && body.byteLength > maxBytes) throw new ObjectTooLarge(maxBytes)
      const target = { Bucket, Key: key, ContentType: contentType }
      const stored = await client.send(new PutObjectCommand({ ...target, Body: body }))
      return { versionId: toldId(key, stored.VersionId), size: body.byteLength }
    }
    const staged = await stage(body, { ...options, key })
    return { ...(await staged.commit(key)), size: staged.size }
  }

  async function stage(body: Body, { key, contentType, maxBytes }: StageOptions = {}): Promise<StagedObject> {
    const target = { Bucket, Key: key, ContentType: contentType }
    const { size, send, discard } = await receiveChunks(client, target, chunksOf(body, maxBytes))
    async function commit(name: string) {
      checkKey(name)
      return { versionId: toldId(name, (await send(name)).VersionId) }
    }
    return {
      size,
      commit,
      discard,
    }
  }

  async function get(key: string, versionId?: string): Promise<ObjectBody | null> {
    checkKey(key)
    const found = await orNull(
      client.send(new GetObjectCommand({ Bucket, Key: key, VersionId: askedId(key, versionId) })),
      versionId,
    )
    if (!found?.Body) return null
    return { ...infoOf(key, found), body: found.Body.transformToWebStream() }
  }

  async function head(key: string, versionId?: string): Promise<ObjectInfo | null> {
    checkKey(key)
    const found = await orNull(
      client.send(new HeadObjectCommand({ Bucket, Key: key, VersionId: askedId(key, versionId) })),
      versionId,
    )
    return found && infoOf(key, found)
  }

  async function text(key: string, versionId?: string, maxBytes?: number) {
    const found = await get(key, versionId)
    return found && textOf(found, maxBytes)
  }

  async function remove(key: string) {
    checkKey(key)
    if (isLakeKey(key)) await removeVersions(key, (found) => found === key)
    else await client.send(new DeleteObjectCommand({ Bucket, Key: key }))
  }

  async function deleteVersion(key: string, versionId: string) {
    checkKey(key)
    if (isLakeKey(key)) return remove(key)
    await orNull(client.send(new DeleteObjectCommand({ Bucket, Key: key, VersionId: versionId })), versionId)
  }

  async function list(prefix: string, page: { limit: number; after?: string }): Promise<ObjectPage> {
    checkPrefix(prefix)
    const limit = Math.min(page.limit, limits.listCap)
    let last = page.after ?? ''
    const objects: StoredObject[] = []
    for await (const { Versions = [] } of versionPages(prefix, page.after)) {
      for (const { Key, Size = 0, LastModified, VersionId, IsLatest } of Versions) {
        // Servers differ in whether a page repeats the key at its marker.
        if (Key === undefined || !IsLatest || compareKeys(Key, last) <= 0) continue
        if (objects.length === limit) return { objects, truncated: true }
        last = Key
        const info = infoOf(Key, { ContentLength: Size, LastModified, VersionId })
        objects.push({ key: Key, ...info })
      }
    }
    return { objects, truncated: false }
  }

  /** The last key of a page of the server may go on in the next one: it is left to the next page of ours. */
  async function versions(prefix: string, after = ''): Promise<VersionPage> {
    checkPrefix(prefix)
    const found = new Map<string, ObjectVersion[]>()
    for await (const { Versions = [], DeleteMarkers = [], IsTruncated } of versionPages(
      prefix,
      after || undefined,
    )) {
      const told = [...Versions, ...DeleteMarkers.map((marker) => ({ ...marker, Size: null }))]
      for (const { Key, VersionId = '', Size = 0, LastModified = new Date(0), IsLatest = false } of told) {
        if (Key === undefined || compareKeys(Key, after) <= 0) continue
        const version = {
          key: Key,
          versionId: VersionId,
          size: Size,
          modified: LastModified,
          isNewest: IsLatest,
        }
        found.set(Key, [...(found.get(Key) ?? []), version])
      }
      if (!IsTruncated || found.size < 2) continue
      const keys = [...found.keys()].sort(compareKeys).slice(0, -1)
      return { versions: keys.flatMap((key) => found.get(key) ?? []), truncated: true }
    }
    const keys = [...found.keys()].sort(compareKeys)
    return { versions: keys.flatMap((key) => found.get(key) ?? []), truncated: false }
  }

  async function removeAll(prefix: string) {
    checkFolder(prefix)
    await removeVersions(prefix, () => true)
  }

  /** Each round lists from the beginning: what came before is gone, and no marker may point at it. */
  async function removeVersions(prefix: string, isMeant: (key: string) => boolean) {
    let more: boolean | undefined
    do {
      const { Versions = [], DeleteMarkers = [], IsTruncated } = await listVersions(prefix)
      const Objects = [...Versions, ...DeleteMarkers].flatMap(({ Key, VersionId }): ObjectIdentifier[] =>
        Key !== undefined && isMeant(Key) ? [{ Key, VersionId }] : [],
      )
      if (Objects.length === 0) return
      const { Errors = [] } = await client.send(
        new DeleteObjectsCommand({ Bucket, Delete: { Objects, Quiet: true } }),
      )
      const [first] = Errors
      if (first) throw new Error(`${Errors.length} versions were not deleted; ${first.Key}: ${first.Message}`)
      more = IsTruncated
    } while (more)
  }

  /** All versions and delete markers of a prefix, a bounded page at a time. */
  async function* versionPages(prefix: string, after?: string) {
    let from: VersionMarker = { KeyMarker: after }
    for (;;) {
      const page = await listVersions(prefix, from)
      yield page
      if (!page.IsTruncated) return
      from = { KeyMarker: page.NextKeyMarker, VersionIdMarker: page.NextVersionIdMarker }
    }
  }

  const listVersions = (prefix: string, from: VersionMarker = {}) =>
    client.send(new ListObjectVersionsCommand({ Bucket, Prefix: prefix, MaxKeys: PAGE_SIZE, ...from }))

  return {
    put,
    stage,
    get,
    head,
    text,
    delete: remove,
    deleteVersion,
    list,
    versions,
    removeAll,
    async ping() {
      await client.send(new HeadBucketCommand({ Bucket }))
    },
    async close() {
      client.destroy()
    },
  }
}

async function prepare(client: S3Client, { endpoint, bucket: Bucket }: S3Settings): Promise<void> {
  try {
    if (!(await orNull(client.send(new HeadBucketCommand({ Bucket })))))
      await client.send(new CreateBucketCommand({ Bucket }))
    const versioning = () => client.send(new GetBucketVersioningCommand({ Bucket }))
    if ((await versioning()).Status === 'Enabled') return
    await client.send(
      new PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: 'Enabled' } }),
    )
    if ((await versioning()).Status !== 'Enabled') throw new Error('the server keeps no versions')
  } catch (error) {
    client.destroy()
    throw new StoreUnavailable(
      `the versioned bucket '${Bucket}' at ${endpoint} cannot be used: ${reasonOf(error)}`,
      { cause: error },
    )
  }
}

/**
 * Null in place of an error that says that the object is not there: 404; 405 for a version that is a delete marker;
 * 400 for a version id that this server cannot have given.
 */
async function orNull<T>(found: Promise<T>, versionId?: string): Promise<T | null> {
  try {
    return await found
  } catch (error) {
    const status = error instanceof S3ServiceException ? error.$metadata.httpStatusCode : undefined
    if (status === 404 || (versionId !== undefined && (status === 400 || status === 405))) return null
    throw error
  }
}

/** Answers to HEAD have no body, so that the client knows no name for their errors; their status says enough. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const status = error instanceof S3ServiceException ? error.$metadata.httpStatusCode : undefined
  if (status === 403) return 'access denied (check S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY)'
  return status === undefined ? error.message : `${error.name} (HTTP ${status})`
}

const toldId = (key: string, versionId = '') => (isLakeKey(key) ? '' : versionId)
const askedId = (key: string, versionId?: string) => (isLakeKey(key) ? undefined : versionId)

const infoOf = (
  key: string,
  told: { ContentLength?: number; LastModified?: Date; VersionId?: string },
): ObjectInfo => ({
  size: told.ContentLength ?? 0,
  modified: told.LastModified ?? new Date(0),
  versionId: toldId(key, told.VersionId),
})
