// Entry of the API process on Bun. Background work runs in threads of the same process.

import { startEffects } from '../../workers/dispatcher/effects.ts'
import { countInto } from '../../workers/messages/counted.ts'
import { answerObjectCall } from '../../workers/runtime/object-calls.ts'
import { makeThreads } from '../../workers/runtime/threads.ts'
import { serveOnNode } from './node-server.ts'
import { runProcess } from './process.ts'

await runProcess({
  env: process.env,
  startEffects,
  makeBackground: ({ objects, metrics, ...parts }) =>
    makeThreads({
      ...parts,
      answerObjectCall: (call) => answerObjectCall(objects, call),
      count: countInto(metrics),
    }),
  // `Bun.serve` closes a connection without a response when requests are pipelined on it (ADR 29).
  serve: serveOnNode,
})
