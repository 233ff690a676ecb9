import type { Interceptor, Transport } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { createConnectTransport } from '@connectrpc/connect-web'
import { sendsTrace } from '../../proto/trace.ts'

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
