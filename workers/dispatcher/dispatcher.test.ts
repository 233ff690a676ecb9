import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { Code, ConnectError } from '@connectrpc/connect'
import type { JSONValue } from 'postgres'
import { makeTokens } from '../../app/attempt-access/tokens.ts'
import { systemClock } from '../../app/core/clock.ts'
import { newId, type RunId } from '../../app/core/ids.ts'
import { makeLog } from '../../app/core/log.ts'
import { runnerAt } from '../../app/rpc/clients.ts'
import { applyOutcomes } from '../../app/runs/store/outcomes.ts'
import { begunTrace, inTrace, NO_TRACE } from '../../ground/telemetry/trace.ts'
import { advance, store } from '../../machines/advance.ts'
import { newRun, runColumns, runMachine } from '../../machines/run.ts'
import { testAccess } from '../../sidecars/rpc/testing.ts'
import { holdPort } from '../../sidecars/supervisor/ports.ts'
import { until } from '../../tools/kit/until.ts'
import { useDatabase } from '../../tools/service/database.ts'
import { addPipeline, commitContent } from '../testing.ts'
import { type Dispatcher, startDispatcher } from './dispatcher.ts'
import { makeRunners } from './runners.ts'
import { type Facts, type Script, type ScriptedRunner, startScriptedRunner } from './test-runner.ts'

const database = useDatabase({ rawConnections: 12 })
let running: { stop(): Promise<void> }[]
let dispatchers: Dispatcher[]

setDefaultTimeout(60_000)

/** Shorter than in the service, so that tests do not wait for sweeps. */
const SWEEP_MS = 50
const RENEW_MS = 100
const ASK_AFTER_MS = 20

beforeEach(() => {
  running = []
  dispatchers = []
})
afterEach(async () => {
  for (const part of running.reverse()) await part.stop()
  // Close leftovers, so that the next test does not execute them.
  await database.sql`update run_attempt set state = 'closed' where state = 'open'`
  await database.sql`update run set status = 'cancelled', waiting = false, follower = null where status in ('pending', 'running')`
})

function dispatcher(urls: string[], replica: string = newId()): Dispatcher & { replica: string } {
  const [starts, moves] = [database.session('starts'), database.session('moves')]
  const started = startDispatcher({
    sql: database.sql,
    starts,
    moves,
    runners: makeRunners(
      urls,
      (url) => runnerAt(url, () => {}, testAccess('http://127.0.0.1:1')),
      ASK_AFTER_MS,
    ),
    tokens: makeTokens('secret', 's3://sluice/'),
    clock: systemClock,
    log: makeLog('test', 'text', () => true),
    replica,
    publicUrl: 'http://127.0.0.1:1',
    lakeRoot: 's3://sluice/',
    post: () => {},
    sweepMs: SWEEP_MS,
    renewMs: RENEW_MS,
  })
  running.push({
    async stop() {
      await started.stop()
      await Promise.all([starts.end(), moves.end()])
    },
  })
  dispatchers.push(started)
  return { ...started, replica }
}

function runner(script: Script, ...options: RunnerOptions): ScriptedRunner {
  const started = startScriptedRunner(script, ...options)
  running.push(started)
  return started
}
type RunnerOptions = Parameters<typeof startScriptedRunner> extends [Script, ...infer Rest] ? Rest : never

/** Nudges all dispatchers after every request and cancel, like the API process. */
const pipelineNamed = (name: string, landingZones: string[] = []) =>
  addPipeline(database.sql, name, {
    landingZones,
    nudge(about) {
      for (const each of dispatchers) each.nudge(about)
    },
  })

const rowOf = async (id: RunId) => {
  const [row] = await database.sql`select * from run where id = ${id}`
  if (row === undefined) throw new Error('no such run')
  return row
}
const ended = (id: RunId) =>
  until(
    () => rowOf(id),
    (row) => ['success', 'failed', 'cancelled'].includes(row.status),
  )
const executes = (id: RunId, attempt = 1) =>
  until(
    () => rowOf(id),
    (row) => row.attempt === attempt && row.phase === 'executing',
  )
