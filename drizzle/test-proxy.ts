// For tests: a proxy between a client and Postgres that can freeze or cut connections.
import net from 'node:net'

export interface TestProxy {
  /** The database URL with the address of this proxy. */
  url: string
  /** Both sockets of every connection, the client's first. */
  sockets: ReadonlySet<net.Socket>
  /** Stops all traffic in both directions without closing a connection. */
  freeze(): void
  thaw(): void
  /** Ends all connections without a message. */
  cut(): void
  close(): void
}

/** `isPassed` decides for each chunk from a client; the proxy drops the others. */
export async function startTestProxy(
  databaseUrl: string,
  isPassed: (piece: string | Buffer) => boolean = () => true,
): Promise<TestProxy> {
  const sockets = new Set<net.Socket>()
  let isFrozen = false
  const { hostname, port } = new URL(databaseUrl)
  const proxy = net.createServer((client) => {
    const server = net.connect(Number(port), hostname)
    client.on('data', (piece) => {
      if (isPassed(piece)) server.write(piece)
    })
    server.pipe(client)
    for (const socket of [client, server]) {
      sockets.add(socket)
      if (isFrozen) socket.pause()
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        server.destroy()
      })
    }
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  const bound = proxy.address()
  const address = new URL(databaseUrl)
  address.port = String(typeof bound === 'object' ? bound?.port : 0)
  return {
    url: address.href,
    sockets,
    freeze() {
      isFrozen = true
      for (const socket of sockets) socket.pause()
    },
    thaw() {
      isFrozen = false
      for (const socket of sockets) socket.resume()
    },
    cut() {
      for (const socket of sockets) socket.destroy()
    },
    close: () => proxy.close(),
  }
}
