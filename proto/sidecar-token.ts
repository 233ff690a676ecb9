// The secret that the API shares with its runners and query services. Every call to a sidecar carries the secret as a bearer
// token.
import { hash, timingSafeEqual } from 'node:crypto'
import type { Interceptor } from '@connectrpc/connect'

/**
 * At least 32 characters, because a sidecar does not limit wrong attempts: 32 hexadecimal digits are 128 bits. At most 1024
 * characters, to fit into a header.
 */
const SIDECAR_TOKEN = /^[\x21-\x7e]{32,1024}$/

/** Completes the sentence "SIDECAR_TOKEN ..." when the value is missing or malformed. */
export const SIDECAR_TOKEN_RULE =
  'must be 32 to 1024 printable characters without spaces, the same for the API and its sidecars: openssl rand -hex 32 prints one'

export const isSidecarToken = (text: string): boolean => SIDECAR_TOKEN.test(text)

/** For clients: adds the token to every call. */
export const sendsToken =
  (token: string): Interceptor =>
  (next) =>
  (request) => {
    request.header.set('authorization', bearerOf(token))
    return next(request)
  }

/** The value of the `authorization` header. */
export const bearerOf = (token: string): string => `Bearer ${token}`

/**
 * For servers: returns the check of an `authorization` header. The check compares digests, so its duration depends only on the
 * length of the header.
 */
export function makeTokenCheck(token: string): (authorization: string | null | undefined) => boolean {
  const expected = digest(bearerOf(token))
  return (authorization) => timingSafeEqual(digest(authorization ?? ''), expected)
}

const digest = (text: string) => hash('sha256', text, 'buffer')