const isFollowedBy = (id: RunId, { replica }: { replica: string }) =>
  until(
    () => rowOf(id),
    (row) => row.follower === replica,
  )
/** Waits for a moment without open transactions. It never comes if a transaction stays open during a sidecar call. */
const noneInTransaction = () =>
  until(
    () =>
      database.sql`
        select query from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null
          and backend_type = 'client backend'`,
    (transactions) => transactions.length === 0,
  )
const openBranches = () => database.sql`select name from lake_ref where state = 'open' and name <> 'main'`
/** Undoes every write after the start of the attempt, like a database crash. */
async function undoAcceptance(id: RunId) {
  const { next } = advance(runMachine, newRun(), { type: 'start' })
  const { status, phase, waiting } = runColumns(next)
  await database.sql.begin(async (tx) => {
    await tx`
      update run set snapshot = ${tx.json(store(next) as unknown as JSONValue)}, status = ${status}, phase = ${phase},
        waiting = ${waiting}, started_at = null
      where id = ${id}`
    await tx`update run_attempt set runner_boot = null where run_id = ${id}`
    await tx`delete from transition where entity_id = ${id} and event in ('accepted', 'entered')`
  })
}
const logOf = async (id: RunId) =>
  (await database.sql`select message from run_log where run_id = ${id} order by seq`).map(
    (line) => line.message,
  )
const historyOf = async (id: RunId) =>
  (await database.sql`select event, "to" from transition where entity_id = ${id} order by id`).map(
    (row) => `${row.event} ${row.to}`,
  )

const merging: Script = async (request) => ({
  testedCommit: await commitContent(database.sql, request),
  rowsWritten: 1,
})
/** A script that does not end before `release`. */
function held(script: Script = merging) {
  const gate = Promise.withResolvers<void>()
  return {
    script: (async (request, signal) => gate.promise.then(() => script(request, signal))) as Script,
    release: gate.resolve,
  }
}

/** A run whose only attempt executes until `release`. */
async function executing(name: string) {
  const { script, release } = held()
  const its = runner(script)
  const only = dispatcher([its.url])
  const id = await (await pipelineNamed(name)).request()
  await executes(id)
  return { id, its, only, release }
}
/** A runner that holds the first attempt until `release` and merges all others. */
function holdsFirst() {
  const { script, release } = held()
  let attempts = 0
  const its = runner((...attempt) => (attempts++ === 0 ? script : merging)(...attempt))
  return { its, release }
}

describe('a run', () => {
  test('a run reaches a merged success with every transition in its history', async () => {
    const its = runner(merging)
    dispatcher([its.url])
    const name = 'plain'
    const pipeline = await pipelineNamed(name)
    const id = await pipeline.request()
    expect(await ended(id)).toMatchObject({ status: 'success', attempt: 1, rows_written: '1', error: null })
    expect(await historyOf(id)).toEqual([
      'requested pending.waiting',
      'start pending.starting',
      'accepted running.rendering',
      'entered running.executing',
      'executed running.merging',
      'merged success',
    ])
    const [entry] =
      await database.sql`select from_commit from main_entry where name = ${name} and to_commit is null`
    expect(entry?.from_commit).toBe((await rowOf(id)).merged_commit)
    expect(await openBranches()).toHaveLength(0)
    expect(await logOf(id)).toEqual([
      expect.stringMatching(/^attempt 1: version 1 on main at commit \d+$/),
      'executing',
      expect.stringMatching(/^success after \d+ ms: 1 row merged as commit \d+$/),
    ])
    expect(its.batches).toEqual([1])
  })

  test('a run that changes no table succeeds without a commit', async () => {
    dispatcher([runner(() => ({})).url])
    const pipeline = await pipelineNamed('unchanged')
    const [before] = await database.sql`select number from lake_ref where name = 'main'`
    const id = await pipeline.request()
    expect(await ended(id)).toMatchObject({ status: 'success', merged_commit: null })
    expect(await database.sql`select number from lake_ref where name = 'main'`).toEqual([before] as never)
    expect(await openBranches()).toHaveLength(0)
  })

  test('a failed execution is retried on new branches up to the limit', async () => {
    const branches: string[] = []
    const fails = (attempts: number): Script => {
      return async (request) => {
        branches.push(request.lake?.warehouse ?? '')
        return request.attempt <= attempts
          ? { error: `no ${request.attempt}`, maxRetries: 2 }
          : { testedCommit: await commitContent(database.sql, request) }
      }
    }
    const [mended, broken] = [await pipelineNamed('mended'), await pipelineNamed('hopeless')]
    const first = dispatcher([runner(fails(2)).url])
    const id = await mended.request()
    expect(await ended(id)).toMatchObject({ status: 'success', attempt: 3, error: null })
    expect(new Set(branches).size).toBe(3)
    expect(await historyOf(id)).toContain('executionFailed running.waiting')
    expect(await logOf(id)).toEqual(
      expect.arrayContaining([
        'attempt 1 failed: executing: no 1',
        'next attempt in 0 s: retry 1 of 2',
        'next attempt in 0 s: retry 2 of 2',
      ]),
    )
    await first.stop()
    dispatcher([runner(fails(9)).url])
    const last = await broken.request()
    expect(await ended(last)).toMatchObject({ status: 'failed', attempt: 3, error: 'executing: no 3' })
    expect(await openBranches()).toHaveLength(0)
  })

  test('a run executes again if its branch moved after its tests', async () => {
    let times = 0
    const script: Script = async (request) => {
      const testedCommit = await commitContent(database.sql, request)
      if (times++ === 0) await commitContent(database.sql, request)
      return { testedCommit }
    }
    dispatcher([runner(script).url])
    const id = await (await pipelineNamed('moved')).request()
    expect(await ended(id)).toMatchObject({ status: 'success', attempt: 2 })
  })
})

