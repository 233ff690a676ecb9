// Errors in the format of Iceberg clients. Source: Iceberg REST catalog OpenAPI, IcebergErrorResponse.
import { BadLocation } from '../../lake/iceberg/format/location.ts'
import { CommitFailed } from '../../lake/iceberg/format/requirements.ts'
import { UnsupportedColumn } from '../../lake/iceberg/format/types.ts'
import { BadUpdate } from '../../lake/iceberg/format/wire.ts'
import { type TableName, tableKey } from '../../lake/pipeline/names.ts'
import { toAppError } from '../core/error-response.ts'
import type { Log } from '../core/log.ts'

export class CatalogError extends Error {
  constructor(
    readonly status: number,
    /** The exception that Iceberg clients raise for this error. */
    readonly type: string,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}

export const badRequest = (message: string) => new CatalogError(400, 'BadRequestException', message)
export const notAuthorized = (message: string) => new CatalogError(401, 'NotAuthorizedException', message)
export const forbidden = (message: string) => new CatalogError(403, 'ForbiddenException', message)
export const noSuch = (what: string) => new CatalogError(404, 'NotFoundException', `${what} does not exist`)
export const noSuchNamespace = (levels: readonly string[]) =>
  new CatalogError(404, 'NoSuchNamespaceException', `namespace ${levels.join('.')} does not exist`)
export const noSuchTable = (name: string) =>
  new CatalogError(404, 'NoSuchTableException', `table ${name} does not exist`)
export const tableExists = (table: TableName) =>
  new CatalogError(409, 'AlreadyExistsException', `table ${tableKey(table)} already exists`)

/** The response to a failed request: `{error: {message, type, code}}`. Logs errors with status 500 or above. */
export function errorResponse(error: unknown, log: Log): Response {
  const { status, type, message } = described(error)
  if (status >= 500) log.error('the catalog could not answer', { error })
  const headers = status === 401 ? { 'www-authenticate': 'Bearer realm="sluice"' } : undefined
  return Response.json({ error: { message, type, code: status } }, { status, headers })
}

function described(error: unknown): Pick<CatalogError, 'status' | 'type' | 'message'> {
  if (error instanceof CatalogError) return error
  if (error instanceof CommitFailed)
    return { status: 409, type: 'CommitFailedException', message: error.message }
  if (error instanceof BadUpdate || error instanceof BadLocation || error instanceof UnsupportedColumn)
    return badRequest(error.message)
  const { status, message } = toAppError(error)
  return { status, type: TYPE_OF[status] ?? 'BadRequestException', message }
}

const TYPE_OF: Record<number, string> = {
  404: 'NotFoundException',
  500: 'InternalServerError',
  503: 'ServiceUnavailableException',
}
