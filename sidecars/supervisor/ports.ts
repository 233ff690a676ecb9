import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/** A port that the operating system gives to no other process until its release. */
export type HeldPort = { port: number; release: () => Promise<void> }

/**
 * The range of chosen ports. It ends below the ports of outgoing connections (from 32768 on Linux, from 49152 elsewhere). Any
 * connection could take such a port, at first and before each restart of the listener. The range starts above 10080, the
 * highest port that browsers block.
 */
const LOWEST = 10_100
const BEYOND = 32_768
const ATTEMPTS = 100

/**
 * Holds a port by listening on it: the given port, or any free one. The process that uses the port after its release must
 * handle a failure, because another process may be faster.
 */
export async function holdPort(host = '127.0.0.1', port?: number): Promise<HeldPort> {
  if (port !== undefined) return listenOn(host, port)
  for (let attempt = 1; ; attempt++) {
    try {
      return await listenOn(host, randomInt(LOWEST, BEYOND))
    } catch (error) {
      if (attempt === ATTEMPTS) throw error
    }
  }
}

const listenOn = (host: string, port: number) =>
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

/** Returns a loopback port that is free now. */
export async function freePort(): Promise<number> {
  const held = await holdPort()
  await held.release()
  return held.port
}
