// Entry of the API process on Bun: the work beside requests is done in threads of the same process.

import { countInto } from '../workers/counted.ts'
import { startEffects } from '../workers/effects.ts'
import { answerObjectCall } from '../workers/object-calls.ts'
import { startThreads } from '../workers/threads.ts'
import { IDLE_SECONDS, MAX_BODY_BYTES, runProcess } from './process.ts'

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
    const server = Bun.serve({
      hostname: host,
      port,
      fetch(request, server) {
        // The one answer that may be long in coming: it waits for the reaper.
        if (request.method === 'POST' && request.url.endsWith('/retention/run')) server.timeout(request, 0)
        return app.fetch(request, { address: server.requestIP(request)?.address ?? null })
      },
      idleTimeout: IDLE_SECONDS,
      maxRequestBodySize: MAX_BODY_BYTES,
    })
    return { drain: () => server.stop(), close: () => server.stop(true) }
  },
})
