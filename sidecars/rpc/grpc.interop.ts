// Calls the gRPC server with a client in another language. This proves the wire format independently of this project's own
// client.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { Code, ConnectError } from '@connectrpc/connect'
import { RunnerService } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import type { ConnectServer } from './connect.ts'
import { serveGrpc } from './grpc.ts'

const PYTHON = process.env.TEST_PYTHON_BIN ?? 'python3'

/** Python code whose messages are raw bytes: `b'\x0a\x01h'` is a message whose field 1 is the text `h`. */
const SCRIPT = `
import sys, grpc
channel = grpc.insecure_channel(sys.argv[1])
same = lambda value: value
unary = lambda path, message: channel.unary_unary(path, same, same)(message, timeout=60)
print(unary('/grpc.health.v1.Health/Check', b'').hex())
runner = '/sluice.runner.v1.RunnerService/'
print(unary(runner + 'CancelRun', b'\\x0a\\x01h').hex())
stream = channel.unary_stream(runner + 'StreamLogs', same, same)
print(len(list(stream(b'\\x0a\\x01h', timeout=60))))
for handle in (b'\\x0a\\x04full', b'\\x0a\\x01' + b'h' * 20000):
    try:
        unary(runner + 'CancelRun', handle)
    except grpc.RpcError as error:
        print(error.code().name, error.details())
try:
    unary(runner + 'GetRunStatus', b'')
except grpc.RpcError as error:
    print(error.code().name)
`

let server: ConnectServer
beforeAll(async () => {
  server = await serveGrpc({
    host: '127.0.0.1',
    port: 0,
    admit: null,
    services: [RunnerService],
    isServing: () => true,
    readMaxBytes: 10_000,
    register: (router) =>
      router.service(RunnerService, {
        async cancelRun({ handle }) {
          if (handle === 'full') throw new ConnectError('no room', Code.ResourceExhausted)
          return { interrupted: true }
        },
        async *streamLogs() {
          for (let seq = 1n; seq <= 3n; seq += 1n) yield { bootId: 'b', entry: { seq } }
        },
      }),
  })
})
afterAll(() => server.stop(0))

test('the Python gRPC client calls, streams, and receives the gRPC error codes', async () => {
  const child = Bun.spawn([PYTHON, '-c', SCRIPT, server.url.replace('grpc://', '')], { stderr: 'inherit' })
  const output = await new Response(child.stdout).text()
  expect(output.trim().split('\n')).toEqual([
    // SERVING, then `interrupted: true`.
    '0801',
    '0801',
    '3',
    'RESOURCE_EXHAUSTED no room',
    expect.stringMatching(/^RESOURCE_EXHAUSTED .*larger than/),
    'UNIMPLEMENTED',
  ])
})
