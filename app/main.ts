// Entry of the API process on Bun: the work beside requests is done in threads of the same process.

import { countInto } from '../workers/counted.ts'
import { startEffects } from '../workers/effects.ts'
import { answerObjectCall } from '../workers/object-calls.ts'
import { startThreads } from '../workers/threads.ts'
import { serveOnNode } from './node-server.ts'
import { runProcess } from './process.ts'

await runProcess({
  env: process.env,
  startEffects,
  startBackground: ({ objects, metrics, ...parts }) =>
    startThreads({
      ...parts,
      answerObjectCall: (call) => answerObjectCall(objects, call),
      count: countInto(metrics),
    }),
  // Not Bun.serve, which closes a connection without an answer when requests are pipelined on it (ADR 33).
  serve: serveOnNode,
})
