// The resource that a request updates, as its caller reads it at this moment.
import assert from 'node:assert'
import type { RouteTable } from '../wire/route-table.ts'
import { targetOf } from '../wire/target.ts'
import { continueExchange, exchangeOf } from './exchange.ts'

interface PresentDeps {
  routes: Pick<RouteTable, 'find'>
  /** Runs the route of a request. Throws the error of the handler. */
  perform(request: Request): Promise<Response>
}

/** The answer to GET at the address of the resource, with the rights of the caller. Throws the error of that GET. */
export async function presentOf(request: Request, { routes, perform }: PresentDeps): Promise<unknown> {
  const { route } = exchangeOf(request)
  const { path } = targetOf(request.url)
  const at = route.resource === route.pattern ? path : path.slice(0, path.lastIndexOf('/'))
  const reading = routes.find('GET', at)
  assert(reading !== null, `no route returns the resource of ${route.method} ${route.pattern}`)
  const inner = new Request(new URL(at, request.url), { signal: request.signal })
  continueExchange(request, inner, reading)
  const response = await perform(inner)
  assert(response.ok, `GET ${reading.pattern} answered ${response.status}`)
  return response.json()
}
