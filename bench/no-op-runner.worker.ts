// The no-op runner behind a real Connect server, in a thread of its own.
import { RunnerService } from '../proto/gen/sluice/runner/v1/runner_pb.ts'
import { serveConnect } from '../sidecars/connect.ts'
import { noOp } from './no-op-runner.ts'

declare const self: Worker

const server = serveConnect({
  host: '127.0.0.1',
  port: 0,
  services: [RunnerService],
  isServing: () => true,
  readMaxBytes: 1_000_000,
  register: (router) => router.service(RunnerService, noOp),
})
self.postMessage(server.url)
