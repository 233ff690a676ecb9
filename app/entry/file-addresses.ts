// Servers resolve `..` and `%2e%2e` in an address, and read `\` as `/`, before they forward a request. The path rules would
// then check another path than the client sent. Such an address is forwarded in one encoded segment: servers do not resolve the
// segment, and the path rules refuse it.
import { targetOf } from '../wire/target.ts'

const FILES = '/api/v1/files'

/** Returns the raw address, or the encoded segment that the path rules refuse. For servers that expose the raw address. */
export function unresolved(address: string): string {
  const { path } = targetOf(address)
  if (!isOfFile(path)) return leadsToFile(address) ? REFUSED : address
  const file = path.slice(FILES.length + 1)
  return file.split('/').some(isResolved) ? inOneSegment(file) : address
}

/** The same for a server whose `Request.url` is the raw address. */
export function asSent(request: Request): Request {
  const address = unresolved(request.url)
  return address === request.url ? request : at(address, request)
}

const isOfFile = (path: string) => path.startsWith(`${FILES}/`)

const isResolved = (segment: string) => /^(\.|%2e){1,2}$/i.test(segment) || segment.includes('\\')

function leadsToFile(address: string) {
  // Only a backslash or a dot segment changes a path. Most addresses have neither, so they skip the URL parser.
  if (!/\\|\/(\.|%2e)/i.test(address)) return false
  const absolute = address.startsWith('/') ? `http://localhost${address}` : address
  return URL.canParse(absolute) && isOfFile(new URL(absolute).pathname)
}

const at = (path: string, request: Request) => new Request(`http://localhost${path}`, request)

/** Encodes a path as one segment. The added slash keeps a lone `..` from being a dot segment. */
const inOneSegment = (path: string) => `${FILES}/${encodeURIComponent(`${path}/`)}`

const REFUSED = inOneSegment('..')
