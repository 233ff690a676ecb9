import { createHash, timingSafeEqual } from 'node:crypto'
import { Code, ConnectError, type Interceptor } from '@connectrpc/connect'

/** Rejects every request that does not carry the token shared by the service and the plugin. */
export function onlyFor(token: string): Interceptor {
  const expected = digest(`Bearer ${token}`)
  return (next) => (request) => {
    if (!timingSafeEqual(expected, digest(request.header.get('authorization') ?? '')))
      throw new ConnectError(
        'missing or wrong plugin token: send PLUGIN_TOKEN as a bearer token',
        Code.Unauthenticated,
      )
    return next(request)
  }
}

const digest = (text: string) => createHash('sha256').update(text).digest()
