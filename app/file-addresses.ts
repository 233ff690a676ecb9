// Servers resolve `..` and `%2e%2e` of an address, and take `\` for `/`, before they hand a request out. The rules for paths
// of files would then judge another path than the one that was sent: such an address is handed on in a spelling that leaves
// it as it is, and that the rules refuse.
import { targetOf } from './http/target.ts'
import { limits } from './limits.ts'

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

type Answered = Response | Promise<Response>
/** Servers know of `sent` who sent it, and of no copy. */
type Answer<Server> = (request: Request, server: Server, sent: Request) => Answered
/** As a router of Bun hands it out, with what it has read of the address. */
type Routed = Request & { params: Record<string, string> }

/** All addresses lead to the same answer, for a server that tells nobody but its router what was sent. */
export function unresolvedRoutes<Server>(answer: Answer<Server>) {
  const routes: Record<string, (request: Routed, server: Server) => Answered> = {}
  let pattern = FILES
  for (let count = 1; count <= limits.pathSegments; count++) {
    pattern += `/:s${count}`
    routes[pattern] = (request, server) => {
      const segments = Object.values(request.params)
      const handedOn = segments.some(isResolved) ? at(inOneSegment(segments.join('/')), request) : request
      return answer(handedOn, server, request)
    }
  }
  // What comes here has an empty segment, or too many: no file is called so, but what it resolves to may be one.
  routes[`${FILES}/*`] = (request, server) =>
    answer(isRefused(request.url) ? request : at(REFUSED, request), server, request)
  // Whatever was sent as an address of a file has met a route: here, one was sent as something else.
  const fetch = (request: Request, server: Server) =>
    answer(isOfFile(targetOf(request.url).path) ? at(REFUSED, request) : request, server, request)
  return { routes, fetch }
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

function isRefused(address: string) {
  const { pathname } = new URL(targetOf(address).path, 'http://localhost')
  const segments = pathname.slice(FILES.length + 1).split('/')
  return isOfFile(pathname) && (segments.includes('') || segments.length > limits.pathSegments)
}
