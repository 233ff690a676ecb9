// Entry of the API process on Bun: the work beside requests is done in threads of the same process.

import { countInto } from '../workers/counted.ts'
import { startEffects } from '../workers/effects.ts'
import { answerObjectCall } from '../workers/object-calls.ts'
import { startThreads } from '../workers/threads.ts'
import { unresolvedRoutes } from './file-addresses.ts'
import type { Peer } from './http/client-address.ts'
import { HEADERS_SECONDS, IDLE_SECONDS, MAX_BODY_BYTES, runProcess } from './process.ts'

/** Asked for when it is needed: the address of a connection costs as much as all else that is done for a small answer. */
class PeerOf implements Peer {
  constructor(
    private readonly request: Request,
    private readonly server: Bun.Server<undefined>,
  ) {}

  get address() {
    return this.server.requestIP(this.request)?.address ?? null
  }
}

await runProcess({
  env: process.env,
  startEffects,
  startBackground: ({ objects, metrics, ...parts }) =>
    startThreads({
      ...parts,
      answerObjectCall: (call) => answerObjectCall(objects, call),
      count: countInto(metrics),
    }),
  async serve(app, { host, port }) {
    const answer = (request: Request, server: Bun.Server<undefined>, sent: Request) => {
      // The one answer that may be long in coming: it waits for the reaper.
      const isLong = request.method === 'POST' && request.url.endsWith('/retention/run')
      server.timeout(sent, isLong ? 0 : IDLE_SECONDS)
      return app.fetch(request, new PeerOf(sent, server))
    }
    const server = Bun.serve({
      hostname: host,
      port,
      ...unresolvedRoutes(answer),
      // Until a request has come; it then gets the longer one.
      idleTimeout: HEADERS_SECONDS,
      maxRequestBodySize: MAX_BODY_BYTES,
    })
    return { drain: () => server.stop(), close: () => server.stop(true) }
  },
})
