import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { Elysia } from 'elysia'
import { makeStaticFiles } from '../wire/static-files.ts'
import type { Json } from './schema.ts'

/** Everything comes from this origin: no inline script, no frame. Swagger UI's icons are data addresses. */
const POLICY =
  "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const PAGE = join(import.meta.dirname, 'page')
const DIST = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/swagger-ui.css'))

/**
 * Swagger UI and its document. Both are public: like the source, they describe the program, and they contain no data. The
 * Authorize button sets the key that Execute sends.
 */
export const swaggerRoutes = (describe: () => Json) => {
  // Elysia changes the schemas of a route at its first request. Described before any request, the document is the same in all
  // replicas, and so is its entity tag.
  const document = JSON.stringify(describe())
  const serve = makeStaticFiles(
    {
      'index.html': { path: join(PAGE, 'index.html') },
      'page.css': { path: join(PAGE, 'page.css') },
      'page.js': { path: join(PAGE, 'page.js') },
      'swagger-ui.css': { path: join(DIST, 'swagger-ui.css') },
      'swagger-ui-bundle.js': { path: join(DIST, 'swagger-ui-bundle.js') },
      'favicon-32x32.png': { path: join(DIST, 'favicon-32x32.png') },
      'openapi.json': { content: () => document },
    },
    POLICY,
  )
  return new Elysia({ strictPath: true })
    .get('/swagger', ({ request }) => serve('index.html', request))
    .get('/swagger/', ({ redirect }) => redirect('../swagger', 301))
    .get('/swagger/json', ({ request }) => serve('openapi.json', request))
    .get('/swagger/:file', ({ params, request }) => serve(params.file, request))
}
