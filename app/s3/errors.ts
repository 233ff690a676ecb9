// Refusals in the format of S3. Source: Amazon S3 API Reference, "Error responses".

import { AppError, type ErrorCode, type ErrorStatus } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { toAppError } from '../wire/error-response.ts'
import { element, xmlResponse } from './xml.ts'

/** The names of S3 and their statuses. */
const STATUS_OF = {
  AccessDenied: 403,
  AuthorizationHeaderMalformed: 400,
  AuthorizationQueryParametersError: 400,
  BadDigest: 400,
  EntityTooLarge: 400,
  ExpiredToken: 400,
  IncompleteBody: 400,
  InternalError: 500,
  InvalidAccessKeyId: 403,
  InvalidArgument: 400,
  InvalidPart: 400,
  InvalidPartOrder: 400,
  InvalidRequest: 400,
  InvalidToken: 400,
  InvalidURI: 400,
  KeyTooLongError: 400,
  MalformedXML: 400,
  MethodNotAllowed: 405,
  NoSuchBucket: 404,
  NoSuchKey: 404,
  NoSuchUpload: 404,
  NotImplemented: 501,
  PreconditionFailed: 412,
  RequestTimeTooSkewed: 403,
  ServiceUnavailable: 503,
  SignatureDoesNotMatch: 403,
  SlowDown: 503,
  XAmzContentSHA256Mismatch: 400,
} as const satisfies Record<string, ErrorStatus>

type S3Code = keyof typeof STATUS_OF | 'InvalidRange'

const CODE_OF: Partial<Record<ErrorStatus, ErrorCode>> = {
  400: 'INVALID_ARGUMENT',
  403: 'AUTHORIZATION',
  404: 'NOT_FOUND',
  500: 'INTERNAL',
}

/** A refusal with the name that S3 gives it. */
export class S3Error extends AppError {
  constructor(
    readonly s3Code: Exclude<S3Code, 'InvalidRange'>,
    message: string,
    options?: ConstructorParameters<typeof AppError>[3],
  ) {
    const status = STATUS_OF[s3Code]
    super(status, CODE_OF[status] ?? 'FAILED_PRECONDITION', message, options)
  }
}

export const accessDenied = (message = 'Access Denied') => new S3Error('AccessDenied', message)

export const taken = () =>
  new S3Error(
    'PreconditionFailed',
    'The key is or was in use, and files of the lake never change: use a new name.',
  )

export const branchEnded = (branch: string) =>
  accessDenied(`Access Denied: branch ${branch} was merged or deleted, and these credentials ended with it`)

/** Parts of a request that a refusal names. */
export interface RefusedRequest {
  path: string
  requestId: string
}

/** The response to a refused request. */
export function s3Error(error: AppError, request: RefusedRequest): Response {
  const refusal = error instanceof S3Error ? error : translated(error)
  return refusalWith(refusal.s3Code, refusal.message, refusal.status, { ...request, headers: error.headers })
}

/** The response to a request that failed in its handler. Logs errors with status 500 or above. */
export function s3Failure(error: unknown, request: RefusedRequest, log: Log): Response {
  const known = toAppError(error)
  if (known.status >= 500 && !(known instanceof S3Error)) log.error('S3 request failed', { error })
  return s3Error(known, request)
}

/** A refusal by the exchange: it knows no names of S3. */
function translated(error: AppError): S3Error {
  const name = NAME_OF[error.status] ?? (error.status < 500 ? 'InvalidRequest' : 'InternalError')
  return new S3Error(name, error.message)
}

const NAME_OF: Partial<Record<ErrorStatus, Exclude<S3Code, 'InvalidRange'>>> = {
  401: 'AccessDenied',
  403: 'AccessDenied',
  404: 'NoSuchKey',
  405: 'MethodNotAllowed',
  413: 'EntityTooLarge',
  429: 'SlowDown',
  503: 'ServiceUnavailable',
  507: 'ServiceUnavailable',
}

/** The XML of a refusal. A response to HEAD has no body, so the server drops it. */
export function refusalWith(
  code: S3Code,
  message: string,
  status: number,
  { path, requestId, headers = {} }: RefusedRequest & { headers?: Record<string, string> },
): Response {
  const body = element('Error', [
    element('Code', code),
    element('Message', message),
    element('Resource', path),
    element('RequestId', requestId),
  ])
  return xmlResponse(body, status, { ...headers, 'x-amz-request-id': requestId })
}
