// A runner whose attempts write a line a second and do nothing else, behind a real Connect server in a process of its own.
import { RunnerService } from '../proto/gen/sluice/runner/v1/runner_pb.ts'
import { makeLog } from '../sidecars/core/log.ts'
import { serveConnect } from '../sidecars/rpc/connect.ts'
import { makeAttemptService } from '../sidecars/runner/attempt/attempt-service.ts'
import { makeAttempts } from '../sidecars/runner/attempt/attempts.ts'
import { LINE_MS } from './sse-task.ts'

const attempts = makeAttempts({
  concurrency: 1_000,
  seconds: 3_600,
  async execute({ log, signal, enter }) {
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
  },
  log: { ...makeLog('talking runner', 'text'), info() {} },
})
const server = serveConnect({
  host: '127.0.0.1',
  port: 0,
  admit: null,
  services: [RunnerService],
  isServing: () => true,
  readMaxBytes: 1_000_000,
  register: (router) => router.service(RunnerService, makeAttemptService(attempts)),
})
console.log(server.url)
