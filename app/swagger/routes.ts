import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Elysia } from 'elysia'
import { notFound } from '../http/errors.ts'
import type { Json } from './schema.ts'

/** Everything comes from here: no inline script, no other origin, no frame. Swagger UI's icons are data addresses. */
const POLICY =
  "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const PAGE = join(import.meta.dirname, 'page')
const DIST = fileURLToPath(new URL('.', import.meta.resolve('swagger-ui-dist/swagger-ui.css')))

/** The files the page needs, and no others. */
const FILES = new Map(
  Object.entries({
    'index.html': { path: join(PAGE, 'index.html'), type: 'text/html; charset=utf-8' },
    'page.css': { path: join(PAGE, 'page.css'), type: 'text/css; charset=utf-8' },
    'page.js': { path: join(PAGE, 'page.js'), type: 'text/javascript; charset=utf-8' },
    'swagger-ui.css': { path: join(DIST, 'swagger-ui.css'), type: 'text/css; charset=utf-8' },
    'swagger-ui-bundle.js': {
      path: join(DIST, 'swagger-ui-bundle.js'),
      type: 'text/javascript; charset=utf-8',
    },
    'favicon-32x32.png': { path: join(DIST, 'favicon-32x32.png'), type: 'image/png' },
  }),
)

/**
 * Swagger UI and the document it shows. Both are open: they say what the program can do, which its source says too, and
 * nothing about what is in it. Its Authorize button takes the key that Execute sends.
 */
export const swaggerRoutes = (describe: () => Json) => {
  const files = new Map<string, Promise<ServedFile>>()
  const serve = async (name: string, request: Request) => {
    const known = FILES.get(name)
    if (known === undefined) throw notFound('file')
    const file = files.get(name) ?? load(known)
    files.set(name, file)
    return respond(await file, request)
  }
  let document: ServedFile | undefined
  return new Elysia({ strictPath: true })
    .get('/swagger', ({ request }) => serve('index.html', request))
    .get('/swagger/', ({ redirect }) => redirect('../swagger', 301))
    .get('/swagger/json', ({ request }) => {
      document ??= served(Buffer.from(JSON.stringify(describe())), 'application/json')
      return respond(document, request)
    })
    .get('/swagger/:file', ({ params, request }) => serve(params.file, request))
}

interface ServedFile {
  bytes: Uint8Array<ArrayBuffer>
  headers: Record<string, string>
}

const load = async ({ path, type }: { path: string; type: string }) => served(await readFile(path), type)

const served = (bytes: Buffer, type: string): ServedFile => ({
  bytes: new Uint8Array(bytes),
  headers: {
    'content-type': type,
    'content-security-policy': POLICY,
    'cache-control': 'no-cache',
    etag: `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`,
  },
})

const respond = ({ bytes, headers }: ServedFile, request: Request) =>
  request.headers.get('if-none-match') === headers.etag
    ? new Response(null, { status: 304, headers })
    : new Response(bytes, { headers })
