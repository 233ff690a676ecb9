// Serves a sidecar over native gRPC, for callers and runners in other languages. gRPC needs HTTP/2 and therefore a port of its
// own.
import { once } from 'node:events'
import {
  createServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from 'node:http2'
import type { AddressInfo, Socket } from 'node:net'
import { Code, ConnectError } from '@connectrpc/connect'
import { connectNodeAdapter } from '@connectrpc/connect-node'
import { continueTrace } from '../../ground/telemetry/spans.ts'
import { answerOf } from './admission.ts'
import { type ConnectServer, type ConnectServerOptions, registerAll } from './connect.ts'

/** Serves without TLS. Rejects if the port is in use. */
export async function serveGrpc(options: ConnectServerOptions): Promise<ConnectServer> {
  const shutdown = new AbortController()
  const handler = connectNodeAdapter({
    interceptors: [continueTrace],
    routes: (router) => registerAll(router, options, shutdown.signal),
    readMaxBytes: options.readMaxBytes,
    shutdownSignal: shutdown.signal,
  })
  const server = createServer((request, response) => {
    const refusal = options.admit?.(headersOf(request)) ?? null
    if (refusal === null) return handler(request, response)
    refuse(response, answerOf(refusal, request.headers['content-type']))
  })
  const sessions = new Set<ServerHttp2Session>()
  const connections = new Set<Socket>()
  server.on('connection', (connection) => {
    connections.add(connection)
    connection.once('close', () => connections.delete(connection))
  })
  server.on('session', (session) => {
    sessions.add(session)
    session.once('close', () => sessions.delete(session))
    // A client may disconnect in the middle of a call. The error needs no handling.
    session.on('error', () => session.destroy())
  })
  server.listen(options.port, options.host)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  return {
    port,
    url: `grpc://${options.host.includes(':') ? `[${options.host}]` : options.host}:${port}`,
    async stop(drainMs) {
      shutdown.abort(new ConnectError('the sidecar is stopping', Code.Unavailable))
      const { promise: drained, resolve } = Promise.withResolvers<void>()
      const deadline = setTimeout(resolve, drainMs)
      const closed = new Promise<void>((done) => server.close(() => done()))
      for (const session of sessions) session.close()
      await Promise.race([closed, drained])
      clearTimeout(deadline)
      // Destroying a session that is already closing has no effect on some runtimes.
      for (const connection of connections) connection.destroy()
    },
  }
}

const headersOf = ({ headers }: Http2ServerRequest) => ({
  hosts: [headers[':authority'], headers.host],
  authorization: headers.authorization,
})

/** Answers and closes the stream, without reading the rest of the request. */
function refuse(response: Http2ServerResponse, { status, headers, body }: ReturnType<typeof answerOf>) {
  response.writeHead(status, headers)
  response.end(body, () => response.stream?.close())
}