describe('order of runs', () => {
  test('runs of one pipeline execute one at a time, oldest first', async () => {
    let active = 0
    let most = 0
    const order: string[] = []
    const script: Script = async (request) => {
      active += 1
      most = Math.max(most, active)
      order.push(request.runId)
      const testedCommit = await commitContent(database.sql, request)
      active -= 1
      return { testedCommit }
    }
    dispatcher([runner(script).url])
    dispatcher([runner(script).url])
    const pipeline = await pipelineNamed('queued')
    const ids: RunId[] = []
    for (let n = 0; n < 8; n++) ids.push(await pipeline.request())
    for (const id of ids) expect((await ended(id)).status).toBe('success')
    expect(order).toEqual(ids)
    expect(most).toBe(1)
  })

  test('runs of different pipelines each become one commit of main', async () => {
    dispatcher([runner(merging).url])
    const pipelines = await Promise.all(Array.from({ length: 20 }, (_, n) => pipelineNamed(`many${n}`)))
    const ids = await Promise.all(pipelines.map((pipeline) => pipeline.request()))
    const rows = await Promise.all(ids.map(ended))
    expect(rows.map((row) => row.status)).toEqual(ids.map(() => 'success'))
    expect(new Set(rows.map((row) => row.merged_commit)).size).toBe(20)
  })
})

