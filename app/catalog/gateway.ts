/** Object gateway: the bearer of a token reads its inputs and the lake, and adds files to its own table. */
import type { Sql } from '../../drizzle/client.ts'
import { LAKE_PREFIX } from '../../lake/iceberg/format/location.ts'
import { tableKey } from '../../lake/pipeline/names.ts'
import type { CodeVisibility } from '../access/code-visibility.ts'
import { AppError, forbidden, notFound } from '../core/errors.ts'
import { chunksOf } from '../objects/body.ts'
import type { ObjectBody, ObjectInfo, ObjectStore } from '../objects/port.ts'
import { visibilityOf } from './access.ts'
import { isTableFile } from './lake-keys.ts'
import { findBranch } from './store/branches.ts'
import { isFrozenInput, isInVisibleZone, pinnedVersion } from './store/landing.ts'
import type { AttemptClaims, Claims } from './tokens.ts'

/** Maximum size of a data file of a table. An engine splits its output long before this limit. */
export const LAKE_FILE_BYTES_MAX = 1_073_741_824

export type ObjectRef = { key: string; version: string | undefined }
export type Upload = {
  key: string
  body: ReadableStream<Uint8Array> | null
  /** The declared Content-Length; null: none was declared. */
  declaredBytes: number | null
}

export type Gateway = ReturnType<typeof makeGateway>

export interface GatewayDeps {
  sql: Sql
  objects: ObjectStore
  codeVisibility: CodeVisibility
}

export function makeGateway({ sql, objects, codeVisibility }: GatewayDeps) {
  const zonesOf = async (claims: Claims) => (await visibilityOf(codeVisibility, claims)).zones

  /** The version to read. Throws 403 without telling whether an object outside the token's scope exists. */
  async function readableVersion(claims: Claims, { key, version }: ObjectRef): Promise<string | undefined> {
    if (key.startsWith(LAKE_PREFIX)) return undefined
    if (claims.kind === 'read') {
      const isLanded = claims.landing !== undefined && key.startsWith(`${claims.landing}/landing/`)
      if (isLanded && (await isInVisibleZone(sql, key, await zonesOf(claims)))) return version
      throw forbidden(`this token may not read object ${key}`)
    }
    const pinned = await pinnedVersion(sql, claims.runId, key)
    if (pinned !== null && (version ?? pinned) === pinned) return pinned
    if (pinned === null && (await isFrozenInput(sql, claims, key, await zonesOf(claims)))) return version
    throw forbidden(`object ${key} is not an input of this attempt, or not in this version`)
  }

  async function checkWritable(claims: Claims, key: string): Promise<AttemptClaims> {
    if (claims.kind !== 'attempt') throw forbidden('this token is read-only')
    if (!isTableFile(claims.target, key))
      throw forbidden(`this attempt may write files of table ${tableKey(claims.target)} only`)
    const branch = await findBranch(sql, claims.branch)
    if (branch?.state !== 'open') throw forbidden(`branch ${claims.branch} is not open`)
    return claims
  }

  return {
    /** Reads the object as a stream. */
    async read(claims: Claims, object: ObjectRef): Promise<ObjectBody> {
      const found = await objects.get(object.key, await readableVersion(claims, object))
      if (found === null) throw notFound('object')
      return found
    },

    async describe(claims: Claims, object: ObjectRef): Promise<ObjectInfo> {
      const found = await objects.head(object.key, await readableVersion(claims, object))
      if (found === null) throw notFound('object')
      return found
    },

    /**
     * Adds a file of the attempt's table. A file is written once. A repeated write with the same length gets the same answer;
     * another length gets 409.
     */
    async add(
      claims: Claims,
      { key, body, declaredBytes }: Upload,
    ): Promise<{ size: number; isNew: boolean }> {
      await checkWritable(claims, key)
      const existing = await objects.head(key)
      if (existing === null) {
        const { size } = await objects.put(key, body ?? new Uint8Array(0), { maxBytes: LAKE_FILE_BYTES_MAX })
        return { size, isNew: true }
      }
      if ((declaredBytes ?? (await lengthOf(body))) !== existing.size)
        throw new AppError(
          409,
          'ALREADY_EXISTS',
          `object ${key} already exists with ${existing.size} bytes: use a new name`,
        )
      return { size: existing.size, isNew: false }
    },
  }
}

async function lengthOf(body: Upload['body']): Promise<number> {
  let size = 0
  if (body) for await (const chunk of chunksOf(body, LAKE_FILE_BYTES_MAX)) size += chunk.byteLength
  return size
}
