// A small client of an Iceberg REST catalog, with only the calls that a run needs. Source: Iceberg REST catalog OpenAPI.

import { traceHeaders } from '../../../ground/telemetry/trace.ts'
import { pause } from '../../pause.ts'
import { parseJson, stringifyJson } from '../format/json.ts'
import { metadataFrom, type TableMetadata } from '../format/metadata.ts'
import type { CommitRequest } from '../format/wire.ts'
import { createViewBody, type StoredView, type ViewMetadata, viewMetadataFrom } from '../views/view.ts'

/** The number of attempts for a read-only call. The pause before the second attempt doubles for each further one. */
export const ATTEMPTS_LIMIT = 3
const FIRST_PAUSE_MS = 100
/** The timeout of one attempt. */
const CALL_TIMEOUT_MS = 30_000

/** The catalog answered with an error, or did not answer (status 0). */
export class CatalogError extends Error {
  override readonly name: string = 'CatalogError'
  constructor(
    readonly status: number,
    /** The catalog's name for the error, such as NoSuchTableException. */
    readonly type: string,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}
/** 404: no such table or namespace. */
export class NotFound extends CatalogError {
  override readonly name = 'NotFound'
}
/** 409: the table has changed since the commit was computed, or already exists. */
export class Conflict extends CatalogError {
  override readonly name = 'Conflict'
}
/** 5xx, 429, no answer or an invalid answer. A commit with this error may have succeeded: load the table to find out. */
export class ServerError extends CatalogError {
  override readonly name = 'ServerError'
}

export interface ClientOptions {
  /** The address before `/v1`, without a trailing slash: `http://127.0.0.1:8080/catalog`. */
  readonly baseUrl: string
  /** The path prefix of the warehouse's routes. */
  readonly prefix: string
  /** Sent as a bearer token. */
  readonly token: string
  /** Aborts every call and the pauses between attempts. */
  readonly signal?: AbortSignal
  readonly timeoutMs?: number
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>
}

/** A table by its namespace levels and name. */
export interface TableIdentifier {
  readonly namespace: readonly string[]
  readonly name: string
}

export interface LoadedTable {
  readonly metadata: TableMetadata
  /** Absent for a staged table, which has no metadata file yet. */
  readonly metadataLocation?: string
  readonly config: Readonly<Record<string, string>>
}

export interface CatalogClient {
  /** @throws NotFound */
  loadTable(table: TableIdentifier): Promise<LoadedTable>
  /**
   * Sends a commit and returns the table's config. Asks the catalog to omit the metadata from its answer (RFC 7240).
   * @throws Conflict, NotFound
   */
  commit(
    table: TableIdentifier,
    commit: Pick<CommitRequest, 'requirements' | 'updates'>,
  ): Promise<LoadedTable['config']>
  /** @throws NotFound */
  loadView(view: TableIdentifier): Promise<ViewMetadata>
  /** Stores a view in place of a view or table of the same name, and returns its config. @throws Conflict */
  storeView(view: TableIdentifier, stored: StoredView): Promise<LoadedTable['config']>
}

/** A client of one warehouse. Its calls throw CatalogError. */
export function catalogClient(options: ClientOptions): CatalogClient {
  const call = caller(options)
  const within = (namespace: readonly string[]) =>
    `/v1/${options.prefix}/namespaces/${encodeNamespace(namespace)}`
  const pathOf = ({ namespace, name }: TableIdentifier) =>
    `${within(namespace)}/tables/${encodeURIComponent(name)}`
  return {
    loadTable: async (table) => tableFrom(await call('GET', pathOf(table))),
    commit: async ({ namespace, name }, { requirements, updates }) => {
      const body = { identifier: { namespace, name }, requirements, updates }
      const path = pathOf({ namespace, name })
      return textsFrom(objectIn(await call('POST', path, body, { prefer: BRIEF }), 'config'))
    },
    loadView: async ({ namespace, name }) => {
      const path = `${within(namespace)}/views/${encodeURIComponent(name)}`
      return viewMetadataFrom(objectIn(await call('GET', path), 'metadata'))
    },
    storeView: async (view, stored) => {
      const answer = await call('POST', `${within(view.namespace)}/views`, createViewBody(view, stored))
      return textsFrom(objectIn(answer, 'config'))
    },
  }
}

/** Encodes the levels of a namespace for a path, joined by the unit separator. */
export const encodeNamespace = (levels: readonly string[]): string => encodeURIComponent(levels.join('\x1f'))

type Method = 'GET' | 'HEAD' | 'POST'
type Headers = Readonly<Record<string, string>>
type Call = (method: Method, path: string, body?: object, headers?: Headers) => Promise<unknown>

/** A value of the header `prefer`: the answer omits data that the client already has. */
export const BRIEF = 'return=minimal'

/** Sends calls, and retries read-only calls after a ServerError. */
export function caller(options: Omit<ClientOptions, 'prefix'>): Call {
  return async (method, path, body, headers) => {
    const attempts = method === 'POST' ? 1 : ATTEMPTS_LIMIT
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await callOnce(options, method, path, body, headers)
      } catch (error) {
        if (!(error instanceof ServerError) || attempt >= attempts) throw error
        await pause(FIRST_PAUSE_MS * 2 ** (attempt - 1), options.signal)
      }
    }
  }
}

