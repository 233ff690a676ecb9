// Authentication of users, and their rights to call routes, by a plugin. It replaces the keys of an identity provider.

import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { AuthService } from '../../proto/gen/sluice/auth/v1/auth_pb.ts'
import type { User as UserMessage } from '../../proto/gen/sluice/plugin/v1/plugin_pb.ts'
import { type AccessTokens, isPlainText, TokenRefusal, type User } from '../auth/access-tokens.ts'
import type { Clock } from '../core/clock.ts'
import type { Identity } from '../core/identity.ts'
import { limits } from '../core/limits.ts'
import type { Authorize } from '../http/auth.ts'
import { documentedPath } from '../wire/route-table.ts'
import type { Channel } from './channel.ts'
import { isAllowed, Unusable, userMessage } from './messages.ts'

/** An answer is cached this long at most, whatever the plugin says. */
export const CACHE_SECONDS_MAX = 60

export interface AuthPlugin {
  tokens: AccessTokens
  authorize: Authorize
}

interface AuthPluginDeps {
  channel: Channel
  clock: Clock
  /** Subjects that are administrators regardless of the roles from the plugin. */
  admins: readonly string[]
}

export function makeAuthPlugin({ channel, clock, admins }: AuthPluginDeps): AuthPlugin {
  const plugin = channel.client(AuthService)
  /** Keyed by digest, because tokens themselves must not be stored. */
  const cachedUsers = new LRUCache<string, { user: User; untilMs: number }>({
    max: limits.cachedAccessTokens,
  })
  /** Allowed routes of a cached user, each with its expiry. They are dropped together with the cached user. */
  const allowed = new WeakMap<object, Map<string, number>>()
  /** The last description of the user behind S3 credentials. Each S3 request has an identity of its own. */
  const holders = new LRUCache<string, object>({ max: limits.cachedAccessTokens })

  /** The object whose allowed routes count for a caller. */
  function cacheKeyOf(identity: Identity): object {
    if (!('grant' in identity)) return identity
    const { userId, name, roles } = identity
    const key = JSON.stringify([userId, name, roles])
    const holder = holders.get(key) ?? {}
    holders.set(key, holder)
    return holder
  }

  async function authenticate(token: string, digest: string): Promise<User | TokenRefusal> {
    const askedMs = clock.elapsed()
    const { user, untilMs } = await channel.call(async (options) => {
      const response = await plugin.authenticate({ token }, options)
      const isGood = isAllowed(response.decision)
      return { user: isGood ? userOf(response.user) : null, untilMs: endOf(askedMs, response.cacheSeconds) }
    })
    if (user === null) return new TokenRefusal('the token is not valid')
    if (untilMs > askedMs) cachedUsers.set(digest, { user, untilMs })
    return user
  }

  function userOf(message: UserMessage | undefined): User {
    if (message === undefined || !isPlainText(message.id, limits.subjectLength))
      throw new Unusable('the response has no valid user')
    const roles = message.roles
      .slice(0, limits.rolesMax)
      .filter((role) => isPlainText(role, limits.subjectLength))
    return {
      kind: 'user',
      userId: message.id,
      name: isPlainText(message.name, limits.subjectLength) ? message.name : message.id,
      roles: admins.includes(message.id) && !roles.includes('admin') ? [...roles, 'admin'] : roles,
    }
  }

  return {
    tokens: {
      verify(token, isGuessing) {
        if (token === '' || token.length > limits.accessTokenLength)
          return new TokenRefusal(token === '' ? 'the token is not valid' : 'the token is too long')
        const digest = createHash('sha256').update(token).digest('base64')
        const found = cachedUsers.get(digest)
        if (found !== undefined && found.untilMs > clock.elapsed()) return found.user
        // Unlike a signature, a token of a plugin may be guessed, and each guess would cost a call.
        return isGuessing()
          ? new TokenRefusal('the token was not checked: too many wrong credentials from this sender')
          : authenticate(token, digest)
      },
    },
    async authorize(identity, { method, pattern }) {
      if (identity.kind !== 'user') return true
      const key = `${method} ${pattern}`
      const askedMs = clock.elapsed()
      const holder = cacheKeyOf(identity)
      if ((allowed.get(holder)?.get(key) ?? 0) > askedMs) return true
      const question = { user: userMessage(identity), method, route: documentedPath(pattern) }
      const { isGood, untilMs } = await channel.call(async (options) => {
        const response = await plugin.authorize(question, options)
        return { isGood: isAllowed(response.decision), untilMs: endOf(askedMs, response.cacheSeconds) }
      })
      if (isGood && untilMs > askedMs) {
        const routes = allowed.get(holder) ?? new Map<string, number>()
        allowed.set(holder, routes.set(key, untilMs))
      }
      return isGood
    },
  }
}

/** Counted from the start of the call, because the answer was true at some time after that. */
const endOf = (askedMs: number, seconds: number) =>
  askedMs + Math.min(Math.max(seconds, 0), CACHE_SECONDS_MAX) * 1_000
