import { join } from 'node:path'
import { Elysia } from 'elysia'
import { type FileSource, makeStaticFiles } from '../wire/static-files.ts'
import { pageStyle } from './chart-style.ts'

/** The page loads everything from its own origin: no inline scripts or styles, no other origin, no frames. */
const POLICY =
  "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const NAMES = [
  'index.html',
  'page.css',
  'main.js',
  'api.js',
  'chart.js',
  'facts.js',
  'instance.js',
  'instance-parts.js',
  'list.js',
  'log.js',
  'moments.js',
  'rows.js',
  'elements.js',
  'theme.js',
  'icon.svg',
]

/** The page is public, because it contains no data of an installation. It asks for the key that its requests need. */
export const inspectorPage = () => {
  const files = NAMES.map((name): [string, FileSource] => [
    name,
    { path: join(import.meta.dirname, '..', '..', 'inspector', name) },
  ])
  const serve = makeStaticFiles({ ...Object.fromEntries(files), 'chart.css': { content: pageStyle } }, POLICY)
  return new Elysia({ strictPath: true })
    .get('/inspector', ({ request }) => serve('index.html', request))
    .get('/inspector/', ({ redirect }) => redirect('../inspector', 301))
    .get('/inspector/:file', ({ params, request }) => serve(params.file, request))
}