describe('runners', () => {
  test('start batches are at most as large as the runs under way', async () => {
    const everyone = Promise.withResolvers<Facts>()
    const urls = Array.from({ length: 12 }, () => runner(() => everyone.promise).url)
    const ids = await Promise.all(
      Array.from({ length: 40 }, async (_, n) => (await pipelineNamed(`burst-${n}`)).request()),
    )
    dispatcher(urls)
    const batches = await until(
      () => database.sql<{ count: number }[]>`
        select count(*)::int from run_attempt where run_id = any(${ids}) group by opened_at order by opened_at`,
      (found) => found.reduce((sum, { count }) => sum + count, 0) === 40,
    )
    expect(batches[0]?.count).toBe(16)
    for (const [n, { count }] of batches.entries())
      expect(count).toBeLessThanOrEqual(Math.max(16, ...batches.slice(0, n).map((batch) => batch.count * 2)))
    everyone.resolve({})
    await Promise.all(ids.map(ended))
  })

  test('every attempt carries the trace of the request of its run', async () => {
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    const first = held()
    const at = runner((request, signal) => (request.attempt === 1 ? first.script(request, signal) : {}))
    dispatcher([at.url])
    const pipeline = await pipelineNamed('traced')
    const traced = await inTrace(
      () => ({ requestId: 'r', traceparent, tracestate: 'a=1' }),
      () => pipeline.request(),
    )
    await executes(traced)
    at.reboot()
    await ended(traced)
    first.release()
    const untraced = await pipeline.request()
    await ended(untraced)
    const traces = at.submitted.map(({ runId, attempt, traceparent, tracestate }) => [
      [runId, attempt],
      [traceparent, tracestate],
    ])
    expect(traces).toEqual([
      [
        [traced, 1],
        [traceparent, 'a=1'],
      ],
      [
        [traced, 2],
        [traceparent, 'a=1'],
      ],
      [
        [untraced, 1],
        [begunTrace(untraced, NO_TRACE).traceparent ?? '', ''],
      ],
    ])
  })

  test.each([Code.ResourceExhausted, Code.Unauthenticated, Code.PermissionDenied])(
    'a run stays pending and loses no attempt after a refusal (code %p)',
    async (code) => {
      let isRefusing = true
      const strict = runner(merging, () => {
        if (isRefusing) throw new ConnectError('not for you', code)
      })
      dispatcher([strict.url])
      const id = await (await pipelineNamed(`refused-with-${code}`)).request()
      await until(async () => (await historyOf(id)).includes('refused pending.waiting'))
      expect((await rowOf(id)).status).toBe('pending')
      isRefusing = false
      expect((await ended(id)).status).toBe('success')
      expect((await historyOf(id)).join()).not.toContain('lost')
    },
  )

  test('a run stays pending until a runner is available', async () => {
    // The holder of the port closes every connection, and no other process can bind the port meanwhile.
    const held = await holdPort()
    const proxy = dispatcher([`http://127.0.0.1:${held.port}`])
    const id = await (await pipelineNamed('early')).request()
    await until(
      () => database.sql`select 1 from replica where name = ${proxy.replica}`,
      (rows) => rows.length > 0,
    )
    expect((await rowOf(id)).status).toBe('pending')
    await held.release()
    running.push(startScriptedRunner(merging, undefined, { port: held.port }))
    expect((await ended(id)).status).toBe('success')
  })

  test('after a runner restart the run executes again and merges once', async () => {
    const { its, release } = holdsFirst()
    dispatcher([its.url])
    const name = 'survivor'
    const id = await (await pipelineNamed(name)).request()
    await executes(id)
    its.reboot()
    expect(await ended(id)).toMatchObject({ status: 'success', attempt: 2 })
    release()
    expect(await database.sql`select * from main_entry where name = ${name}`).toHaveLength(1)
    expect(await openBranches()).toHaveLength(0)
  })

  test('no transaction stays open while a submission is unanswered', async () => {
    const submissionArrived = Promise.withResolvers<void>()
    const silent = Bun.listen({
      hostname: '127.0.0.1',
      port: 0,
      socket: {
        data(_, bytes) {
          if (bytes.includes('SubmitPipeline')) submissionArrived.resolve()
        },
      },
    })
    running.push({ stop: async () => silent.stop(true) })
    dispatcher([`http://127.0.0.1:${silent.port}`])
    const pipeline = await pipelineNamed('unanswered')
    const id = await pipeline.request()
    await submissionArrived.promise
    await noneInTransaction()
    expect((await rowOf(id)).status).toBe('pending')
    await pipeline.runs.cancel(id)
  })

  test('no transaction stays open while an attempt executes slowly', async () => {
    const { id, release } = await executing('slow')
    await noneInTransaction()
    release()
    expect((await ended(id)).status).toBe('success')
  })

  test('only a run that loses runners while alone on them fails', async () => {
    const forever = new Promise<Facts>(() => {})
    const restarting = runner((request, signal) =>
      request.pipelineName === 'deadly' || request.attempt <= 2 ? forever : merging(request, signal),
    )
    dispatcher([restarting.url])
    const [deadly, neighbour] = [
      await (await pipelineNamed('deadly')).request(),
      await (await pipelineNamed('neighbour')).request(),
    ]
    for (let attempt = 1; attempt <= 2; attempt++) {
      await executes(deadly, attempt)
      await executes(neighbour, attempt)
      restarting.reboot()
    }
    expect(await ended(neighbour)).toMatchObject({ status: 'success', attempt: 3 })
    expect((await rowOf(neighbour)).snapshot.context).toMatchObject({ lostAlone: 0, lostTogether: 2 })
    for (let attempt = 3; attempt <= 5; attempt++) {
      await executes(deadly, attempt)
      restarting.reboot()
    }
    expect(await ended(deadly)).toMatchObject({
      status: 'failed',
      attempt: 5,
      error: expect.stringMatching(/^runner lost 3 times while this run executed alone on it/),
    })
    const alone = restarting.submitted.filter(({ isAlone }) => isAlone)
    expect(new Set(alone.map(({ attempt }) => attempt))).toEqual(new Set([3, 4, 5]))
    expect(await logOf(deadly)).toContain(
      'this attempt executes alone on its runner: earlier attempts lost their runners',
    )
  })

  test('a run executes again after an engine kill, at most three times', async () => {
    const lost: Facts = { error: 'engine process ended (SIGKILL)', isEngineLost: true }
    const script: Script = (request, signal) =>
      request.pipelineName === 'engine-once' && request.attempt === 2 ? merging(request, signal) : lost
    dispatcher([runner(script).url])
    const once = await (await pipelineNamed('engine-once')).request()
    const always = await (await pipelineNamed('engine-always')).request()
    expect(await ended(once)).toMatchObject({ status: 'success', attempt: 2, error: null })
    expect(await logOf(once)).toContain('engine lost in attempt 1: executing: engine process ended (SIGKILL)')
    expect(await ended(always)).toMatchObject({
      status: 'failed',
      attempt: 4,
      error: 'engine lost 4 times: executing: engine process ended (SIGKILL)',
    })
  })
})

