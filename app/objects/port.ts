import { AppError } from '../core/errors.ts'

// Where files live: pipeline sources, landing files, and the lake. Two implementations, one suite (suite.ts).
//
// Every put makes a new version; the newest one is what a key reads as, and a pinned version id reads the same bytes
// until someone removes that version. Keys under `_lake/` are the exception: written once under unique names, they
// have no versions, their version id is '', and deleting one frees its space at once.

export interface ObjectInfo {
  size: number
  modified: Date
  /** Opaque. '' for keys under `_lake/`. */
  versionId: string
}
export interface StoredObject extends ObjectInfo {
  key: string
}
export interface ObjectBody extends ObjectInfo {
  /** To be read to its end or cancelled: it holds a file or a connection until then. */
  body: ReadableStream<Uint8Array>
}
export interface ObjectText extends ObjectInfo {
  text: string
}
export interface ObjectPage {
  /** Sorted by the UTF-8 bytes of the key. */
  objects: StoredObject[]
  /** Whether more follow; ask for them with `after` = the last key of this page. */
  truncated: boolean
}
export interface ObjectVersion {
  key: string
  versionId: string
  /** Null: a delete marker. */
  size: number | null
  modified: Date
  /** Whether it is what the key reads as, or the marker that hides it. */
  isNewest: boolean
}
export interface VersionPage {
  /** Sorted by key; a key comes with all its versions, in any order. */
  versions: ObjectVersion[]
  /** Whether more follow; ask for them with `after` = the last key of this page. */
  truncated: boolean
}
export interface PutOptions {
  /** Kept by stores that keep one (S3), for readers that come past us. */
  contentType?: string
  /** A longer body is refused with ObjectTooLarge and leaves nothing behind. */
  maxBytes?: number
  /** It may use the space that DISK_FLOOR reserves: work under way that frees space, or moves what is stored. */
  usesReserve?: boolean
}

/**
 * Bytes, or chunks of them as they come; a chunk may be gone once the next is asked for. A source that is not read to its end
 * is cancelled.
 */
export type Body = Uint8Array | AsyncIterable<Uint8Array>

export interface StageOptions extends PutOptions {
  /** Where it will belong, when that is known already or soon: a store may then send it there at once. */
  key?: string | Promise<string>
}

/** A body that has arrived whole, and that no reader sees yet. */
export interface StagedObject {
  size: number
  /** Makes it a version of `key` (the one it was staged for, if any): durable and visible when it resolves. Once. */
  commit(key: string): Promise<{ versionId: string }>
  /** Forgets it, unless it was committed. Never rejects. */
  discard(): Promise<void>
}

/** All of these throw InvalidKey for a key no store may hold; what is not there is null, never an error. */
export interface ObjectStore {
  /** Durable and visible as a whole when it resolves. A streamed body is never held in memory as a whole. */
  put(key: string, body: Body, options?: PutOptions): Promise<{ versionId: string; size: number }>
  /** The first half of a put, for bodies whose name or fate is decided only when they are there. */
  stage(body: Body, options?: StageOptions): Promise<StagedObject>
  get(key: string, versionId?: string): Promise<ObjectBody | null>
  head(key: string, versionId?: string): Promise<ObjectInfo | null>
  /** The object as UTF-8 text; ObjectTooLarge over `maxBytes`, by default limits.uploadBytes. */
  text(key: string, versionId?: string, maxBytes?: number): Promise<ObjectText | null>
  /** Hides the key behind a delete marker; its versions can still be read by their ids. */
  delete(key: string): Promise<void>
  /** Removes one version, or one delete marker, for good. */
  deleteVersion(key: string, versionId: string): Promise<void>
  /** The newest versions of the keys that start with `prefix` and are not deleted; at most limits.listCap a page. */
  list(prefix: string, page: { limit: number; after?: string }): Promise<ObjectPage>
  /** All versions and delete markers of the keys that start with `prefix`: some thousand a page, a key always whole. */
  versions(prefix: string, after?: string): Promise<VersionPage>
  /** Removes every version of every key in a folder for good. `prefix` ends in '/'. */
  removeAll(prefix: string): Promise<void>
  /** Rejects when the store cannot be reached. */
  ping(): Promise<void>
  /** Lets go of what the store holds; it is not to be used after. */
  close(): Promise<void>
}

export class ObjectTooLarge extends AppError {
  constructor(readonly maxBytes: number) {
    super(413, 'INVALID_ARGUMENT', `file too large (max ${sizeText(maxBytes)})`)
  }
}

/** The store cannot be opened. The message is one line that says what to change. */
export class StoreUnavailable extends Error {}

const MIB = 1_048_576
const sizeText = (bytes: number) => (bytes % MIB === 0 ? `${bytes / MIB}MB` : `${bytes} bytes`)
