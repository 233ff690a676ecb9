import { createHash, timingSafeEqual } from 'node:crypto'
import { Code, ConnectError, type Interceptor } from '@connectrpc/connect'

/** Answers nobody but who brings the token that the service and we share. */
export function onlyFor(token: string): Interceptor {
  const expected = digest(`Bearer ${token}`)
  return (next) => (request) => {
    if (!timingSafeEqual(expected, digest(request.header.get('authorization') ?? '')))
      throw new ConnectError('who asks?', Code.Unauthenticated)
    return next(request)
  }
}

const digest = (text: string) => createHash('sha256').update(text).digest()
