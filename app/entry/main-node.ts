// Entry of the API process on Node. Background work runs in the Bun process at workers/main.ts.
import './node-20.ts'
import process from 'node:process'
import { startEffects } from '../../workers/dispatcher/effects.ts'
import { joinWorkers, linkFrom } from '../../workers/runtime/link.ts'
import { serveOnNode } from './node-server.ts'
import { runProcess } from './process.ts'

await runProcess({
  env: process.env,
  startEffects,
  makeBackground: (parts) => joinWorkers({ ...parts, link: linkFrom(process.env) }),
  serve: serveOnNode,
})
