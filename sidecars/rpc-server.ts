import { type ServedServices, serveConnect } from './connect.ts'
import { serveGrpc } from './grpc.ts'
import type { Settings } from './settings.ts'

/** Serves over Connect and, unless that is switched off, over native gRPC on a port of its own. */
export async function serveRpc({ host, port, grpcPort }: Settings, services: ServedServices) {
  const servers = [serveConnect({ ...services, host, port })]
  if (grpcPort !== null) servers.push(await serveGrpc({ ...services, host, port: grpcPort }))
  return {
    urls: servers.map(({ url }) => url),
    async stop(drainMs: number) {
      await Promise.all(servers.map((server) => server.stop(drainMs)))
    },
  }
}
