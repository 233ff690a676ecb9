// A runner that has done every attempt as soon as it has it, behind the server that a real one has: what is left is the
// control plane. It prints its address as its first line.
import { RunnerService } from '../proto/gen/sluice/runner/v1/runner_pb.ts'
import { serveConnect } from '../sidecars/rpc/connect.ts'
import { makeAttemptService } from '../sidecars/runner/attempt/attempt-service.ts'
import { makeAttempts } from '../sidecars/runner/attempt/attempts.ts'

const attempts = makeAttempts({
  // As many as the dispatcher ever sends.
  concurrency: 1_000,
  seconds: 3_600,
  execute: async () => ({ gone: Promise.resolve() }),
  log: console,
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
process.stdout.write(`${server.url}\n`)
