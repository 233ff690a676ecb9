import {
  type Client,
  Code,
  ConnectError,
  createClient,
  type Interceptor,
  type Transport,
} from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { createConnectTransport } from '@connectrpc/connect-web'
import { Health, HealthCheckResponse_ServingStatus } from '../../proto/gen/grpc/health/v1/health_pb.ts'
import { QueryService } from '../../proto/gen/sluice/query/v1/query_pb.ts'
import { RunnerService } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { sendsToken } from '../../proto/sidecar-token.ts'
import { sendsTrace } from '../../proto/trace.ts'

/** Told of every call that has ended: its method (`RunnerService/SubmitPipeline`), code and seconds. */
export type RpcObserver = (call: { method: string; code: string; seconds: number }) => void

export type RunnerClient = Client<typeof RunnerService>
export type QueryClient = Client<typeof QueryService>

/** The walls around engine processes, the weakest first (docs/security.md). */
export const ENGINE_SANDBOXES = ['none', 'seccomp', 'landlock'] as const
export type EngineSandbox = (typeof ENGINE_SANDBOXES)[number]
const ENGINE_SANDBOX_HEADER = 'engine-sandbox'
/** A health check names the API's address in this header: the sidecar refuses if it may not call that address. */
const API_ADDRESS_HEADER = 'sluice-api-address'
const WAITS_FOR_HEADER = 'waits-for'

/** The settings that sidecars need from this API. */
export interface SidecarAccess {
  /** SIDECAR_TOKEN; null: calls carry none, for runners in other languages that check none. */
  token: string | null
  /** The only addresses that get the token; null: all. */
  tokenUrls: readonly string[] | null
  /** PUBLIC_URL: where sidecars reach this API. */
  publicUrl: string
}

/** A sidecar that answers, but not to this API. The message holds no address: anybody may read it at /health/ready. */
export class SidecarRefusal extends Error {}
const ENGINE_REFUSAL_HEADER = 'engine-refusal'
/** As our sidecars write it: no path, no address, no control character. Anybody may read it in /health/ready. */
const REFUSAL = /^[\w ,.:;=()-]{1,300}$/

export interface Remote<Service> {
  url: string
  service: Service
  /** Resolves when the service says it is serving, to what it says its engines run behind; else throws. */
  check(signal?: AbortSignal): Promise<EngineSandbox | null>
  /** Why new work waits there, as of the last check; null: it does not. */
  waitsFor?(): string | null
}

export function runnerAt(url: string, observe: RpcObserver, access: SidecarAccess): Remote<RunnerClient> {
  const transport = transportOf(url, observe, access)
  return { url, service: createClient(RunnerService, transport), ...checkOver(transport, access) }
}

export function queryAt(url: string, observe: RpcObserver, access: SidecarAccess): Remote<QueryClient> {
  const transport = transportOf(url, observe, access)
  return { url, service: createClient(QueryService, transport), ...checkOver(transport, access) }
}

function transportOf(url: string, observe: RpcObserver, { token, tokenUrls }: SidecarAccess) {
  const isSent = token !== null && (tokenUrls === null || tokenUrls.includes(url))
  return transportTo(url, [...(isSent ? [sendsToken(token)] : []), observed(observe)])
}

/** Whether an idle connection is still there: a runner that vanished without a word is noticed by this. */
const PING_MS = 5_000

/** For who is not one of our sidecars. */
export interface TransportBounds {
  /** Of Connect, in place of the runtime's. */
  fetch?: typeof fetch
  /** Connect in JSON, which needs no generated code on the other side. */
  isJson?: boolean
  /** One answer over gRPC. */
  readMaxBytes?: number
}

