// The no-op runner as a process of its own, behind the server that a real one has. It says its address in one line; with
// `one-by-one` it offers the four calls that every runner has, and no batches.
import { Code, ConnectError } from '@connectrpc/connect'
import { RunnerService } from '../proto/gen/sluice/runner/v1/runner_pb.ts'
import { serveConnect } from '../sidecars/rpc/connect.ts'
import { noOpService } from './no-op-runner.ts'

const refuse = () => {
  throw new ConnectError('this runner takes attempts one by one', Code.Unimplemented)
}
const oneByOne = { submitPipelines: refuse, followRuns: refuse, updateFollowing: refuse }

const server = serveConnect({
  host: '127.0.0.1',
  port: 0,
  admit: null,
  services: [RunnerService],
  isServing: () => true,
  readMaxBytes: 10_000_000,
  register: (router) =>
    router.service(RunnerService, {
      ...noOpService(),
      ...(process.argv.includes('one-by-one') ? oneByOne : {}),
    }),
})
process.stdout.write(`${server.url}\n`)