async function callOnce(
  options: Omit<ClientOptions, 'prefix'>,
  method: Method,
  path: string,
  body?: object,
  extraHeaders?: Headers,
): Promise<unknown> {
  const { baseUrl, token, signal, timeoutMs = CALL_TIMEOUT_MS, fetch = globalThis.fetch } = options
  const timeout = AbortSignal.timeout(timeoutMs)
  try {
    const response = await fetch(`${baseUrl}${path}`, {
      method,
      headers: {
        accept: 'application/json',
        ...traceHeaders(),
        ...extraHeaders,
        ...(body && { 'content-type': 'application/json' }),
        authorization: `Bearer ${token}`,
      },
      ...(body && { body: stringifyJson(body) }),
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    })
    const text = await response.text()
    if (!response.ok) throw errorFrom(response.status, text)
    return text === '' ? undefined : parseJson(text)
  } catch (cause) {
    if (cause instanceof CatalogError || signal?.aborted) throw cause
    const reason = timeout.aborted ? `no answer within ${timeoutMs} ms` : messageOf(cause)
    throw new ServerError(0, 'NoAnswer', `the catalog does not answer ${method} ${path}: ${reason}`, {
      cause,
    })
  }
}

const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))

function errorFrom(status: number, text: string): CatalogError {
  const { message = `the catalog answered with status ${status}`, type = '' } = errorBody(text)
  if (status === 404) return new NotFound(status, type, message)
  if (status === 409) return new Conflict(status, type, message)
  if (status >= 500 || status === 429) return new ServerError(status, type, message)
  return new CatalogError(status, type, message)
}

/** Reads `{error: {message, type, code}}`. A proxy between client and catalog may send any other body. */
function errorBody(text: string): { message?: string; type?: string } {
  try {
    const error = member(parseJson(text), 'error')
    const [message, type] = [member(error, 'message'), member(error, 'type')]
    return { ...(typeof message === 'string' && { message }), ...(typeof type === 'string' && { type }) }
  } catch {
    return {}
  }
}

const member = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined

function objectIn(response: unknown, name: 'metadata' | 'config'): object {
  const value = member(response, name)
  if (typeof value === 'object' && value !== null) return value
  throw new ServerError(200, 'BadAnswer', `the answer of the catalog contains no table ${name}`)
}

export function tableFrom(value: unknown): LoadedTable {
  const metadata = objectIn(value, 'metadata')
  const metadataLocation = member(value, 'metadata-location')
  return {
    metadata: metadataFrom(metadata),
    ...(typeof metadataLocation === 'string' && { metadataLocation }),
    config: textsFrom(member(value, 'config')),
  }
}

function textsFrom(value: unknown): Record<string, string> {
  const entries = typeof value === 'object' && value !== null ? Object.entries(value) : []
  return Object.fromEntries(
    entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
}