/** The way to a sidecar: Connect over `http://` and `https://`, gRPC over `grpc://` and `grpcs://`. Calls say what they belong to. */
export function transportTo(
  url: string,
  others: Interceptor[],
  { fetch, isJson = false, readMaxBytes }: TransportBounds = {},
): Transport {
  const interceptors = [sendsTrace, ...others]
  if (!/^grpcs?:/.test(url))
    return createConnectTransport({ baseUrl: url, useBinaryFormat: !isJson, interceptors, fetch })
  const baseUrl = url.replace(/^grpc/, 'http')
  const pings = { pingIntervalMs: PING_MS, pingTimeoutMs: PING_MS }
  return createGrpcTransport({ baseUrl, interceptors, readMaxBytes, ...pings })
}

const checkOver = (transport: Transport, { publicUrl }: SidecarAccess) => {
  const health = createClient(Health, transport)
  const headers = { [API_ADDRESS_HEADER]: publicUrl }
  let waitsFor: string | null = null
  const check = async (signal?: AbortSignal) => {
    let told: string | null = null
    let refusal = ''
    const onHeader = (headers: Headers) => {
      told = headers.get(ENGINE_SANDBOX_HEADER)
      waitsFor = headers.get(WAITS_FOR_HEADER)?.slice(0, WAITS_FOR_LENGTH) ?? null
      refusal = headers.get(ENGINE_REFUSAL_HEADER) ?? ''
    }
    const { status } = await health.check({ service: '' }, { signal, headers, onHeader }).catch(explain)
    if (REFUSAL.test(refusal)) throw new SidecarRefusal(`executes nothing: ${refusal}`)
    if (status !== HealthCheckResponse_ServingStatus.SERVING) throw new Error('not serving')
    return ENGINE_SANDBOXES.find((known) => known === told) ?? null
  }
  return { check, waitsFor: () => waitsFor }
}
/** Longest reason shown to operators. */
const WAITS_FOR_LENGTH = 200

/** Throws the error, or in words of ours what has to be set right. */
function explain(error: unknown): never {
  const { code } = ConnectError.from(error)
  if (code === Code.Unauthenticated)
    throw new SidecarRefusal('refuses the token: set the same SIDECAR_TOKEN there and here', { cause: error })
  if (code === Code.PermissionDenied)
    throw new SidecarRefusal(
      'refuses this API: its API_URLS must list our PUBLIC_URL, and its SIDECAR_HOSTS the name we call it by',
      { cause: error },
    )
  throw error
}

/** Tells of each call. */
export const observed =
  (observe: RpcObserver): Interceptor =>
  (next) =>
  async (request) => {
    const started = performance.now()
    const end = (code: string) =>
      observe({
        method: `${request.service.typeName.split('.').at(-1)}/${request.method.name}`,
        code,
        seconds: (performance.now() - started) / 1000,
      })
    try {
      const response = await next(request)
      end('ok')
      return response
    } catch (error) {
      end(Code[ConnectError.from(error).code].toLowerCase())
      throw error
    }
  }

/**
 * What a failed call tells: only `noRoom`, `unreachable` and `notOffered` are certain not to have been acted upon. A sidecar that
 * refuses this API (SIDECAR_TOKEN, API_URLS, SIDECAR_HOSTS) is as good as unreachable until somebody sets that right.
 */
export type RpcFailure = 'noRoom' | 'unreachable' | 'unknownHandle' | 'notOffered' | 'unclear'

export function failureOf(error: unknown): RpcFailure {
  const { code, cause } = ConnectError.from(error)
  if (code === Code.ResourceExhausted) return 'noRoom'
  if (code === Code.NotFound) return 'unknownHandle'
  if (code === Code.Unimplemented) return 'notOffered'
  if (isRefusedCaller(code)) return 'unreachable'
  const reason = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  return reason === 'ConnectionRefused' || reason === 'ECONNREFUSED' ? 'unreachable' : 'unclear'
}

/** Codes of a sidecar that does not serve this caller. The call had no effect. */
export const isRefusedCaller = (code: Code): boolean =>
  code === Code.Unauthenticated || code === Code.PermissionDenied
