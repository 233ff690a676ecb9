import { create, type DescMethodUnary } from '@bufbuild/protobuf'
import {
  Code,
  ConnectError,
  createContextValues,
  type Interceptor,
  type Transport,
  type UnaryRequest,
  type UnaryResponse,
} from '@connectrpc/connect'
import { createClientMethodSerializers, createMethodUrl } from '@connectrpc/connect/protocol'
import {
  contentTypeUnaryProto,
  errorFromJson,
  headerProtocolVersion,
  protocolVersion,
  trailerDemux,
  validateResponse,
} from '@connectrpc/connect/protocol-connect'
import { createConnectTransport } from '@connectrpc/connect-web'

/**
 * Connect's calls of one binary message and one answer without what the library does for calls of any kind, which costs a small
 * one more than its work. Streams, and calls with a deadline or headers of their own, are the library's.
 */
export function plainTransport(baseUrl: string, interceptors: Interceptor[]): Transport {
  const library = createConnectTransport({ baseUrl, useBinaryFormat: true, interceptors })
  const intercepted = interceptors.reduceRight<Parameters<Interceptor>[0]>(
    (next, interceptor) => interceptor(next),
    (request) => {
      if (request.stream) throw new TypeError('a stream is no plain call')
      return asked(request)
    },
  )
  return {
    stream: library.stream,
    async unary(method, signal, timeoutMs, header, input, contextValues) {
      if (timeoutMs !== undefined || header !== undefined)
        return library.unary(method, signal, timeoutMs, header, input, contextValues)
      const request = {
        stream: false as const,
        service: method.parent,
        method,
        requestMethod: 'POST',
        url: createMethodUrl(baseUrl, method),
        header: new Headers({
          'content-type': contentTypeUnaryProto,
          [headerProtocolVersion]: protocolVersion,
        }),
        contextValues: contextValues ?? createContextValues(),
        signal: signal ?? new AbortController().signal,
        message: create(method.input, input),
      }
      try {
        return (await intercepted(request)) as UnaryResponse<typeof method.input, typeof method.output>
      } catch (error) {
        throw signal?.aborted ? ConnectError.from(signal.reason, Code.Canceled) : ConnectError.from(error)
      }
    },
  }
}

type Serializers = ReturnType<typeof createClientMethodSerializers>
const known = new WeakMap<DescMethodUnary, Serializers>()

function serializersOf(method: DescMethodUnary): Serializers {
  const serializers = known.get(method) ?? createClientMethodSerializers(method, true)
  known.set(method, serializers)
  return serializers
}

async function asked({ method, url, header, signal, message }: UnaryRequest): Promise<UnaryResponse> {
  const { serialize, parse } = serializersOf(method)
  // Nobody shares its memory.
  const body = serialize(message) as Uint8Array<ArrayBuffer>
  const response = await fetch(url, { method: 'POST', redirect: 'error', headers: header, signal, body })
  const { isUnaryError, unaryError } = validateResponse('unary', true, response.status, response.headers)
  const [headers, trailer] = trailerDemux(response.headers)
  if (isUnaryError) {
    for (const [name, value] of trailer) headers.append(name, value)
    throw errorFromJson(await response.json(), headers, unaryError)
  }
  const answer = parse(new Uint8Array(await response.arrayBuffer()))
  return { stream: false, service: method.parent, method, header: headers, trailer, message: answer }
}
