import type { Interceptor, Transport } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { createConnectTransport } from '@connectrpc/connect-web'
import { sendsTrace } from '../../proto/trace.ts'

/** Whether an idle connection is still there: a runner that vanished without a word is noticed by this. */
const PING_MS = 5_000

/** The way to a sidecar: Connect over `http://` and `https://`, gRPC over `grpc://` and `grpcs://`. Calls say what they belong to. */
export function transportTo(url: string, others: Interceptor[]): Transport {
  const interceptors = [sendsTrace, ...others]
  if (!/^grpcs?:/.test(url))
    return createConnectTransport({ baseUrl: url, useBinaryFormat: true, interceptors })
  const baseUrl = url.replace(/^grpc/, 'http')
  return createGrpcTransport({ baseUrl, interceptors, pingIntervalMs: PING_MS, pingTimeoutMs: PING_MS })
}
