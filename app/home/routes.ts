import { join } from 'node:path'
import { Elysia } from 'elysia'
import { makeStaticFiles } from '../core/static-files.ts'
import { prefers } from '../http/accept.ts'

/** Forbids inline scripts and styles, other origins, and frames. */
const POLICY =
  "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** The links from `/`; the page contains the same. */
export const LINKS = {
  inspector: '/inspector',
  swagger: '/swagger',
  openapi: '/swagger/json',
  health: '/health/ready',
  metrics: '/metrics',
}

const PAGE = join(import.meta.dirname, 'page')

/** The root address: a page for browsers, JSON for other clients. It is public and contains no data. */
export const homeRoutes = () => {
  const serve = makeStaticFiles(
    { 'index.html': { path: join(PAGE, 'index.html') }, 'home.css': { path: join(PAGE, 'home.css') } },
    POLICY,
  )
  return new Elysia({ strictPath: true })
    .get('/', async ({ request, headers }) => {
      const response = prefers(headers.accept, 'text/html', 'application/json')
        ? await serve('index.html', request)
        : Response.json({ service: 'sluice', links: LINKS })
      response.headers.set('vary', 'Accept, Origin')
      return response
    })
    .get('/home.css', ({ request }) => serve('home.css', request))
}
