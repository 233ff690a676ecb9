// The web console: one page for every address below `/console`, and its bundled files.
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { Elysia } from 'elysia'
import { notFound } from '../core/errors.ts'
import { acceptedCoding } from '../http/accept-encoding.ts'
import { targetOf } from '../wire/target.ts'

/** Written by `console/build.ts`. */
const DIST = join(import.meta.dirname, '..', '..', 'console', 'dist')

const TYPES: Record<string, string> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
}
/** A name of the bundler: it contains a hash of the content, so its content never changes. */
const BUNDLED = /^[\w.-]+-[a-z0-9]{6,}\.(?:js|css)$/

/**
 * Allows scripts and requests of this origin only. Style elements need the nonce of the response: the editor and the dialogs add
 * some.
 */
const policyOf = (nonce: string) =>
  `default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'nonce-${nonce}'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

/** The console is public, because it contains no data of an installation. It asks for the credential that its requests need. */
export const consoleRoutes = () =>
  new Elysia({ strictPath: true })
    .get('/console', ({ request }) => page(request))
    .get('/console/*', ({ request }) => page(request))
    .get('/console/assets/:file', ({ params, request }) => asset(params.file, request))
    // The former page of the inspector. A browser keeps the part of the address after `#`, which the console understands.
    .get('/inspector', ({ redirect }) => redirect('console/inspector', 302))
    .get('/inspector/', ({ redirect }) => redirect('../console/inspector', 302))

/** The page. Its references are relative, so that it also works below the path of a proxy. */
async function page(request: Request): Promise<Response> {
  const { script, style, icon, workers } = JSON.parse(await readFile(join(DIST, 'manifest.json'), 'utf8'))
  const nonce = randomBytes(16).toString('base64')
  const depth = targetOf(request.url).path.split('/').length - 3
  const assets = `${depth < 0 ? 'console/' : '../'.repeat(depth)}assets`
  const html = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <meta name="style-nonce" content="${nonce}" />
    <meta name="layout-worker" content="${workers.layout}" />
    <title>Sluice</title>
    <link rel="icon" type="image/svg+xml" href="${icon}" />
    <link rel="stylesheet" href="${assets}/${style}" />
    <script type="module" src="${assets}/${script}"></script>
  </head>
  <body>
    <div id="root"><p class="booting" role="status">Loading the console…</p></div>
    <noscript>The console needs JavaScript. The same data is in the API, described at /swagger.</noscript>
  </body>
</html>
`
  return new Response(html, {
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': policyOf(nonce),
      // Each response has a nonce of its own.
      'cache-control': 'no-store',
    },
  })
}

/** A bundled file, compressed if the client accepts that. */
async function asset(name: string, request: Request): Promise<Response> {
  if (!BUNDLED.test(name)) throw notFound('file')
  const { coding } = acceptedCoding(request.headers.get('accept-encoding'), ['br'])
  const bytes = await readFile(join(DIST, coding === null ? name : `${name}.br`)).catch(() => {
    throw notFound('file')
  })
  return new Response(new Uint8Array(bytes), {
    headers: {
      'content-type': TYPES[extname(name)] ?? 'application/octet-stream',
      'cache-control': 'public, max-age=31536000, immutable',
      vary: 'Accept-Encoding',
      ...(coding !== null && { 'content-encoding': coding }),
    },
  })
}
