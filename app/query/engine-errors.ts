// Calls of query services: the access that a call carries, and the errors of this API for its failures.

import { Code, ConnectError } from '@connectrpc/connect'
import { BUSY_HEADER } from '../../proto/busy-header.ts'
import { AppError, invalid, unavailable } from '../core/errors.ts'

export const SERVICE = 'query service'

/** Access of a query service to one version of the lake. */
export interface LakeView {
  commit: bigint
  /** Empty for main. */
  branch: string
  catalogUrl: string
  objectsUrl: string
  token: string
  /** Identifies this catalog, see `Tokens.catalogId`. */
  catalogId: string
}

/** Errors that the query itself causes; the client must change the query. */
const OF_THE_QUERY: ReadonlySet<Code> = new Set([
  Code.InvalidArgument,
  Code.DeadlineExceeded,
  Code.ResourceExhausted,
  Code.FailedPrecondition,
  Code.Aborted,
])

export const isOfTheQuery = (code: Code): boolean => OF_THE_QUERY.has(code)

/** 503 of a query service that has no room for another query. */
export const busy = (why: string, cause?: unknown) =>
  new AppError(503, 'UNAVAILABLE', `${SERVICE} is busy: ${why}`, { cause })

/** Converts an error of a query service to an error of this API. */
export function throwApiError(error: unknown): never {
  if (error instanceof AppError) {
    const { cause } = error
    throw cause instanceof ConnectError && cause.metadata.has(BUSY_HEADER)
      ? busy(cause.rawMessage, cause)
      : error
  }
  const { code, rawMessage } = ConnectError.from(error)
  if (isOfTheQuery(code)) throw invalid('sql', rawMessage)
  if (code === Code.Canceled) throw unavailable(SERVICE, error)
  throw error
}
