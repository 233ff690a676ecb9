import { AppError } from '../core/errors.ts'

// The store of all files: pipeline sources, landing files and the lake. Its two implementations share one suite (suite.ts).
//
// Every put creates a version. A key reads as its newest version. A pinned version id reads the same bytes until that version
// is removed. Keys under `_lake/` are the exception: they are written once, under unique names. They have no versions, their
// version id is '', and their deletion frees the space at once.

export interface ObjectInfo {
  size: number
  modified: Date
  /** Opaque; '' for keys under `_lake/`. */
  versionId: string
}
export interface StoredObject extends ObjectInfo {
  key: string
}
export interface ObjectBody extends ObjectInfo {
  /** Must be read to its end or cancelled. Until then it holds a file or a connection. */
  body: ReadableStream<Uint8Array>
}
/** Bytes of an object. Both must lie inside the object. */
export interface ByteRange {
  start: number
  /** The position after the last byte. */
  end: number
}
export interface ObjectText extends ObjectInfo {
  text: string
}
export interface ObjectPage {
  /** Sorted by the UTF-8 bytes of the key. */
  objects: StoredObject[]
  /** Whether more objects follow. The next page has `after` = the last key of this page. */
  truncated: boolean
}
export interface ObjectVersion {
  key: string
  versionId: string
  /** Null: a delete marker. */
  size: number | null
  modified: Date
  /** Whether the key reads as this version, or this is the delete marker that hides the key. */
  isNewest: boolean
}
export interface VersionPage {
  /** Sorted by key; a key comes with all its versions, in any order. */
  versions: ObjectVersion[]
  /** Whether more versions follow. The next page has `after` = the last key of this page. */
  truncated: boolean
}
export interface PutOptions {
  /** Stored by S3, for readers that bypass this service. */
  contentType?: string
  /** A longer body is refused with ObjectTooLarge, and nothing is stored. */
  maxBytes?: number
  /** May use the space that DISK_FLOOR reserves: for running work that frees space or moves stored objects. */
  usesReserve?: boolean
}

/**
 * Bytes, or chunks of bytes. A chunk may be invalid after the next chunk is requested. A source that is not read to its end is
 * cancelled.
 */
export type Body = Uint8Array | AsyncIterable<Uint8Array>

export interface StageOptions extends PutOptions {
  /** The final key, if it is known now or soon. A store may then send the body there at once. */
  key?: string | Promise<string>
}

/** A body that has arrived completely and that no reader sees yet. */
export interface StagedObject {
  size: number
  /**
   * Makes the body a version of `key`, which must be the key it was staged for, if any. Durable and visible when this resolves.
   * May be called once.
   */
  commit(key: string): Promise<{ versionId: string }>
  /** Removes the body, unless it was committed. Never rejects. */
  discard(): Promise<void>
}

/** All methods throw InvalidKey for a key that no store may hold. A missing object is null, never an error. */
export interface ObjectStore {
  /** Durable and completely visible when this resolves. A streamed body is never in memory as a whole. */
  put(key: string, body: Body, options?: PutOptions): Promise<{ versionId: string; size: number }>
  /** The first half of a put, for a body whose name or fate is decided only after its arrival. */
  stage(body: Body, options?: StageOptions): Promise<StagedObject>
  /** `range`: only these bytes. The info is always that of the whole object. */
  get(key: string, versionId?: string, range?: ByteRange): Promise<ObjectBody | null>
  head(key: string, versionId?: string): Promise<ObjectInfo | null>
  /** The object as UTF-8 text. Throws ObjectTooLarge above `maxBytes`; the default is limits.uploadBytes. */
  text(key: string, versionId?: string, maxBytes?: number): Promise<ObjectText | null>
  /** Hides the key behind a delete marker; its versions stay readable by their ids. */
  delete(key: string): Promise<void>
  /** Permanently removes one version or one delete marker. */
  deleteVersion(key: string, versionId: string): Promise<void>
  /** The newest versions of the keys that start with `prefix` and are not deleted; at most limits.listCap per page. */
  list(prefix: string, page: { limit: number; after?: string }): Promise<ObjectPage>
  /**
   * All versions and delete markers of the keys that start with `prefix`. A page holds some thousand versions and only whole
   * keys.
   */
  versions(prefix: string, after?: string): Promise<VersionPage>
  /** Permanently removes every version of every key in a folder. `prefix` ends in '/'. */
  removeAll(prefix: string): Promise<void>
  /** Rejects when the store is unreachable. */
  ping(): Promise<void>
  /** Releases the resources of the store, which must not be used afterwards. */
  close(): Promise<void>
}

export class ObjectTooLarge extends AppError {
  constructor(readonly maxBytes: number) {
    super(413, 'INVALID_ARGUMENT', `file too large (max ${sizeText(maxBytes)})`)
  }
}

/** The store cannot be opened. The message is one line with the remedy. */
export class StoreUnavailable extends Error {}

const MIB = 1_048_576
const sizeText = (bytes: number) => (bytes % MIB === 0 ? `${bytes / MIB}MB` : `${bytes} bytes`)
