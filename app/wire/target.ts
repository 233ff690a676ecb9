import { invalid } from '../core/errors.ts'

interface Target {
  /** Raw and still percent-encoded. */
  path: string
  /** Without the `?`; empty when the address has no query. */
  query: string
}

/** Path and query of a request's address. The address is only `/path` when the client sent no usable Host. */
export function targetOf(url: string): Target {
  const start = pathStart(url)
  const mark = url.indexOf('?', start)
  return mark === -1
    ? { path: url.slice(start), query: '' }
    : { path: url.slice(start, mark), query: url.slice(mark + 1) }
}

/**
 * Elysia searches the path from the eleventh character of the address. With a host of one letter, or without a host, Elysia
 * would route another path than the authorized one. So such a request gets a plain host first. If that resolves a `..` of a raw
 * address, the path changes again, and the request is refused.
 */
export function withPlainHost(request: Request): Request {
  const start = pathStart(request.url)
  if (request.url.indexOf('/', 11) === start) return request
  const plain = new Request(`http://localhost${request.url.slice(start)}`, request)
  if (targetOf(plain.url).path !== targetOf(request.url).path)
    throw invalid('path', 'must not contain segments that resolve to another path')
  return plain
}

/** The host of an absolute address, with its port and user; empty without a host. */
export const targetHost = (url: string): string => /^[a-z]+:\/\/([^/?#]*)/i.exec(url)?.[1] ?? ''

/** Refuses text that no route can read: broken percent-encoding, and NUL, which Postgres cannot store. */
export function checkEncoding({ path, query }: Target): void {
  if (!path.includes('%') && query === '') return
  if (decoded(path, 'path').includes('\0')) throw invalid('path', 'must not contain a NUL character')
  for (const pair of query.split('&')) {
    if (!pair.includes('%')) continue
    const [name = '', ...rest] = pair.split('=')
    const field = decoded(name, 'query')
    if (field.includes('\0')) throw invalid('query', 'must not contain a NUL character')
    if (decoded(rest.join('='), field).includes('\0'))
      throw invalid(field, 'must not contain a NUL character')
  }
}

/**
 * The text of a path parameter, decoded once: the server also accepts `%2F` for `/`, because Swagger UI sends it. A caller that uses
 * the text as a file name must check every further level of encoding.
 */
export const decodePath = (raw: string): string => decoded(raw, 'path')

function decoded(text: string, field: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalid(field, 'is not valid percent-encoding')
  }
}

const pathStart = (url: string) => (url.startsWith('/') ? 0 : url.indexOf('/', url.indexOf('://') + 3))
