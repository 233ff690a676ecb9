import type { Settings } from '../core/settings.ts'
import { makeAdmission } from './admission.ts'
import { makeApiAddresses } from './api-addresses.ts'
import { type ServedServices, serveConnect } from './connect.ts'
import { serveGrpc } from './grpc.ts'

/**
 * Serves over Connect, and over native gRPC on a separate port unless gRPC is off. Admits only callers with the token and a
 * known Host.
 */
export async function serveRpc(
  { host, port, grpcPort, token, otherHosts, apiUrls }: Settings,
  services: ServedServices,
) {
  const admit = makeAdmission({ token, host, otherHosts })
  const served = { ...services, knowsApi: makeApiAddresses(apiUrls).includes, host, admit }
  const servers = [serveConnect({ ...served, port })]
  if (grpcPort !== null) servers.push(await serveGrpc({ ...served, port: grpcPort }))
  return {
    urls: servers.map(({ url }) => url),
    async stop(drainMs: number) {
      await Promise.all(servers.map((server) => server.stop(drainMs)))
    },
  }
}