describe('cancelling', () => {
  test('a cancel is retried after a runner has refused this API', async () => {
    const forever = held()
    const refused: string[] = []
    const strict = runner(forever.script, () => {}, {
      onCancel(handle) {
        if (refused.push(handle) === 1) throw new ConnectError('not for you', Code.Unauthenticated)
      },
    })
    dispatcher([strict.url])
    const pipeline = await pipelineNamed('cancelled-later')
    const id = await pipeline.request()
    await executes(id)
    await pipeline.runs.cancel(id)
    await until(() => strict.cancelled.includes(`${id}:1`))
    expect(refused).toEqual([`${id}:1`, `${id}:1`])
    forever.release()
  })

  test('the first commit wins a race between cancel and merge', async () => {
    dispatcher([runner(merging).url])
    for (let round = 0; round < 10; round++) {
      const pipeline = await pipelineNamed(`raced${round}`)
      const id = await pipeline.request()
      await until(async () => (await rowOf(id)).status !== 'pending')
      const wasCancelled = await pipeline.runs.cancel(id).then(
        () => true,
        () => false,
      )
      const row = await ended(id)
      expect(row.status).toBe(wasCancelled ? 'cancelled' : 'success')
      expect(await database.sql`select * from main_entry where name = ${`raced${round}`}`).toHaveLength(
        wasCancelled ? 0 : 1,
      )
    }
  })
})

