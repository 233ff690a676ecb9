// A runner and a query service that are reached over native gRPC, as those in other languages are.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, type PlaywrightWorkerArgs, test } from '@playwright/test'
import { freePort, type OwnService, startOwnService } from './own-service.ts'
import { newPipeline, readiness, writeFile } from './resources.ts'
import { getRun, logOf, requestRun } from './runs.ts'

const ROOT = join(import.meta.dirname, '..')
const TOKEN = 'sidecar-token-of-this-test-0123456789'

/** A sidecar on its own for the API at this port, and the address of its native gRPC. */
async function startSidecar(name: 'runner' | 'query', apiPort: number) {
  const scratch = await mkdtemp(join(tmpdir(), `sluice-grpc-${name}-`))
  const env = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    PORT: '0',
    SCRATCH_DIR: scratch,
    SIDECAR_TOKEN: TOKEN,
    API_URLS: `http://127.0.0.1:${apiPort}`,
  }
  const child: ChildProcess = spawn(process.execPath, ['.setup/bun.mjs', `sidecars/${name}/main.ts`], {
    cwd: ROOT,
    env,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const url = await new Promise<string>((resolve, reject) => {
    let said = ''
    const hear = (chunk: Buffer) => {
      said += chunk
      const found = /listening on \S+ and (grpc:\/\/\S+)\s/.exec(said)?.[1]
      if (found !== undefined) resolve(found)
    }
    child.stdout?.on('data', hear)
    child.stderr?.on('data', hear)
    void ended.then(() => reject(new Error(`${name} ended:\n${said}`)))
  })
  return {
    url,
    async stop() {
      child.kill('SIGINT')
      await ended
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

test('runs, previews and queries work over grpc:// addresses', async ({ playwright }) => {
  const request = await requests(playwright)
  expect(await readiness(request)).toMatchObject({ services: { runner: 'healthy', query: 'healthy' } })

  const pipeline = await newPipeline(request, { layer: 'silver' })
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select range as n from range(5)')
  expect((await request.post(`${pipeline.url}/publish`)).status()).toBe(200)
  expect(await (await request.post(`${pipeline.url}/preview`)).json()).toMatchObject({ total_row_count: 5 })

  const run_id = await requestRun(request, pipeline)
  const run = () => getRun(request, run_id)
  await expect.poll(async () => (await run()).status).toBe('success')
  const logs = await logOf(request, run_id)
  expect(logs.length).toBeGreaterThan(2)

  const answer = await request.post('/api/v1/query', {
    data: { sql: `select sum(n) as total from silver."${pipeline.name}"` },
  })
  expect(await answer.json()).toMatchObject({ rows: [{ total: 10 }] })
})

test('a run is cancelled over gRPC', async ({ playwright }) => {
  const request = await requests(playwright)
  const pipeline = await newPipeline(request, { layer: 'silver' })
  const endless =
    'select count(*) as n from range(1000000) a, range(1000000) b where a.range % 7 = b.range % 11'
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, endless)
  const run_id = await requestRun(request, pipeline)
  const status = async () => (await getRun(request, run_id)).status
  await expect.poll(status).toBe('running')
  expect((await request.post(`/api/v1/runs/${run_id}/cancel`)).status()).toBe(200)
  expect(await status()).toBe('cancelled')
})
