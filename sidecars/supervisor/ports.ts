import { createServer } from 'node:net'

/** A port that the operating system gives to nobody else until it is released. */
export type HeldPort = { port: number; release: () => Promise<void> }

/**
 * Holds a port, any free one unless it is named, by listening on it. Whoever takes it over after its release must still be
 * able to fail: another process may be faster.
 */
export const holdPort = (host = '127.0.0.1', port = 0) =>
  new Promise<HeldPort>((resolve, reject) => {
    const server = createServer((socket) => socket.destroy())
    server.once('error', reject)
    server.listen({ host, port, exclusive: true }, () => {
      const address = server.address()
      const closed = Promise.withResolvers<void>()
      resolve({
        port: typeof address === 'object' && address ? address.port : port,
        release: () => {
          server.close(() => closed.resolve())
          return closed.promise
        },
      })
    })
  })

/** A loopback port that is free now. */
export async function freePort(): Promise<number> {
  const held = await holdPort()
  await held.release()
  return held.port
}
