import { Elysia } from 'elysia'
import { prefers } from '../http/accept.ts'

/** The links from `/`. */
export const LINKS = {
  console: '/console',
  inspector: '/inspector',
  swagger: '/swagger',
  openapi: '/swagger/json',
  health: '/health/ready',
  metrics: '/metrics',
}

/** The root address: the console for browsers, JSON for other clients. It is public and contains no data. */
export const homeRoutes = () =>
  new Elysia({ strictPath: true }).get('/', ({ headers }) => {
    const isBrowser = prefers(headers.accept, 'text/html', 'application/json')
    // The location is relative, so that it also works below the path of a proxy.
    const response = isBrowser
      ? new Response(null, { status: 302, headers: { location: 'console' } })
      : Response.json({ service: 'sluice', links: LINKS })
    response.headers.set('vary', 'Accept, Origin')
    return response
  })
