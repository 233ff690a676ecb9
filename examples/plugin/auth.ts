import type { ConnectRouter } from '@connectrpc/connect'
import { AuthService } from '../../proto/gen/sluice/auth/v1/auth_pb.ts'
import { Decision } from '../../proto/gen/sluice/plugin/v1/plugin_pb.ts'
import type { Users } from './users.ts'

/** The service caches decisions for this long, so a removed user keeps access for at most this long. */
const CACHE_SECONDS = 5

export const authService = (router: ConnectRouter, users: Users) =>
  router.service(AuthService, {
    authenticate({ token }) {
      const user = users.withToken(token)
      if (user === null) return { decision: Decision.DENIED }
      return { decision: Decision.ALLOWED, user, cacheSeconds: CACHE_SECONDS }
    },
    /** Viewers may only read. Grants do not change that. */
    authorize({ user, method }) {
      const isAllowed = method === 'GET' || !user?.roles.includes('viewer')
      return { decision: isAllowed ? Decision.ALLOWED : Decision.DENIED, cacheSeconds: CACHE_SECONDS }
    },
  })
