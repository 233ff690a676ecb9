/**
 * Serves Connect services over HTTP/1.1 together with the standard health service. Protocols are connect-json, connect-binary
 * and gRPC-web, for unary and server-streaming calls.
 */
import type { DescService } from '@bufbuild/protobuf'
import { Code, ConnectError, type ConnectRouter, createConnectRouter } from '@connectrpc/connect'
import { createFetchHandler } from '@connectrpc/connect/protocol'
import { continueTrace } from '../../ground/telemetry/spans.ts'
import {
  Health,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from '../../proto/gen/grpc/health/v1/health_pb.ts'
import type { EngineMemory } from '../engine/engine-pool.ts'
import { type Admit, answerOf } from './admission.ts'
import { unknownApi } from './api-addresses.ts'

/** The services of a sidecar, independent of the protocol. */
export interface ServedServices {
  /** The services that the health check knows. `register` gives the router their implementations. */
  services: readonly DescService[]
  register(router: ConnectRouter): void
  /** If false, the health check answers NOT_SERVING. */
  isServing(): boolean
  /** The sandbox of engine processes on this machine, reported by each health check. */
  engineSandbox?: string
  /**
   * Whether this is a known address of the API. Without this function every address is known. A health check refuses a caller
   * that names an unknown address.
   */
  knowsApi?(url: string): boolean
  /** The memory of the engine processes, reported by each health check. */
  engineMemory?(): EngineMemory
  /** The reason why new work waits here, reported by each health check. A serving sidecar may lack disk space, for example. */
  waitsFor?(): string | null
  /**
   * The reason why this sidecar may start no engine process, reported by each health check. Contains no path and no address.
   */
  refusal?: string
  /** The maximum size of one request message, in bytes. */
  readMaxBytes: number
}

export interface ConnectServerOptions extends ServedServices {
  host: string
  /** 0 means any free port. */
  port: number
  /** Decides about each call, health checks included, before any other work. Null admits every caller (tests, benchmarks). */
  admit: Admit | null
}

export interface ConnectServer {
  port: number
  url: string
  /** Stops accepting connections, ends streams as UNAVAILABLE, gives unary calls `drainMs`, and then closes all connections. */
  stop(drainMs: number): Promise<void>
}

/** The response header that carries `engineSandbox`. */
const ENGINE_SANDBOX_HEADER = 'engine-sandbox'
/** The request header of a health check in which an API names its own address. */
const API_ADDRESS_HEADER = 'sluice-api-address'
/** The response header that carries `waitsFor`. */
const WAITS_FOR_HEADER = 'waits-for'
/** The response header that carries `engineMemory`: its three numbers with commas. */
const ENGINE_MEMORY_HEADER = 'engine-memory'
/** The response header that carries `refusal`. */
const ENGINE_REFUSAL_HEADER = 'engine-refusal'

/** Streams send a heartbeat every 2 s and unary calls have deadlines, so a connection that is silent for longer is dead. */
const IDLE_TIMEOUT_SECONDS = 120

export function serveConnect(options: ConnectServerOptions): ConnectServer {
  const shutdown = new AbortController()
  const router = createConnectRouter({
    grpc: false,
    interceptors: [continueTrace],
    readMaxBytes: options.readMaxBytes,
    shutdownSignal: shutdown.signal,
  })
  registerAll(router, options, shutdown.signal)
  const handlers = new Map(
    router.handlers.map((handler) => [
      handler.requestPath,
      createFetchHandler(handler, { httpVersion: '1.1' }),
    ]),
  )

  const server = Bun.serve({
    hostname: options.host,
    port: options.port,
    idleTimeout: IDLE_TIMEOUT_SECONDS,
    // The protocol's own limit applies first, because its error has a message.
    maxRequestBodySize: 2 * options.readMaxBytes,
    fetch: (request) => {
      const refusal = options.admit?.(headersOf(request)) ?? null
      if (refusal !== null) {
        const { status, headers, body } = answerOf(refusal, request.headers.get('content-type'))
        return new Response(body, { status, headers })
      }
      const handler = handlers.get(new URL(request.url).pathname)
      return handler === undefined ? new Response('not found\n', { status: 404 }) : handler(request)
    },
    error: () => new Response('internal error\n', { status: 500 }),
  })

  return {
    port: server.port ?? options.port,
    url: server.url.origin,
    stop: async (drainMs) => {
      shutdown.abort(new ConnectError('the sidecar is stopping', Code.Unavailable))
      const { promise: drained, resolve } = Promise.withResolvers<void>()
      const deadline = setTimeout(resolve, drainMs)
      await Promise.race([server.stop(), drained])
      clearTimeout(deadline)
      await server.stop(true)
    },
  }
}

const headersOf = ({ headers }: Request) => ({
  hosts: [headers.get('host')],
  authorization: headers.get('authorization'),
})

/** Registers the services and the standard health service. */
export function registerAll(router: ConnectRouter, options: ConnectServerOptions, shutdown: AbortSignal) {
  options.register(router)
  registerHealth(router, options, shutdown)
}

function registerHealth(router: ConnectRouter, options: ConnectServerOptions, shutdown: AbortSignal): void {
  const names = new Set(['', Health.typeName, ...options.services.map(({ typeName }) => typeName)])
  router.service(Health, {
    check: ({ service }, { requestHeader, responseHeader }) => {
      const api = requestHeader.get(API_ADDRESS_HEADER)
      if (api !== null && options.knowsApi?.(api) === false) throw unknownApi()
      if (!names.has(service)) throw new ConnectError(`unknown service ${service}`, Code.NotFound)
      if (options.engineSandbox !== undefined)
        responseHeader.set(ENGINE_SANDBOX_HEADER, options.engineSandbox)
      const memory = options.engineMemory?.()
      if (memory !== undefined)
        responseHeader.set(ENGINE_MEMORY_HEADER, [memory.bytes, memory.limitBytes, memory.fullest].join())
      const waitsFor = options.waitsFor?.() ?? null
      if (waitsFor !== null) responseHeader.set(WAITS_FOR_HEADER, waitsFor)
      if (options.refusal !== undefined) responseHeader.set(ENGINE_REFUSAL_HEADER, options.refusal)
      const serving = !shutdown.aborted && options.isServing()
      return { status: serving ? ServingStatus.SERVING : ServingStatus.NOT_SERVING }
    },
  })
}
