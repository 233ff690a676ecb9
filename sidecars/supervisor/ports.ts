import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/** A port that the operating system gives to nobody else until it is released. */
export type HeldPort = { port: number; release: () => Promise<void> }

/**
 * Below those that systems give to the near end of a connection (Linux from 32768, others from 49152): such a port could be
 * taken by anybody's connection, at first and again whenever what listens on it is started anew. Above 10080, where browsers
 * do not go.
 */
const LOWEST = 10_100
const BEYOND = 32_768
const ATTEMPTS = 100

/**
 * Holds a port, any free one unless it is named, by listening on it. Whoever takes it over after its release must still be
 * able to fail: another process may be faster.
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

/** A loopback port that is free now. */
export async function freePort(): Promise<number> {
  const held = await holdPort()
  await held.release()
  return held.port
}
