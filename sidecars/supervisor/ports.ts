import { createServer } from 'node:net'

/**
 * Different loopback ports that are free now. Another process may take one before it is used: whoever uses it must be able
 * to fail.
 */
export async function freePorts(count: number): Promise<number[]> {
  const probes = await Promise.all(Array.from({ length: count }, openProbe))
  return Promise.all(probes.map((probe) => probe.close()))
}

export const freePort = async () => (await openProbe()).close()

const openProbe = () =>
  new Promise<{ close: () => Promise<number> }>((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      const port = typeof address === 'object' && address ? address.port : 0
      resolve({ close: () => new Promise((closed) => server.close(() => closed(port))) })
    })
  })
