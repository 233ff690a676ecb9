// A proxy in front of an S3 server. It passes requests on unchanged, so that their signatures stay valid, and breaks those that a
// test chooses.
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type Fault =
  /** The proxy answers 503 SlowDown; the server never sees the request. */
  | 'slow down'
  /** The proxy answers 400 ExpiredToken. */
  | 'expired token'
  /** The connection ends after the first bytes of the request's body. */
  | 'cut request'
  /** The server executes the request, but its answer is lost. */
  | 'lose answer'
  /** The connection ends in the middle of the answer's body. */
  | 'cut answer'
  /** The answer is passed on only when `release` is called. */
  | 'hold'

/** The part of a request that a test may look at. The path includes the query. */
export interface Seen {
  method: string
  path: string
  range: string | undefined
}

export interface FaultyS3 {
  url: string
  /** Chooses the fault of each request from now on. */
  choose(faultOf: (request: Seen) => Fault | undefined): void
  /** All requests so far, in order. */
  seen: Seen[]
  /** The number of requests that wait for `release`. */
  held(): number
  /** Passes on all held answers, and holds no further ones. */
  release(): void
  stop(): Promise<void>
}

export async function startFaultyS3(target: string): Promise<FaultyS3> {
  const { hostname, port } = new URL(target)
  const seen: Seen[] = []
  let faultOf: (request: Seen) => Fault | undefined = () => undefined
  let waiting: (() => void)[] | null = []

  async function pass(incoming: IncomingMessage, outgoing: ServerResponse) {
    const { method = '', url: path = '', headers } = incoming
    const one = { method, path, range: headers.range }
    seen.push(one)
    const fault = faultOf(one)
    if (fault === 'slow down' || fault === 'expired token') {
      incoming.resume()
      const [status, code] = fault === 'slow down' ? [503, 'SlowDown'] : [400, 'ExpiredToken']
      const text = `<Error><Code>${code}</Code><Message>${code}</Message></Error>`
      return outgoing.writeHead(status, { 'content-type': 'application/xml' }).end(text)
    }
    if (fault === 'cut request') {
      incoming.once('data', () => incoming.socket.destroy())
      return
    }
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const onward = request({ hostname, port, method, path, headers }, resolve)
      onward.on('error', reject)
      incoming.pipe(onward)
    })
    if (fault === 'lose answer') return void incoming.socket.destroy()
    if (fault === 'hold' && waiting !== null) {
      const queue = waiting
      await new Promise<void>((resolve) => queue.push(resolve))
    }
    outgoing.writeHead(answer.statusCode ?? 502, answer.rawHeaders)
    if (fault !== 'cut answer') return void answer.pipe(outgoing)
    answer.once('data', (chunk: Buffer) => {
      outgoing.write(chunk.subarray(0, Math.ceil(chunk.byteLength / 2)), () => incoming.socket.destroy())
      answer.destroy()
    })
  }

  const server = createServer((incoming, outgoing) => {
    pass(incoming, outgoing).catch(() => incoming.socket.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    choose(next) {
      faultOf = next
    },
    seen,
    held: () => waiting?.length ?? 0,
    release() {
      const held = waiting ?? []
      waiting = null
      for (const resolve of held) resolve()
    },
    async stop() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
