// Tests the API's clients against a real sidecar server, which may refuse this API.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { RunnerService } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { makeAdmission } from '../../sidecars/rpc/admission.ts'
import { type ConnectServer, serveConnect } from '../../sidecars/rpc/connect.ts'
import { serveGrpc } from '../../sidecars/rpc/grpc.ts'
import { TEST_TOKEN, testAccess } from '../../sidecars/rpc/testing.ts'
import { AppError } from '../core/errors.ts'
import { failureOf, runnerAt, SidecarRefusal } from './clients.ts'
import { makePool } from './pool.ts'

const API = 'http://127.0.0.1:8080'
let servers: ConnectServer[]
beforeAll(async () => {
  const options = {
    host: '127.0.0.1',
    port: 0,
    admit: makeAdmission({ token: TEST_TOKEN, host: '127.0.0.1', otherHosts: [] }),
    services: [RunnerService],
    isServing: () => true,
    knowsApi: (url: string) => url === API,
    readMaxBytes: 10_000,
    register: (router: Parameters<Parameters<typeof serveConnect>[0]['register']>[0]) =>
      router.service(RunnerService, { cancelRun: () => ({ interrupted: true }) }),
  }
  servers = [serveConnect(options), await serveGrpc(options)]
})
afterAll(() => Promise.all(servers.map((server) => server.stop(0))))

const failureIn = (work: Promise<unknown>) =>
  work.then(
    () => null,
    (error: unknown) => error,
  )

test('calls with the token succeed over Connect and gRPC', async () => {
  for (const { url } of servers) {
    const { check, service } = runnerAt(url, () => {}, testAccess(API))
    expect(await check()).toBeNull()
    expect(await service.cancelRun({})).toMatchObject({ interrupted: true })
  }
})

test.each([
  ['no token', { ...testAccess(API), token: null }, 'SIDECAR_TOKEN'],
  ['another token', { ...testAccess(API), token: `${TEST_TOKEN}x` }, 'SIDECAR_TOKEN'],
  ['a token for other addresses', { ...testAccess(API), tokenUrls: ['http://127.0.0.1:1'] }, 'SIDECAR_TOKEN'],
  ['an unknown address', testAccess('http://api-2:8080'), 'API_URLS'],
])('a check with %s names the variable to set', async (_, access, variable) => {
  for (const { url } of servers) {
    const error = await failureIn(runnerAt(url, () => {}, access).check())
    expect(error).toBeInstanceOf(SidecarRefusal)
    expect(String(error)).toContain(variable)
    expect(String(error)).not.toContain('127.0.0.1')
  }
})

test('sends the token to every listed address', async () => {
  const tokenUrls = servers.map(({ url }) => url)
  for (const url of tokenUrls)
    expect(await runnerAt(url, () => {}, { ...testAccess(API), tokenUrls }).check()).toBeNull()
})

test('a refused call has no effect, and the pool skips its runner', async () => {
  for (const { url } of servers) {
    const remote = runnerAt(url, () => {}, { ...testAccess(API), token: null })
    expect(failureOf(await failureIn(remote.service.cancelRun({})))).toBe('unreachable')
    const refused = await failureIn(makePool('runner', [remote]).call((runner) => runner.cancelRun({})))
    expect(refused instanceof AppError && refused.status).toBe(503)
    const other = runnerAt(url, () => {}, testAccess(API))
    const pool = makePool('runner', [remote, other, remote])
    for (let n = 0; n < 3; n += 1)
      expect(await pool.call((runner) => runner.cancelRun({}))).toMatchObject({ interrupted: true })
  }
})
