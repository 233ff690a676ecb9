// Runner and query service over native gRPC, the protocol of sidecars in other languages.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, type PlaywrightWorkerArgs, test } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import { freePort, type OwnService, startOwnService, startProgram } from '../kit/own-service.ts'
import { ENDLESS, pipelineWith, publishedPipeline, readiness, rowsOf } from '../kit/resources.ts'
import { cancel, getRun, logOf, requestRun, runToSuccess } from '../kit/runs.ts'

const TOKEN = 'sidecar-token-of-this-test-0123456789'

/** Starts a single sidecar for the API at this port, and returns the address of its native gRPC. */
async function startSidecar(name: 'runner' | 'query', apiPort: number) {
  const scratch = await mkdtemp(join(tmpdir(), `sluice-grpc-${name}-`))
  const env = { SCRATCH_DIR: scratch, SIDECAR_TOKEN: TOKEN, API_URLS: `http://127.0.0.1:${apiPort}` }
  const program = await startProgram(`sidecars/${name}/main.ts`, env, /listening on \S+ and (grpc:\/\/\S+)\s/)
  return {
    url: program.url,
    async stop() {
      await program.stop()
      await rm(scratch, { recursive: true, force: true })
    },
  }
}

const started: { stop(): Promise<void> }[] = []
let service: OwnService
const requests = (playwright: PlaywrightWorkerArgs['playwright']) =>
  playwright.request.newContext({ baseURL: service.url })

test.beforeAll(async () => {
  const port = await freePort()
  const [runner, query] = await Promise.all([startSidecar('runner', port), startSidecar('query', port)])
  started.push(runner, query)
  service = await startOwnService({
    PORT: String(port),
    SIDECAR_TOKEN: TOKEN,
    RUNNER_URLS: runner.url,
    QUERY_URLS: query.url,
  })
  started.unshift(service)
})
test.afterAll(async () => {
  for (const one of started) await one.stop()
})

test('runs, previews and queries work over grpc:// addresses @runtime', async ({ playwright }) => {
  const request = await requests(playwright)
  expect(await readiness(request)).toMatchObject({ services: { runner: 'healthy', query: 'healthy' } })

  const pipeline = await publishedPipeline(request, 'select range as n from range(5)')
  expect(await (await request.post(`${pipeline.url}/preview`)).json()).toMatchObject({ total_row_count: 5 })

  const { id } = await runToSuccess(request, pipeline)
  expect((await logOf(request, id)).length).toBeGreaterThan(2)
  expect(await rowsOf(request, `select sum(n) as total from gold."${pipeline.name}"`)).toEqual([
    { total: 10 },
  ])
})

test('a run can be cancelled over gRPC', async ({ playwright }) => {
  const request = await requests(playwright)
  const run_id = await requestRun(request, await pipelineWith(request, ENDLESS))
  const status = async () => (await getRun(request, run_id)).status
  await eventually(status).toBe('running')
  await cancel(request, run_id)
  expect(await status()).toBe('cancelled')
})
