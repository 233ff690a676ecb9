// Servers resolve `..` and `%2e%2e` of an address, and take `\` for `/`, before they hand a request out. The rules for paths
// of files would then judge another path than the one that was sent: such an address is handed on in a spelling that leaves
// it as it is, and that the rules refuse.
import { targetOf } from './core/target.ts'

const FILES = '/api/v1/files'

/** The address as it was sent, or the path that stands for it. For servers that tell it. */
export function unresolved(address: string): string {
  const { path } = targetOf(address)
  if (!isOfFile(path)) return leadsToFile(address) ? REFUSED : address
  const file = path.slice(FILES.length + 1)
  return file.split('/').some(isResolved) ? inOneSegment(file) : address
}

/** For a server whose requests have the address as it was sent. */
export function asSent(request: Request): Request {
  const address = unresolved(request.url)
  return address === request.url ? request : at(address, request)
}

const isOfFile = (path: string) => path.startsWith(`${FILES}/`)

const isResolved = (segment: string) => /^(\.|%2e){1,2}$/i.test(segment) || segment.includes('\\')

function leadsToFile(address: string) {
  // Nothing else makes another path of one, and most have none of it.
  if (!/\\|\/(\.|%2e)/i.test(address)) return false
  const whole = address.startsWith('/') ? `http://localhost${address}` : address
  return URL.canParse(whole) && isOfFile(new URL(whole).pathname)
}

const at = (path: string, request: Request) => new Request(`http://localhost${path}`, request)

/** The slash at its end is encoded, so that nothing of the path is a segment of the address. */
const inOneSegment = (path: string) => `${FILES}/${encodeURIComponent(`${path}/`)}`

const REFUSED = inOneSegment('..')
