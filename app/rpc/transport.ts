import type { Interceptor, Transport } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { createConnectTransport } from '@connectrpc/connect-web'

/** Whether an idle connection is still there: a runner that vanished without a word is noticed by this. */
const PING_MS = 5_000

/** The way to a sidecar: Connect over `http://` and `https://`, gRPC over `grpc://` and `grpcs://`. */
export function transportTo(url: string, interceptors: Interceptor[]): Transport {
  if (!/^grpcs?:/.test(url))
    return createConnectTransport({ baseUrl: url, useBinaryFormat: true, interceptors })
  const baseUrl = url.replace(/^grpc/, 'http')
  return createGrpcTransport({ baseUrl, interceptors, pingIntervalMs: PING_MS, pingTimeoutMs: PING_MS })
}
