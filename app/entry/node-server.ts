// Serves web requests and responses through `node:http`, on Node and on Bun. srvx translates between the two. This file
// controls how a body is read: at the pace of its reader. A response before the end of the body leaves the connection usable.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { NodeRequest, NodeResponse, patchGlobalRequest, sendNodeResponse } from 'srvx/node'
import type { App } from '../composition/server.ts'
import { closeStalledAnswers } from '../http/stalled-answers.ts'
import type { Peer } from '../wire/client-address.ts'
import { namesOneHost } from '../wire/own-host.ts'
import { unresolved } from './file-addresses.ts'
import { HEADERS_SECONDS, IDLE_SECONDS, type Serving } from './process.ts'

/** Limits for draining an unread body. Beyond either limit, the connection is closed. */
const DRAINED_BYTES_MAX = 256 * 1_048_576
const DRAINED_MS = 30_000

/** Resolves when the server listens. */
export async function serveOnNode(
  app: App,
  { host, port }: { host: string; port: number },
): Promise<Serving> {
  // `new Request(request)` accepts a request of srvx only after this call.
  patchGlobalRequest()
  // `NodeResponse` sets the length of a text body, as other runtimes do.
  Object.assign(globalThis, { Response: NodeResponse })
  const stalled = closeStalledAnswers(IDLE_SECONDS * 1_000)
  /**
   * The end of the latest response of each connection. Pipelined requests wait for it: a server may execute them in parallel
   * only when all have safe methods (RFC 9112, 9.3.2).
   */
  const turns = new WeakMap<Socket, Promise<void>>()
  const handle = (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const { socket } = incoming
    const answered = (turns.get(socket) ?? Promise.resolve())
      .then(() => {
        if (socket.destroyed) return
        stalled.add(outgoing)
        return answer(app, incoming, outgoing)
      })
      // A request that cannot be answered must not end the process.
      .catch(() => void socket.destroy())
      .finally(() => stalled.delete(outgoing))
    turns.set(socket, answered)
  }
  const server = createServer(handle)
  // An unknown expectation is ignored, so that the credential is checked first.
  server.on('checkExpectation', handle)
  server.on('connect', (_, socket) => socket.end(refusal(405, 'Method Not Allowed')))
  // An upload may take any time while bytes arrive; the reader of its body enforces the timeouts.
  server.requestTimeout = 0
  server.headersTimeout = HEADERS_SECONDS * 1_000
  server.keepAliveTimeout = IDLE_SECONDS * 1_000
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port }, resolve)
  })
  return {
    drain: () => new Promise((resolve) => server.close(resolve)),
    async close() {
      stalled.stop()
      server.closeAllConnections()
    },
  }
}

async function answer(app: App, incoming: IncomingMessage, outgoing: ServerResponse) {
  // A proxy may choose another of several hosts than this service does (RFC 9112, 3.2).
  if (hostsIn(incoming) > 1 || !namesOneHost(incoming.url ?? '/', incoming.headers.host ?? '')) {
    // A write to the socket would overtake the responses to earlier requests.
    outgoing.writeHead(400, { connection: 'close', 'content-length': 0 }).end()
    return
  }
  incoming.url = unresolved(incoming.url ?? '/')
  const request = new RequestOfNode(incoming, outgoing)
  const response = await app.fetch(request, new PeerOfNode(incoming, outgoing))
  await sendNodeResponse(outgoing, isWithoutBody(response) ? bare(response) : response).catch(() =>
    outgoing.destroy(),
  )
  if (!incoming.complete && !incoming.destroyed) skipRequest(incoming)
}

/** Response to a request that never reaches the application; the connection then closes. */
const refusal = (status: number, reason: string) =>
  `HTTP/1.1 ${status} ${reason}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`

/** The number of `Host` headers. Names and values alternate in `rawHeaders`. */
const hostsIn = ({ rawHeaders }: IncomingMessage) =>
  rawHeaders.reduce((count, text, at) => (at % 2 === 0 && /^host$/i.test(text) ? count + 1 : count), 0)

class PeerOfNode implements Peer {
  constructor(
    private readonly incoming: IncomingMessage,
    private readonly outgoing: ServerResponse,
  ) {}

  get address() {
    return this.incoming.socket.remoteAddress ?? null
  }

  get isGone() {
    return this.outgoing.destroyed || this.incoming.socket.destroyed
  }
}

type Bytes = ReadableStream<Uint8Array<ArrayBuffer>>

/** Elysia sets an empty text as the body of these responses; its length must not be sent. */
const isWithoutBody = ({ status }: Response) => status === 204 || status === 304
const bare = ({ status, headers }: Response) => new NodeResponse(null, { status, headers })

class RequestOfNode extends NodeRequest {
  readonly #incoming: IncomingMessage
  #body: Bytes | null | undefined

  constructor(incoming: IncomingMessage, outgoing: ServerResponse) {
    super({ req: incoming, res: outgoing })
    this.#incoming = incoming
  }

  override get body() {
    this.#body ??= hasBody(this.#incoming) ? bodyOf(this.#incoming) : null
    return this.#body
  }
}

const hasBody = ({ method, headers }: IncomingMessage) =>
  method !== 'GET' &&
  method !== 'HEAD' &&
  (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0)

/** Reads one chunk per pull. Cancelling keeps the connection open, because the response uses it. */
function bodyOf(incoming: IncomingMessage): Bytes {
  let stopListening = () => {}
  return new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      start(controller) {
        incoming.pause()
        const onData = (chunk: Uint8Array<ArrayBuffer>) => {
          controller.enqueue(chunk)
          if ((controller.desiredSize ?? 0) <= 0) incoming.pause()
        }
        const end = () => {
          stopListening()
          controller.close()
        }
        const fail = (error?: Error) => {
          stopListening()
          controller.error(error ?? new Error('the client closed the connection'))
        }
        const close = () => fail()
        incoming.on('data', onData).on('end', end).on('error', fail).on('close', close)
        incoming.pause()
        stopListening = () => {
          incoming.off('data', onData).off('end', end).off('close', close)
        }
      },
      pull() {
        incoming.resume()
      },
      cancel() {
        stopListening()
        skipRequest(incoming)
      },
    },
    { highWaterMark: 0 },
  )
}

/** Drains the rest of a body, so that the connection can carry the next request. */
function skipRequest(incoming: IncomingMessage) {
  if (incoming.complete || incoming.destroyed || passedOver.has(incoming)) return
  passedOver.add(incoming)
  let bytes = 0
  const limit = setTimeout(() => incoming.socket.destroy(), DRAINED_MS)
  incoming.on('data', (chunk: Uint8Array) => {
    bytes += chunk.byteLength
    if (bytes > DRAINED_BYTES_MAX) incoming.socket.destroy()
  })
  incoming.once('close', () => clearTimeout(limit))
  incoming.on('error', () => {})
  incoming.resume()
}

const passedOver = new WeakSet<IncomingMessage>()
