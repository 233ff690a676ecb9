// A runner that executes nothing, behind the server of a real runner: the remaining cost is the control plane. With the
// argument `talking`, an attempt writes one log line per second until it is stopped. Without it, an attempt ends at once. The
// process prints its address as its first line.
import { RunnerService } from '../proto/gen/sluice/runner/v1/runner_pb.ts'
import { makeLog } from '../sidecars/core/log.ts'
import { serveConnect } from '../sidecars/rpc/connect.ts'
import { type ExecutionContext, makeAttempts } from '../sidecars/runner/attempt/attempts.ts'
import { makeAttemptService } from '../sidecars/runner/requests/attempt-service.ts'
import { LINE_MS } from './sse-task.ts'

async function talk({ log, signal, enter }: ExecutionContext): Promise<never> {
  enter('executing')
  let line = 0
  // A random delay spreads the lines of runs that start together.
  await Bun.sleep(Math.random() * LINE_MS)
  while (!signal.aborted) {
    line += 1
    log.write('info', `${line} ${Date.now()}`)
    await Bun.sleep(LINE_MS)
  }
  throw signal.reason
}

const attempts = makeAttempts({
  // The dispatcher never sends more attempts at once.
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
