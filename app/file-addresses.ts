// Servers resolve `..` and `%2e%2e` of an address, and take `\` for `/`, before they hand a request out. The rules for paths
// of files would then judge another path than the one that was sent: such an address is handed on in a spelling that leaves
// it as it is, and that the rules refuse.
import { targetOf } from './http/target.ts'
import { limits } from './limits.ts'

const FILES = '/api/v1/files'

/** The address as it was sent, or the path that stands for it. For servers that tell it. */
export function unresolved(address: string): string {
  const { path } = targetOf(address)
  const file = path.startsWith(`${FILES}/`) ? path.slice(FILES.length + 1) : ''
  return file.split('/').some(isResolved) ? inOneSegment(file) : address
}

/** For a server whose requests have the address as it was sent. */
export function asSent(request: Request): Request {
  const address = unresolved(request.url)
  return address === request.url ? request : at(address, request)
}

type Answer<Server> = (request: Request, server: Server) => Response | Promise<Response>
/** As a router of Bun hands it out, with what it has read of the address. */
type Routed = Request & { params: Record<string, string> }

/** Routes to the same answer, for a server that tells nobody but its router what was sent. */
export function unresolvedRoutes<Server>(answer: Answer<Server>) {
  const routes: Record<string, (request: Routed, server: Server) => Response | Promise<Response>> = {}
  let pattern = FILES
  for (let count = 1; count <= limits.pathSegments; count++) {
    pattern += `/:s${count}`
    routes[pattern] = (request, server) => {
      const segments = Object.values(request.params)
      return answer(
        segments.some(isResolved) ? at(inOneSegment(segments.join('/')), request) : request,
        server,
      )
    }
  }
  // What comes here has an empty segment, or too many: no file is called so, but what it resolves to may be one.
  routes[`${FILES}/*`] = (request, server) =>
    answer(isRefused(request.url) ? request : at(inOneSegment('..'), request), server)
  return routes
}

const isResolved = (segment: string) => /^(\.|%2e){1,2}$/i.test(segment) || segment.includes('\\')

const at = (path: string, request: Request) => new Request(`http://localhost${path}`, request)

/** The slash at its end is encoded, so that nothing of the path is a segment of the address. */
const inOneSegment = (path: string) => `${FILES}/${encodeURIComponent(`${path}/`)}`

function isRefused(address: string) {
  const { pathname } = new URL(targetOf(address).path, 'http://localhost')
  const segments = pathname.slice(FILES.length + 1).split('/')
  return pathname.startsWith(`${FILES}/`) && (segments.includes('') || segments.length > limits.pathSegments)
}
