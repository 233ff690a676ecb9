// A complete plugin. It authenticates users, authorizes their routes, decides about single resources and stores grants.
//
// Start: `PLUGIN_TOKEN=... node .setup/bun.mjs examples/plugin/main.ts`. See README.md beside this file.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { connectNodeAdapter } from '@connectrpc/connect-node'
import { authService } from './auth.ts'
import { onlyFor } from './caller.ts'
import { enforcementService } from './enforcement.ts'
import { openGrants } from './grants.ts'
import { healthService } from './health.ts'
import { sharingService } from './sharing.ts'
import { readUsers } from './users.ts'

const { HOST = '127.0.0.1', PORT = '8090', PLUGIN_TOKEN = '', USERS_FILE, GRANTS_FILE } = process.env
if (PLUGIN_TOKEN.length < 16) {
  console.error('PLUGIN_TOKEN must have at least 16 characters, and the service must have the same value')
  process.exit(78)
}

const users = readUsers(USERS_FILE ?? join(import.meta.dirname, 'users.json'))
const grants = openGrants(GRANTS_FILE)

const server = createServer(
  connectNodeAdapter({
    interceptors: [onlyFor(PLUGIN_TOKEN)],
    readMaxBytes: 1_000_000,
    routes: (router) => {
      healthService(router)
      authService(router, users)
      sharingService(router, { users, grants })
      enforcementService(router, grants)
    },
  }),
)
server.listen(Number(PORT), HOST, () => {
  console.log(`the example plugin listens on http://${HOST}:${(server.address() as AddressInfo).port}`)
})
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => {
    server.close(() => process.exit(0))
    server.closeAllConnections()
  })
