// Compares two states of a table on a query service.
import { ConnectError } from '@connectrpc/connect'
import type { JsonRows } from '../../lake/engine/arrow-json.ts'
import { AppError } from '../core/errors.ts'
import type { NewId } from '../core/ids.ts'
import type { LakeVersion } from '../core/lake-version.ts'
import { limits } from '../core/limits.ts'
import type { QueryClient } from '../rpc/clients.ts'
import type { Pool } from '../rpc/pool.ts'
import type { Admission } from './admission.ts'
import { isOfTheQuery, type LakeView, throwApiError } from './engine-errors.ts'
import type { EngineRows } from './engine-rows.ts'

/** Locations of the metadata of two states. Null: the table does not exist in that state. */
export interface StatePair {
  before: string | null
  after: string | null
}

export interface ComparedRows {
  /** One row, when no rows were asked for. */
  counts: JsonRows | null
  lists: { added: JsonRows; removed: JsonRows; changed: JsonRows; truncated: boolean } | null
}

/** The states cannot be compared within the limits of a query, or not at all. */
export class Incomparable extends Error {}

interface CompareDeps {
  configured(): Pool<QueryClient>
  lakeAt(version: LakeVersion): Promise<LakeView>
  admitted: Admission
  newId: NewId
  answerBytesMax: number
  engineRows: EngineRows
}

type Compare = (
  comparison: StatePair & { key: string[]; rowsLimit: number; timeoutMs: number },
  signal: AbortSignal,
) => Promise<ComparedRows>

/** The comparison throws Incomparable when it takes too much time or memory. */
export function makeCompare(deps: CompareDeps): Compare {
  const { configured, lakeAt, admitted, newId, answerBytesMax, engineRows } = deps

  return ({ before, after, key, rowsLimit, timeoutMs }, signal) =>
    admitted(async () => {
      const pool = configured()
      const request = {
        queryId: newId(),
        lake: await lakeAt({}),
        before: before ?? '',
        after: after ?? '',
        key,
        limit: BigInt(rowsLimit),
        timeoutMs,
        answerBytes: BigInt(answerBytesMax),
      }
      const lost = AbortSignal.timeout(timeoutMs + limits.rpcTimeoutMs)
      const options = { signal: AbortSignal.any([signal, lost]) }
      const answer = await pool.call((service) => service.compareStates(request, options)).catch(throwReason)
      const list = (arrow: Uint8Array, rows: bigint) =>
        engineRows(arrow, { shape: 'objects', rows: Number(rows), bytesMax: answerBytesMax, signal })
      if (rowsLimit === 0) return { counts: await list(answer.counts, 1n), lists: null }
      const [added, removed, changed] = [
        await list(answer.added, answer.addedCount),
        await list(answer.removed, answer.removedCount),
        await list(answer.changed, answer.changedCount),
      ]
      return { counts: null, lists: { added, removed, changed, truncated: answer.truncated } }
    })
}

function throwReason(error: unknown): never {
  if (error instanceof AppError) throwApiError(error)
  const { code, rawMessage } = ConnectError.from(error)
  if (isOfTheQuery(code)) throw new Incomparable(rawMessage, { cause: error })
  throwApiError(error)
}