describe('unusual data and interruptions', () => {
  test('a long error text with NULs and split characters ends its run', async () => {
    const error = `${'x'.repeat(7)}\u0000${'\u{1F600}'.repeat(20_000)}`
    dispatcher([runner(() => ({ error })).url])
    const ids = []
    for (const name of ['odd', 'even1']) ids.push(await (await pipelineNamed(`long-error-${name}`)).request())
    for (const id of ids) {
      const row = await ended(id)
      expect(row.status).toBe('failed')
      expect(row.error.length).toBeLessThan(17_000)
    }
  })

  test('a run with an int64 maximum as quality test value succeeds', async () => {
    const script: Script = () => ({
      tests: [
        {
          name: 'huge',
          severity: 'warn',
          passed: false,
          value: 9_223_372_036_854_775_807n,
          durationMs: 0,
          error: '',
          samples: [],
        },
      ],
    })
    dispatcher([runner(script).url])
    const id = await (await pipelineNamed('huge-value')).request()
    expect((await ended(id)).status).toBe('success')
  })

  test('a result that cannot be stored fails its own run only', async () => {
    const script: Script = (request) =>
      request.pipelineName === 'poison'
        ? { landingFileIds: ['no uuid'], archiveLandingZones: true }
        : merging(request, new AbortController().signal)
    dispatcher([runner(script).url])
    const poison = await (await pipelineNamed('poison')).request()
    const healthy = await (await pipelineNamed('healthy')).request()
    expect(await ended(poison)).toMatchObject({
      status: 'failed',
      error: 'the result of the attempt could not be stored: see the service log',
    })
    expect((await ended(healthy)).status).toBe('success')
  })

  test('a run of a dead replica is adopted and ends in the same attempt', async () => {
    const { id, only, release } = await executing('forgotten')
    // A replica without a row counts as dead, so this replica adopts the run. It still follows the attempt.
    await database.sql`update run set follower = 'nobody' where id = ${id}`
    await isFollowedBy(id, only)
    release()
    expect(await ended(id)).toMatchObject({ status: 'success', attempt: 1 })
  })

  test('a run of a replica recorded before the clock went back is adopted', async () => {
    const { id, only, release } = await executing('earlier')
    await database.sql`insert into replica (name, alive_until) values ('earlier', clock_timestamp() + interval '1 hour')`
    await database.sql`update run set follower = 'earlier' where id = ${id}`
    await isFollowedBy(id, only)
    release()
    expect(await ended(id)).toMatchObject({ status: 'success', attempt: 1 })
  })

  test('a run between attempts precedes an older run that commits late', async () => {
    const { its, release } = holdsFirst()
    const pipeline = await pipelineNamed('overtaken')
    const late = await pipeline.request()
    await database.sql`update run set waiting = false where id = ${late}`
    dispatcher([its.url])
    const younger = await pipeline.request()
    await executes(younger)
    await database.sql`update run set waiting = true where id = ${late}`
    its.reboot()
    expect((await ended(younger)).status).toBe('success')
    expect((await ended(late)).status).toBe('success')
    release()
  })

  test('a second acceptance of the same attempt cancels nothing', async () => {
    const { id, its, release } = await executing('accepted-twice')
    const again = await applyOutcomes(
      database.sql,
      [{ runId: id, attempt: 1, kind: 'accepted', runnerBoot: 'the same' }],
      [],
    )
    expect(again.unwanted).toEqual([])
    release()
    expect(await ended(id)).toMatchObject({ status: 'success', attempt: 1 })
    expect(its.cancelled).toEqual([])
  })

  test('an acceptance that a database crash undid is repeated with later news', async () => {
    const slow = held()
    const failing = held((request, signal) =>
      request.attempt > 1 ? merging(request, signal) : { error: 'not now', maxRetries: 1 },
    )
    const only = runner((request, signal) =>
      (request.pipelineName === 'undone' ? slow : failing).script(request, signal),
    )
    dispatcher([only.url])
    const ids = await Promise.all(
      ['undone', 'undone-and-failed'].map(async (name) => (await pipelineNamed(name)).request()),
    )
    for (const id of ids) {
      await executes(id)
      await undoAcceptance(id)
    }
    slow.release()
    failing.release()
    const [undone, failed] = await Promise.all(ids.map(ended))
    expect(undone).toMatchObject({ status: 'success', attempt: 1 })
    expect(failed).toMatchObject({ status: 'success', attempt: 2 })
    for (const id of ids) expect(await historyOf(id)).toContain('accepted running.rendering')
  })

  test('a takeover knows the runner process of a repeated acceptance', async () => {
    const executed: number[] = []
    const first = runner(({ attempt }) => {
      executed.push(attempt)
      return new Promise(() => {})
    })
    const before = dispatcher([first.url])
    const id = await (await pipelineNamed('undone-and-taken-over')).request()
    await executes(id)
    const [attempt] = await database.sql`select runner_boot from run_attempt where run_id = ${id}`
    await undoAcceptance(id)
    await applyOutcomes(
      database.sql,
      [{ runId: id, attempt: 1, kind: 'entered', phase: 'executing', runnerBoot: attempt?.runner_boot }],
      [],
    )
    await before.stop()
    first.reboot()
    dispatcher([first.url])
    await database.sql`update run set follower = ${newId()} where id = ${id}`
    await until(async () => (await rowOf(id)).attempt === 2)
    await until(() => executed.length > 1)
    expect(executed).toEqual([1, 2])
  })

  test('a resubmitted attempt receives the table metadata of its base', async () => {
    const receivedMetadata: (string | undefined)[] = []
    const first = runner(async (request, signal) => {
      receivedMetadata.push(request.tableMetadata)
      if (receivedMetadata.length === 2) {
        await commitContent(database.sql, request)
        return new Promise(() => {})
      }
      return merging(request, signal)
    })
    const before = dispatcher([first.url])
    const pipeline = await pipelineNamed('executed-twice')
    await ended(await pipeline.request())
    const id = await pipeline.request()
    await until(
      () => database.sql`select head from lake_ref where run_id = ${id}`,
      ([branch]) => branch?.head != null,
    )
    await before.stop()
    await undoAcceptance(id)
    first.reboot()
    dispatcher([first.url])
    await database.sql`update run set follower = ${newId()} where id = ${id}`
    await until(() => receivedMetadata.length === 3)
    expect(receivedMetadata[1]).toBeTruthy()
    expect(receivedMetadata).toEqual(['', receivedMetadata[1], receivedMetadata[1]])
  })

  test('a run of a newer machine version is neither started nor adopted', async () => {
    const pipeline = await pipelineNamed('from-the-future')
    const id = await pipeline.request()
    await database.sql`update run set machine_version = 999 where id = ${id}`
    const idle = runner(merging)
    dispatcher([idle.url])
    const other = await (await pipelineNamed('of-today')).request()
    await ended(other)
    expect(idle.submitted.map((request) => request.runId)).toEqual([other])
    await database.sql`update run set machine_version = 1 where id = ${id}`
  })
})

