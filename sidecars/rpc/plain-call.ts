import { create } from '@bufbuild/protobuf'
import {
  Code,
  ConnectError,
  type ConnectRouter,
  createContextValues,
  createServiceImplSpec,
  type HandlerContext,
  type MethodImplSpec,
} from '@connectrpc/connect'
import {
  createLinkedAbortController,
  createMethodSerializationLookup,
  createMethodUrl,
  mergeNonProtocolHeaders,
} from '@connectrpc/connect/protocol'
import {
  codeToHttpStatus,
  contentTypeUnaryJson,
  contentTypeUnaryProto,
  errorToJsonBytes,
  headerTimeout,
  headerUnaryEncoding,
  trailerMux,
} from '@connectrpc/connect/protocol-connect'
import { inTrace, traceOf } from '../../proto/trace.ts'

// Connect's calls of one binary message and one answer, as our own API makes them: nothing of them is up for negotiation, and
// what the library does to negotiate it costs a small call more than its work. Every other call is the library's.

type UnarySpec = Extract<MethodImplSpec, { kind: 'unary' }>
export type PlainCall = (request: Request) => Promise<Response>

export interface PlainCalls {
  /** By path. */
  readonly calls: ReadonlyMap<string, PlainCall>
  /** Registers with the library, too. */
  readonly router: ConnectRouter
}

export interface PlainOptions {
  /** One message. */
  readMaxBytes: number
  shutdown: AbortSignal
}

/** As much as the library writes. */
const WRITE_MAX_BYTES = 0xffffffff

export function plainCallsOf(library: ConnectRouter, options: PlainOptions): PlainCalls {
  const calls = new Map<string, PlainCall>()
  const note = (spec: MethodImplSpec | undefined) => {
    if (spec?.kind === 'unary') calls.set(createMethodUrl('/', spec.method), plainCall(spec, options))
  }
  const router: ConnectRouter = {
    handlers: library.handlers,
    service(service, implementation, options) {
      library.service(service, implementation, options)
      for (const spec of Object.values(createServiceImplSpec(service, implementation).methods)) note(spec)
      return this
    },
    rpc(method, implementation, options) {
      library.rpc(method, implementation, options)
      calls.delete(createMethodUrl('/', method))
      return this
    },
  }
  return { calls, router }
}

/** Whether a request whose length is known is one of them. */
export const isPlain = ({ method, headers }: Request): boolean =>
  method === 'POST' &&
  headers.get('content-type') === contentTypeUnaryProto &&
  !headers.has(headerUnaryEncoding) &&
  !headers.has(headerTimeout)

function plainCall({ method, impl }: UnarySpec, options: PlainOptions): PlainCall {
  const { getI, getO } = createMethodSerializationLookup(method, undefined, undefined, {
    readMaxBytes: options.readMaxBytes,
    writeMaxBytes: WRITE_MAX_BYTES,
  })
  const [input, output] = [getI(true), getO(true)]
  return async (request) => {
    const ending = createLinkedAbortController(request.signal, options.shutdown)
    const context: HandlerContext = {
      service: method.parent,
      method,
      protocolName: 'connect',
      requestMethod: request.method,
      url: request.url,
      requestHeader: request.headers,
      responseHeader: new Headers({ 'content-type': contentTypeUnaryProto }),
      responseTrailer: new Headers(),
      signal: ending.signal,
      timeoutMs: () => undefined,
      values: createContextValues(),
    }
    try {
      const message = input.parse(new Uint8Array(await request.arrayBuffer()))
      const answer = await inTrace(
        () => traceOf(request.headers),
        () => impl(message, context),
      )
      // Nobody shares its memory.
      const body = output.serialize(create(method.output, answer)) as Uint8Array<ArrayBuffer>
      return new Response(body, { headers: trailerMux(context.responseHeader, context.responseTrailer) })
    } catch (error) {
      return refusal(error, context)
    } finally {
      // What still listens would be kept for as long as the process lives.
      ending.abort()
    }
  }
}

function refusal(thrown: unknown, { responseHeader, responseTrailer }: HandlerContext): Response {
  const error = thrown instanceof ConnectError ? thrown : new ConnectError('internal error', Code.Internal)
  responseHeader.set('content-type', contentTypeUnaryJson)
  mergeNonProtocolHeaders(responseHeader, error.metadata)
  return new Response(new Uint8Array(errorToJsonBytes(error, undefined)), {
    status: codeToHttpStatus(error.code),
    headers: trailerMux(responseHeader, responseTrailer),
  })
}
