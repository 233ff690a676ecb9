// A runner whose attempts only write lines, behind the server that a real one has: what is left is the control plane. With
// `talking`, an attempt writes a line a second until it is stopped; else it ends at once. Its first line is its address.
import { RunnerService } from '../proto/gen/sluice/runner/v1/runner_pb.ts'
import { makeLog } from '../sidecars/core/log.ts'
import { serveConnect } from '../sidecars/rpc/connect.ts'
import { makeAttemptService } from '../sidecars/runner/attempt/attempt-service.ts'
import { makeAttempts, type Work } from '../sidecars/runner/attempt/attempts.ts'
import { LINE_MS } from './sse-task.ts'

async function talk({ log, signal, enter }: Work): Promise<never> {
  enter('executing')
  let line = 0
  // Runs start together; they need not speak together.
  await Bun.sleep(Math.random() * LINE_MS)
  while (!signal.aborted) {
    line += 1
    log.write('info', `${line} ${Date.now()}`)
    await Bun.sleep(LINE_MS)
  }
  throw signal.reason
}

const attempts = makeAttempts({
  // As many as the dispatcher ever sends.
  concurrency: 1_000,
  seconds: 3_600,
  execute: process.argv[2] === 'talking' ? talk : async () => ({ gone: Promise.resolve() }),
  log: { ...makeLog('runner', 'text'), info() {} },
})
const server = serveConnect({
  host: '127.0.0.1',
  port: 0,
  admit: null,
  services: [RunnerService],
  isServing: () => true,
  readMaxBytes: 10_000_000,
  register: (router) => router.service(RunnerService, makeAttemptService(attempts)),
})
console.log(server.url)
