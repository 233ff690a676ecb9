// Errors in the format of Iceberg clients. Source: Iceberg REST catalog OpenAPI, IcebergErrorResponse.

import { type TableName, tableKey } from '../../ground/names.ts'
import { BadLocation } from '../../lake/iceberg/format/location.ts'
import { CommitFailed } from '../../lake/iceberg/format/requirements.ts'
import { UnsupportedColumn } from '../../lake/iceberg/format/types.ts'
import { BadUpdate } from '../../lake/iceberg/format/wire.ts'
import type { AppError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { toAppError } from '../wire/error-response.ts'

class CatalogError extends Error {
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
export const noSuchWarehouse = (warehouse: string) =>
  new CatalogError(
    404,
    'NoSuchWarehouseException',
    `warehouse ${warehouse} does not exist: use sluice, or sluice@ and the name of an open branch, a tag or a commit`,
  )
export const noSuchNamespace = (levels: readonly string[]) =>
  new CatalogError(404, 'NoSuchNamespaceException', `namespace ${levels.join('.')} does not exist`)
export const noSuchTable = (name: string) =>
  new CatalogError(404, 'NoSuchTableException', `table ${name} does not exist`)
export const noSuchView = (name: string) =>
  new CatalogError(404, 'NoSuchViewException', `view ${name} does not exist`)
export const namespaceExists = (levels: readonly string[]) =>
  new CatalogError(409, 'AlreadyExistsException', `namespace ${levels.join('.')} already exists`)
export const tableExists = (table: TableName) =>
  new CatalogError(409, 'AlreadyExistsException', `table or view ${tableKey(table)} already exists`)

export const namespaceNotEmpty = (name: string) =>
  new CatalogError(
    409,
    'NamespaceNotEmptyException',
    `namespace ${name} is not empty: it has tables or views on main or an open branch, pipelines, or landing zones`,
  )
/** The metadata file of a request that registers a table. */
export const notKept = (file: string) =>
  badRequest(`metadata-location: ${JSON.stringify(file)} does not exist, or its state is not kept`)
/** The specification allows the request, but this catalog does not perform it. */
export const unsupported = (message: string) =>
  new CatalogError(406, 'UnsupportedOperationException', message)
export const unprocessable = (message: string) =>
  new CatalogError(422, 'UnprocessableEntityException', message)

/** The response to a failed request. Logs errors with status 500 or above. An engine keeps its files if a commit may have happened. */
export function errorResponse(error: unknown, log: Log, isCommit = false): Response {
  const described = describe(error)
  if (described.status >= 500) log.error('catalog request failed', { error })
  const isUnknown = isCommit && described.status === 500
  return inIcebergFormat(isUnknown ? { ...described, type: 'CommitStateUnknownException' } : described)
}

/** The error of a request that did not reach its handler. */
export const icebergError = (error: AppError): Response => inIcebergFormat(describe(error))

interface Described {
  status: number
  type: string
  message: string
  headers?: Record<string, string>
}

const inIcebergFormat = ({ status, type, message, headers }: Described): Response =>
  Response.json({ error: { message, type, code: status } }, { status, headers })

function describe(error: unknown): Described {
  if (error instanceof CatalogError) {
    const { status, type, message } = error
    return { status, type, message, ...(status === 401 && { headers: CHALLENGE }) }
  }
  if (error instanceof CommitFailed)
    return { status: 409, type: 'CommitFailedException', message: error.message }
  if (error instanceof BadUpdate || error instanceof BadLocation || error instanceof UnsupportedColumn)
    return badRequest(error.message)
  const { status, message, headers } = toAppError(error)
  return { status, type: TYPE_OF[status] ?? 'BadRequestException', message, headers }
}

const CHALLENGE = { 'www-authenticate': 'Bearer realm="sluice"' }

const TYPE_OF: Record<number, string> = {
  401: 'NotAuthorizedException',
  403: 'ForbiddenException',
  404: 'NotFoundException',
  409: 'AlreadyExistsException',
  429: 'SlowDownException',
  500: 'InternalServerError',
  503: 'ServiceUnavailableException',
}
