// Files of the pages we serve: read when first asked for, kept, and sent again only when they have changed.
import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import { notFound } from './errors.ts'

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.png': 'image/png',
  '.svg': 'image/svg+xml; charset=utf-8',
}

/** Where a file is, or what is in it. */
export type FileSource = { path: string } | { content: () => string }

interface Served {
  bytes: Uint8Array<ArrayBuffer>
  headers: Record<string, string>
}

/** Serves these files, and no others, under one Content-Security-Policy. A name's ending says what it is. */
export function makeStaticFiles(sources: Record<string, FileSource>, policy: string) {
  const known = new Map(Object.entries(sources))
  const files = new Map<string, Promise<Served>>()

  async function load(name: string, source: FileSource): Promise<Served> {
    const bytes = 'path' in source ? await readFile(source.path) : Buffer.from(source.content())
    return {
      bytes: new Uint8Array(bytes),
      headers: {
        'content-type': TYPES[extname(name)] ?? 'application/octet-stream',
        'content-security-policy': policy,
        'cache-control': 'no-cache',
        // Weak: the same file may be sent compressed.
        etag: `W/"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`,
      },
    }
  }

  return async (name: string, request: Request): Promise<Response> => {
    const source = known.get(name)
    if (source === undefined) throw notFound('file')
    const file = files.get(name) ?? load(name, source)
    files.set(name, file)
    const { bytes, headers } = await file
    return request.headers.get('if-none-match') === headers.etag
      ? new Response(null, { status: 304, headers })
      : new Response(bytes, { headers })
  }
}
