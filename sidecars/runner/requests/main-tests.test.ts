import { expect, test } from 'bun:test'
import { create } from '@bufbuild/protobuf'
import { Code, ConnectError } from '@connectrpc/connect'
import {
  LakeAccessSchema,
  RunQualityTestsRequestSchema,
} from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { testDirectory } from '../../../tools/kit/directory.ts'
import { NO_COST } from '../../core/process-usage.ts'
import { limits } from '../core/limits.ts'
import { type EngineLease, EnginesBusy, type RunEngines } from '../engine/engine-lease.ts'
import type { AnswerOf, EngineRequest } from '../engine/engine-messages.ts'
import type { LakeSession } from '../session/lake-session.ts'
import { noPython } from '../test-no-python.ts'
import { makeTestMain } from './main-tests.ts'

const directory = testDirectory()

const never = new AbortController().signal
const STUCK = 'select 1 as stuck'

/** A pool of one engine, and a clock. The clock advances only while a stuck test or `take` waits for its end. */
function makeResources(take: (lease: EngineLease, untilLate: () => Promise<never>) => Promise<EngineLease>) {
  let now = 0
  const timeouts: { at: number; over: AbortController }[] = []
  const untilLate = async (signal: AbortSignal): Promise<never> => {
    for (const { at, over } of timeouts.toSorted((a, b) => a.at - b.at)) {
      if (signal.aborted) break
      now = Math.max(now, at)
      over.abort(new Error('late'))
    }
    throw signal.reason
  }
  const calls: string[] = []
  const lease: EngineLease = {
    pid: 0,
    directory,
    instance: async () => 1,
    share: () => ({ memoryLimitBytes: 1, threads: 1 }),
    shared: async () => ({ number: 1, link: async (path) => path }),
    async call<R extends EngineRequest>(request: R, signal = never) {
      if (request.kind === 'judge' && request.sql.includes(STUCK)) await untilLate(signal)
      const judged = { columnTypes: ['INTEGER'], rowCount: 1, first: '0', samples: ['0'] }
      return (request.kind === 'judge' ? judged : true) as AnswerOf<R['kind']>
    },
    cost: () => NO_COST,
    close: async () => {},
    async release(clear) {
      await clear?.()
      calls.push('released')
    },
    async exchange(clear) {
      await clear?.()
      calls.push('exchanged')
      return lease
    },
  }
  const pool: RunEngines = {
    async acquire(signal = never) {
      calls.push('acquired')
      return take(lease, () => untilLate(signal))
    },
    isServing: () => true,
    memory: () => ({ bytes: 0, limitBytes: 0, fullest: 0 }),
    stop: async () => {},
  }
  const time = {
    now: () => now,
    timeout(ms: number) {
      const over = new AbortController()
      timeouts.push({ at: now + ms, over })
      return over.signal
    },
  }
  return { pool, time, calls }
}

const catalog = { load: async () => null, loadView: async () => null }
const lake = { catalog, root: 's3://lake/', close: () => {} } as unknown as LakeSession

async function judge(tests: Record<string, string>, { pool, time }: ReturnType<typeof makeResources>) {
  const testMain = makeTestMain(
    {
      openLake: () => lake,
      pool,
      ...noPython,
    },
    time,
  )
  const request = create(RunQualityTestsRequestSchema, {
    namespace: 'default',
    layer: 'silver',
    pipelineName: 'a',
    lake: create(LakeAccessSchema),
  })
  const files = Object.entries(tests).map(([name, text]) => ({ path: `tests/quality/${name}.sql`, text }))
  return (await testMain(request, files, never)).results
}

test('a quick test after a stuck one is judged in its slot', async () => {
  let leases = 0
  const resources = makeResources(async (lease) => {
    leases += 1
    if (leases > 1) throw new EnginesBusy()
    return lease
  })
  const results = await judge({ a: 'select 0', b: STUCK, c: 'select 0' }, resources)
  expect(results).toMatchObject([
    { name: 'a', passed: true },
    { name: 'b', passed: false, error: expect.stringContaining('exceeded its share') },
    { name: 'c', passed: true },
  ])
  expect(resources.calls.slice(0, 2)).toEqual(['acquired', 'exchanged'])
  expect(resources.calls.filter((call) => call !== 'exchanged')).toEqual(['acquired', 'released'])
})

test('tests that got no engine return an error, not a failure', async () => {
  const error = await judge(
    { a: 'select 0', b: 'select 0' },
    makeResources(async (_, untilLate) => untilLate()),
  ).catch((thrown: unknown) => ConnectError.from(thrown))
  expect(error).toMatchObject({
    code: Code.DeadlineExceeded,
    rawMessage: `the tests took longer than ${limits.testsMs / 1_000} s`,
  })
  const busy = makeResources(() => Promise.reject(new EnginesBusy()))
  expect(await judge({ a: 'select 0' }, busy).catch((thrown: unknown) => thrown)).toMatchObject({
    code: Code.ResourceExhausted,
  })
})
