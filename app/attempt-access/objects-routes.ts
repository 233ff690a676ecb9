import { Elysia } from 'elysia'
import { isLakeFileKey, LAKE_PREFIX } from '../../lake/iceberg/format/location.ts'
import type { Clock } from '../core/clock.ts'
import { AppError, invalid } from '../core/errors.ts'
import { exchangeOf } from '../http/exchange.ts'
import type { Claims } from '../iceberg/claims.ts'
import { checkKey } from '../objects/key.ts'
import type { ObjectInfo } from '../objects/port.ts'
import { decodePath, targetOf } from '../wire/target.ts'
import { bearerClaims } from './access.ts'
import type { Gateway } from './gateway.ts'
import type { Tokens } from './tokens.ts'

const PREFIX = '/lake/objects'

export const objectRoutes = (gateway: Gateway, { tokens, clock }: { tokens: Tokens; clock: Clock }) => {
  const claimsOf = (request: Request): Claims => {
    const claims = bearerClaims(request, tokens, clock)
    if (claims !== null) return claims
    const headers = { 'www-authenticate': 'Bearer realm="sluice"' }
    throw new AppError(401, 'AUTHENTICATION', 'a valid bearer token is needed', { headers })
  }
  return new Elysia({ prefix: PREFIX, detail: { hide: true } })
    .get('/*', async ({ request, query }) => {
      const claims = claimsOf(request)
      const object = { key: keyOf(request), version: query.version }
      // Elysia answers HEAD with the handler of GET, even beside a route for HEAD.
      if (exchangeOf(request).isHead)
        return new Response(null, { headers: headersOf(await gateway.describe(claims, object)) })
      const { body, ...info } = await gateway.read(claims, object)
      return new Response(body, { headers: headersOf(info) })
    })
    .put(
      '/*',
      async ({ request, status }) => {
        const claims = claimsOf(request)
        const key = keyOf(request)
        const { size, isNew } = await gateway.add(claims, { key, body: request.body })
        return status(isNew ? 201 : 200, { key, size })
      },
      { parse: 'none' },
    )
}

/**
 * The object key from the path, decoded once; throws 400 for an invalid key. User-chosen names are not decoded again, so
 * `100%0A.csv` stays as it is. Such a key is readable only if it equals an input of the attempt exactly. A lake key must not lead
 * elsewhere at any level of decoding.
 */
function keyOf(request: Request): string {
  const key = decodePath(targetOf(request.url).path.slice(PREFIX.length + 1))
  checkKey(key)
  if (key.startsWith(LAKE_PREFIX) && !isLakeFileKey(key))
    throw invalid('path', 'is not a valid object key of the lake')
  return key
}

const headersOf = ({ size, versionId }: ObjectInfo) => ({
  'content-type': 'application/octet-stream',
  'content-length': String(size),
  ...(versionId !== '' && { etag: JSON.stringify(versionId) }),
})
