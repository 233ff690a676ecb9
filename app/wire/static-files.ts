// Serves files of web pages. A file is read at its first request and cached; clients receive 304 until the file changes.
import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import { notFound } from '../core/errors.ts'

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.png': 'image/png',
  '.svg': 'image/svg+xml; charset=utf-8',
}

/** The path of a file, or its content. */
type FileSource = { path: string } | { content: () => string }

interface Served {
  bytes: Uint8Array<ArrayBuffer>
  headers: Record<string, string>
}

/** Serves only these files, under one Content-Security-Policy. The extension of a name determines the content type. */
export function makeStaticFiles(sources: Record<string, FileSource>, policy: string) {
  const sourceByName = new Map(Object.entries(sources))
  const files = new Map<string, Promise<Served>>()

  async function load(name: string, source: FileSource): Promise<Served> {
    const bytes = 'path' in source ? await readFile(source.path) : Buffer.from(source.content())
    return {
      bytes: new Uint8Array(bytes),
      headers: {
        'content-type': TYPES[extname(name)] ?? 'application/octet-stream',
        'content-security-policy': policy,
        'cache-control': 'no-cache',
        // The ETag is weak, because the same file may be sent compressed.
        etag: `W/"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`,
      },
    }
  }

  return async (name: string, request: Request): Promise<Response> => {
    const source = sourceByName.get(name)
    if (source === undefined) throw notFound('file')
    const file = files.get(name) ?? load(name, source)
    files.set(name, file)
    const { bytes, headers } = await file
    return request.headers.get('if-none-match') === headers.etag
      ? new Response(null, { status: 304, headers })
      : new Response(bytes, { headers })
  }
}
