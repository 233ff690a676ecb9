import {
  type Client,
  Code,
  ConnectError,
  createClient,
  type Interceptor,
  type Transport,
} from '@connectrpc/connect'
import { Health, HealthCheckResponse_ServingStatus } from '../../proto/gen/grpc/health/v1/health_pb.ts'
import { QueryService } from '../../proto/gen/sluice/query/v1/query_pb.ts'
import { RunnerService } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { transportTo } from './transport.ts'

/** Told of every call that has ended: its method (`RunnerService/SubmitPipeline`), code and seconds. */
export type RpcObserver = (call: { method: string; code: string; seconds: number }) => void

export type RunnerClient = Client<typeof RunnerService>
export type QueryClient = Client<typeof QueryService>

/** The walls around engine processes, the weakest first (docs/security.md). */
export const ENGINE_SANDBOXES = ['none', 'seccomp', 'landlock'] as const
export type EngineSandbox = (typeof ENGINE_SANDBOXES)[number]
const ENGINE_SANDBOX_HEADER = 'engine-sandbox'

export interface Remote<Service> {
  url: string
  service: Service
  /** Resolves when the service says it is serving, to what it says its engines run behind; else throws. */
  check(signal?: AbortSignal): Promise<EngineSandbox | null>
}

export function runnerAt(url: string, observe: RpcObserver): Remote<RunnerClient> {
  const transport = transportTo(url, [observed(observe)])
  return { url, service: createClient(RunnerService, transport), check: checkOver(transport) }
}

export function queryAt(url: string, observe: RpcObserver): Remote<QueryClient> {
  const transport = transportTo(url, [observed(observe)])
  return { url, service: createClient(QueryService, transport), check: checkOver(transport) }
}

const checkOver = (transport: Transport) => {
  const health = createClient(Health, transport)
  return async (signal?: AbortSignal) => {
    let told: string | null = null
    const onHeader = (headers: Headers) => {
      told = headers.get(ENGINE_SANDBOX_HEADER)
    }
    const { status } = await health.check({ service: '' }, { signal, onHeader })
    if (status !== HealthCheckResponse_ServingStatus.SERVING) throw new Error('not serving')
    return ENGINE_SANDBOXES.find((known) => known === told) ?? null
  }
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

/** What a failed call tells: only `noRoom`, `unreachable` and `notOffered` are certain not to have been acted upon. */
export type RpcFailure = 'noRoom' | 'unreachable' | 'unknownHandle' | 'notOffered' | 'unclear'

export function failureOf(error: unknown): RpcFailure {
  const { code, cause } = ConnectError.from(error)
  if (code === Code.ResourceExhausted) return 'noRoom'
  if (code === Code.NotFound) return 'unknownHandle'
  if (code === Code.Unimplemented) return 'notOffered'
  const reason = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  return reason === 'ConnectionRefused' || reason === 'ECONNREFUSED' ? 'unreachable' : 'unclear'
}
