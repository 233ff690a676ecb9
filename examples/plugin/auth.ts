import type { ConnectRouter } from '@connectrpc/connect'
import { AuthService } from '../../proto/gen/sluice/auth/v1/auth_pb.ts'
import { Decision } from '../../proto/gen/sluice/plugin/v1/plugin_pb.ts'
import type { Users } from './users.ts'

/** A user who is gone comes in for at most this long. */
const CACHE_SECONDS = 5

export const authService = (router: ConnectRouter, users: Users) =>
  router.service(AuthService, {
    authenticate({ token }) {
      const user = users.withToken(token)
      if (user === null) return { decision: Decision.DENIED }
      return { decision: Decision.ALLOWED, user, cacheSeconds: CACHE_SECONDS }
    },
    /** Viewers look, and change nothing, whatever is shared with them. */
    authorize({ user, method }) {
      const isAllowed = method === 'GET' || !user?.roles.includes('viewer')
      return { decision: isAllowed ? Decision.ALLOWED : Decision.DENIED, cacheSeconds: CACHE_SECONDS }
    },
  })
