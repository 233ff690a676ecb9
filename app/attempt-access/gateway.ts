/** Object gateway: the bearer of a token reads its inputs and the lake, and adds files to its own table. */
import type { Sql } from '../../drizzle/client.ts'
import { tableKey } from '../../ground/names.ts'
import { LAKE_PREFIX } from '../../lake/iceberg/format/location.ts'
import type { CodeVisibility } from '../access/code-visibility.ts'
import { AppError, forbidden, notFound, retryLater } from '../core/errors.ts'
import type { AttemptClaims, Claims } from '../iceberg/claims.ts'
import type { ObjectBody, ObjectInfo, ObjectStore } from '../objects/port.ts'
import { storeNew } from '../s3/new-files.ts'
import { isTableFile } from '../versions/lake-keys.ts'
import { findBranch } from '../versions/store/branches.ts'
import { visibilityOf } from './access.ts'
import { isFrozenInput, isInVisibleZone, pinnedVersion } from './store/landing.ts'

type ObjectRef = { key: string; version: string | undefined }
type Upload = {
  key: string
  body: ReadableStream<Uint8Array> | null
}

export type Gateway = ReturnType<typeof makeGateway>

interface GatewayDeps {
  sql: Sql
  objects: ObjectStore
  codeVisibility: CodeVisibility
}

export function makeGateway({ sql, objects, codeVisibility }: GatewayDeps) {
  const zonesOf = async (claims: Claims) => (await visibilityOf(codeVisibility, claims)).zones

  /** The version to read. Throws 403 without telling whether an object outside the token's scope exists. */
  async function readableVersion(claims: Claims, { key, version }: ObjectRef): Promise<string | undefined> {
    if (claims.kind === 'attempt') await requireOpen(claims)
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

  /** The token of an attempt ends with its branch. */
  async function requireOpen({ branch }: AttemptClaims): Promise<void> {
    if ((await findBranch(sql, branch))?.state !== 'open') throw forbidden(`branch ${branch} is not open`)
  }

  async function checkWritable(claims: Claims, key: string): Promise<AttemptClaims> {
    if (claims.kind !== 'attempt') throw forbidden('this token is read-only')
    if (!isTableFile(claims.target, key))
      throw forbidden(`this attempt may write files of table ${tableKey(claims.target)} only`)
    await requireOpen(claims)
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
     * Adds a file of the attempt's table. A file is written once. A repeated write with the same bytes gets the same answer;
     * other bytes get 409.
     */
    async add(claims: Claims, { key, body }: Upload): Promise<{ size: number; isNew: boolean }> {
      await checkWritable(claims, key)
      const stored = await storeNew(
        { sql, objects },
        { key, body: body ?? new Uint8Array(0), usesReserve: true },
      )
      // The process that stored the file for an earlier call may have died, and the database notices its end a moment later.
      if (stored.kind === 'busy')
        throw retryLater(`another request is writing object ${key}: repeat the request`)
      if (stored.kind === 'taken')
        throw new AppError(
          409,
          'ALREADY_EXISTS',
          `object ${key} already exists with other bytes: use a new name`,
        )
      return { size: stored.size, isNew: stored.kind === 'new' }
    },
  }
}