describe('replicas', () => {
  test('a stopped replica hands over its runs without a second execution', async () => {
    const { id, its, only, release } = await executing('adopted')
    await only.stop()
    const heir = dispatcher([its.url])
    await isFollowedBy(id, heir)
    release()
    expect(await ended(id)).toMatchObject({ status: 'success', attempt: 1 })
    expect(its.submitted).toHaveLength(1)
  })
})

describe('landing files', () => {
  test('landing files freeze at start and are archived by their success', async () => {
    const { sql } = database
    const zone = newId()
    await sql`insert into landing_zone (id, namespace, name) values (${zone}, 'default', 'drop')`
    const add = async (filename: string) => {
      const file = newId()
      await sql`
        insert into landing_file (id, zone_id, filename, original_name, path, version_id, size_bytes, content_type)
        values (${file}, ${zone}, ${filename}, ${filename}, ${`default/landing/drop/${filename}`}, '1', 3, 'text/csv')`
      return file
    }
    const early = await add('early.csv')
    let late = ''
    const archiving: Script = async (request) => {
      late ||= await add('late.csv')
      const read = request.landing.flatMap((input) => input.files.map((file) => file.id))
      return {
        testedCommit: await commitContent(sql, request),
        landingFileIds: read,
        archiveLandingZones: true,
      }
    }
    const reader = runner(archiving)
    dispatcher([reader.url])
    const pipeline = await pipelineNamed('archiving', ['default.drop'])
    const [first, second] = [await pipeline.request(), await pipeline.request()]
    await ended(second)
    expect(
      reader.submitted.map((r) => r.landing.flatMap((input) => input.files.map((file) => file.id))),
    ).toEqual([[early], [late]])
    const archived =
      await sql`select id, archived_by_run from landing_file where zone_id = ${zone} order by seq`
    expect(archived.map((row) => ({ ...row }))).toEqual([
      { id: early, archived_by_run: first },
      { id: late, archived_by_run: second },
    ])
  })
})
