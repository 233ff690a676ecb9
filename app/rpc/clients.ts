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
import { sendsTrace } from '../../ground/telemetry/trace.ts'
import { Health, HealthCheckResponse_ServingStatus } from '../../proto/gen/grpc/health/v1/health_pb.ts'
import { QueryService } from '../../proto/gen/sluice/query/v1/query_pb.ts'
import { type Cost, RunnerService } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { sendsToken } from '../../proto/sidecar-token.ts'
import type { EngineCost } from '../core/metrics.ts'

/** Called at the end of every call, with its method (`RunnerService/SubmitPipeline`), code and seconds. */
export type RpcObserver = (call: { method: string; code: string; seconds: number }) => void

export type RunnerClient = Client<typeof RunnerService>
export type QueryClient = Client<typeof QueryService>

/** Sandboxes of engine processes, weakest first (docs/security.md). */
export const ENGINE_SANDBOXES = ['none', 'seccomp', 'landlock'] as const
export type EngineSandbox = (typeof ENGINE_SANDBOXES)[number]
const ENGINE_SANDBOX_HEADER = 'engine-sandbox'
/** A health check names the API's address in this header. The sidecar refuses the check if it may not call that address. */
const API_ADDRESS_HEADER = 'sluice-api-address'
const WAITS_FOR_HEADER = 'waits-for'
const ENGINE_MEMORY_HEADER = 'engine-memory'

/** Memory of the engine processes of one sidecar. */
export interface EngineMemory {
  bytes: number
  /** The sum of the limits of the processes. */
  limitBytes: number
  /** The largest share of its limit that a process holds. */
  fullest: number
}

/** The settings that sidecars need from this API. */
export interface SidecarAccess {
  /** SIDECAR_TOKEN; null: calls carry no token, for runners in other languages that check none. */
  token: string | null
  /** Only these addresses receive the token; null: all. */
  tokenUrls: readonly string[] | null
  /** PUBLIC_URL: where sidecars reach this API. */
  publicUrl: string
}

/** A sidecar answers but refuses this API. The message contains no address, because everyone may read /health/ready. */
export class SidecarRefusal extends Error {}
const ENGINE_REFUSAL_HEADER = 'engine-refusal'
/** The format of our sidecars' refusals: no path, no address, no control character. Everyone may read /health/ready. */
const REFUSAL = /^[\w ,.:;=()-]{1,300}$/

export interface Remote<Service> {
  url: string
  service: Service
  /** Resolves to the sandbox of the engines when the service is serving; otherwise rejects. */
  check(signal?: AbortSignal): Promise<EngineSandbox | null>
  /** Why new work waits at this service, as of the last check; null: no work waits. */
  waitsFor?(): string | null
  /** The memory of its engines, as of the last check; null: unknown. */
  engineMemory?(): EngineMemory | null
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

/** The interval of pings on an idle connection. They detect a runner that vanished silently. */
const PING_MS = 5_000

/** Options for services that are not our sidecars. */
interface TransportBounds {
  /** Replaces the runtime's `fetch` in Connect. */
  fetch?: typeof fetch
  /** Uses Connect in JSON, so that the other side needs no generated code. */
  isJson?: boolean
  /** Maximum size of one gRPC response. */
  readMaxBytes?: number
}

/**
 * The transport to a sidecar: Connect over `http://` and `https://`, gRPC over `grpc://` and `grpcs://`. Calls carry their
 * request id and trace.
 */
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
  let memory: EngineMemory | null = null
  const check = async (signal?: AbortSignal) => {
    let sandbox: string | null = null
    let refusal = ''
    const onHeader = (headers: Headers) => {
      sandbox = headers.get(ENGINE_SANDBOX_HEADER)
      waitsFor = headers.get(WAITS_FOR_HEADER)?.slice(0, WAITS_FOR_LENGTH) ?? null
      refusal = headers.get(ENGINE_REFUSAL_HEADER) ?? ''
      memory = memoryIn(headers.get(ENGINE_MEMORY_HEADER) ?? '')
    }
    const { status } = await health
      .check({ service: '' }, { signal, headers, onHeader })
      .catch((error: unknown) => {
        memory = null
        return explain(error)
      })
    if (REFUSAL.test(refusal)) throw new SidecarRefusal(`executes nothing: ${refusal}`)
    if (status !== HealthCheckResponse_ServingStatus.SERVING)
      throw new Error(`not serving: health status ${HealthCheckResponse_ServingStatus[status]}`)
    return ENGINE_SANDBOXES.find((name) => name === sandbox) ?? null
  }
  return { check, waitsFor: () => waitsFor, engineMemory: () => memory }
}

/** The cost in an answer. A sidecar of another vendor may report any numbers. */
export const engineCostOf = ({ cpuSeconds, bytesRead, bytesWritten, peakMemoryBytes }: Cost): EngineCost => ({
  cpuSeconds: amountOf(cpuSeconds),
  bytesRead: amountOf(Number(bytesRead)),
  bytesWritten: amountOf(Number(bytesWritten)),
  peakMemoryBytes: amountOf(Number(peakMemoryBytes)),
})
const amountOf = (number: number) => (Number.isFinite(number) ? Math.max(0, number) : 0)

/** Three numbers with commas. A sidecar of another vendor may report none. */
function memoryIn(header: string): EngineMemory | null {
  const [bytes = Number.NaN, limitBytes = Number.NaN, fullest = Number.NaN] = header.split(',').map(Number)
  return [bytes, limitBytes, fullest].every((each) => Number.isFinite(each) && each >= 0)
    ? { bytes, limitBytes, fullest }
    : null
}

/** Longest reason shown to operators. */
const WAITS_FOR_LENGTH = 200

/** Throws the error, or a SidecarRefusal that names the setting to correct. */
function explain(error: unknown): never {
  const { code } = ConnectError.from(error)
  if (code === Code.Unauthenticated)
    throw new SidecarRefusal('rejects the token: set the same SIDECAR_TOKEN for the API and the sidecar', {
      cause: error,
    })
  if (code === Code.PermissionDenied)
    throw new SidecarRefusal(
      "rejects this API: add PUBLIC_URL to the sidecar's API_URLS, and the sidecar's host name to its SIDECAR_HOSTS",
      { cause: error },
    )
  throw error
}

/** Reports each call to `observe`. */
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
 * The meaning of a failed call. Only `noRoom`, `unreachable` and `notOffered` guarantee that the call had no effect. A sidecar
 * that refuses this API (SIDECAR_TOKEN, API_URLS, SIDECAR_HOSTS) counts as unreachable until its settings are correct.
 */
type RpcFailure = 'noRoom' | 'unreachable' | 'unknownHandle' | 'notOffered' | 'unclear'

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
