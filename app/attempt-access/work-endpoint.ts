import type { Clock } from '../core/clock.ts'
import { targetOf } from '../wire/target.ts'
import { bearerClaims } from './access.ts'
import type { Tokens } from './tokens.ts'

const USERS = '/iceberg/'
const WORK = '/catalog/'

/**
 * Engines that work for a run or a preview know the catalog's address for users, and send the token of their work. Such a request
 * moves to the address for tokens, where the rules of the token apply.
 */
export const makeWorkEndpoint =
  ({ tokens, clock }: { tokens: Tokens; clock: Clock }) =>
  (request: Request): Request => {
    const { path, query } = targetOf(request.url)
    if (!path.startsWith(USERS) || bearerClaims(request, tokens, clock) === null) return request
    const address = new URL(`${WORK}${path.slice(USERS.length)}${query && `?${query}`}`, request.url)
    return new Request(address, request)
  }
