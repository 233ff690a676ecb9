import { beforeEach, expect, test } from 'bun:test'
import assert from 'node:assert/strict'
import type { SqlTx } from '../../../drizzle/client.ts'
import { RUN_MACHINE_VERSION } from '../../../machines/run.ts'
import { until } from '../../../tools/kit/until.ts'
import { newId, type RunId } from '../../core/ids.ts'
import type { TestResult } from '../outcome.ts'
import { anySlot } from '../placement.ts'
import { accepted, executed, failed, lost, RUNNER, useRuns } from '../test-runs.ts'
import { failStuckRuns } from './endings.ts'
import { startWaiting } from './start.ts'

const { opened, pipelineNamed, requested, start, tell } = useRuns()
beforeEach(async () => {
  await opened.sql`truncate run, run_attempt, run_log, run_file, lake_commit, trigger_event, transition, outbox`
  await opened.sql`delete from lake_ref where name <> 'main'`
})

const rowOf = async (id: RunId) => {
  const [row] = await opened.sql`select * from run where id = ${id}`
  assert(row)
  return row
}
const historyOf = async (id: RunId) =>
  (await opened.sql`select event, "to", cause from transition where entity_id = ${id} order by id`).map(
    ({ event, to, cause }) => `${event} ${to} ${cause}`,
  )
const logOf = async (id: RunId) =>
  (await opened.sql`select message from run_log where run_id = ${id} order by seq`).map(
    (line) => line.message,
  )

async function zoneWithFile(name: string) {
  const [zone, file] = [newId(), newId()]
  await opened.sql`insert into landing_zone (id, namespace, name) values (${zone}, 'default', ${name})`
  await opened.sql`
    insert into landing_file (id, zone_id, filename, original_name, path, version_id, size_bytes, content_type)
    values (${file}, ${zone}, '20260101_000000_a.csv', 'a.csv', 'default/landing/a.csv', '1', 3, 'text/csv')`
  return file
}

/** A run requested by an upload, as the trigger evaluator inserts it. */
async function requestedBy(file: string, pipeline: Awaited<ReturnType<typeof pipelineNamed>>) {
  const id = await pipeline.request('trigger:landing_zone_upload:default.drop')
  await opened.sql`update run set landing_file_id = ${file} where id = ${id}`
  return id
}

/** Reports a first attempt that read these files and archives them. */
const archivingReport = (runId: RunId, landingFileIds: string[], tests: TestResult[] = []) =>
  tell(accepted(runId), executed(runId, { tests, landingFileIds, archivesLandingZones: true }))

/** A run that has been running for `minutes`. */
async function runningSince(name: string, minutes: number) {
  const id = await requested(name)
  await start()
  await tell(accepted(id))
  await opened.sql`update run set started_at = clock_timestamp() - ${minutes} * interval '1 minute' where id = ${id}`
  return id
}

test('a run whose upload is already archived succeeds without an attempt', async () => {
  const file = await zoneWithFile('drop')
  const pipeline = await pipelineNamed('taken', ['default.drop'])
  const taker = newId()
  await opened.sql`update landing_file set archived_by_run = ${taker} where id = ${file}`
  const id = await requestedBy(file, pipeline)
  await opened.sql`
    insert into trigger (id, pipeline_id, type, config, snapshot, machine_version, state, source)
    values (${newId()}, ${pipeline.id}, 'pipeline_success', '{}', '{}', 1, 'armed', 'pipeline:default.gold.taken')`

  expect(await start()).toEqual({
    attempts: [],
    completed: [
      {
        run_id: id,
        pipeline_id: pipeline.id,
        namespace: 'default',
        layer: 'gold',
        pipeline: 'taken',
        status: 'success',
      },
    ],
    events: 1,
    isFull: false,
  })
  expect(await rowOf(id)).toMatchObject({
    status: 'success',
    waiting: false,
    rows_written: '0',
    duration_ms: '0',
    attempt: 0,
    merged_commit: null,
    error: null,
  })
  expect(await historyOf(id)).toEqual([
    'requested pending.waiting trigger:landing_zone_upload:default.drop',
    `inputTaken success run ${taker}`,
  ])
  expect(await logOf(id)).toEqual([
    `success: nothing to do, because run ${taker} has already archived 20260101_000000_a.csv, the upload that requested this run`,
  ])
  expect(await opened.sql`select source, subject from trigger_event`).toEqual([
    { source: 'pipeline:default.gold.taken', subject: id },
  ] as never)
  for (const table of ['run_attempt', 'run_file', 'outbox'])
    expect(await opened.sql`select 1 from ${opened.sql(table)}`).toHaveLength(0)
  expect(await opened.sql`select 1 from lake_ref where name <> 'main'`).toHaveLength(0)
})

test('a run starts with its upload; a run without input takes no slot', async () => {
  const [taken, there] = [await zoneWithFile('taken'), await zoneWithFile('there')]
  await opened.sql`update landing_file set archived_by_run = ${newId()} where id = ${taken}`
  const done = await requestedBy(taken, await pipelineNamed('done', ['default.taken']))
  const reads = await requestedBy(there, await pipelineNamed('reads', ['default.there']))
  const plain = await requested('plain')
  const { attempts, completed, isFull } = await start(3)
  expect(attempts.map(({ runId, landing }) => [runId, landing.flatMap(({ files }) => files).length])).toEqual(
    [
      [reads, 1],
      [plain, 0],
    ],
  )
  expect(completed.map((run) => run.run_id)).toEqual([done])
  expect(isFull).toBe(true)
  expect(await opened.sql`select run_id, landing_file_id from run_file`).toEqual([
    { run_id: reads, landing_file_id: there },
  ] as never)
})

/** Starts runs while another transaction locks the file; `meanwhile` runs before the lock is released. */
async function startBehind(
  file: string,
  whoHasIt: (tx: SqlTx) => Promise<unknown>,
  meanwhile: () => Promise<unknown>,
) {
  const isHeld = Promise.withResolvers<void>()
  const letGo = Promise.withResolvers<void>()
  const holder = opened.sql.begin(async (tx) => {
    await tx`select 1 from landing_file where id = ${file} for update`
    await whoHasIt(tx)
    isHeld.resolve()
    await letGo.promise
  })
  holder.catch(isHeld.reject)
  await isHeld.promise
  const started = start()
  try {
    await until(
      () => opened.sql`
        select 1 from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%with recursive heads%'`,
      (waiting) => waiting.length === 1,
    )
    await meanwhile()
  } finally {
    letGo.resolve()
  }
  await holder
  return started
}

test('a run succeeds if its upload is archived during its start', async () => {
  const file = await zoneWithFile('archiving')
  const id = await requestedBy(file, await pipelineNamed('archiving', ['default.archiving']))
  const archive = (tx: SqlTx) => tx`update landing_file set archived_by_run = ${newId()} where id = ${file}`
  const { attempts, completed } = await startBehind(file, archive, async () => {})
  expect(attempts).toHaveLength(0)
  expect(completed.map((run) => run.run_id)).toEqual([id])
})

test('a replica starts the next run while another replica starts the oldest one', async () => {
  const file = await zoneWithFile('late')
  const oldest = await requestedBy(file, await pipelineNamed('late', ['default.late']))
  const meanwhile = async () => {
    const next = await requested('next')
    const { attempts } = await startWaiting(opened.sql, [anySlot(RUNNER)], 'another replica')
    expect(attempts.map(({ runId }) => runId)).toEqual([next])
  }
  const { attempts } = await startBehind(file, async () => {}, meanwhile)
  expect(attempts.map(({ runId }) => runId)).toEqual([oldest])
})

test('a run between attempts succeeds if its upload is archived meanwhile', async () => {
  const file = await zoneWithFile('again')
  const id = await requestedBy(file, await pipelineNamed('again', ['default.again']))
  await start()
  await tell(accepted(id), lost(id))
  await opened.sql`update landing_file set archived_by_run = ${newId()} where id = ${file}`
  expect((await start()).completed.map((run) => run.run_id)).toEqual([id])
  expect(await rowOf(id)).toMatchObject({ status: 'success', phase: null, attempt: 1, rows_written: '0' })
  expect(await opened.sql`select 1 from run_attempt where state = 'open'`).toHaveLength(0)
})

test('a run is not charged for a runner that a neighbour lost', async () => {
  const first = await requested('leaves')
  const second = await requested('stays')
  await start()
  await tell(accepted(first), accepted(second))
  await tell(lost(first))
  await startWaiting(opened.sql, [anySlot('http://127.0.0.1:2')], 'another replica')
  await tell(accepted(first, 2))
  await tell(lost(second))
  for (const id of [first, second])
    expect((await rowOf(id)).snapshot.context).toMatchObject({ lostTogether: 1, lostAlone: 0 })
})

test('two archiving successes archive and move their common files once', async () => {
  const files = [await zoneWithFile('inputs'), await zoneWithFile('others')]
  const zones = ['default.inputs', 'default.others']
  const runs = await Promise.all(
    ['first', 'second'].map(async (name) => (await pipelineNamed(name, zones)).request()),
  )
  await start()
  for (const runId of runs) await archivingReport(runId, files)
  expect(await opened.sql`select archived_by_run from landing_file where id = any(${files}::uuid[])`).toEqual(
    [{ archived_by_run: runs[0] }, { archived_by_run: runs[0] }] as never,
  )
  expect(await opened.sql`select kind, payload from outbox`).toEqual([
    { kind: 'archivedInputs', payload: { runId: runs[0] } },
  ] as never)
})

test('a run that fails its quality tests archives nothing', async () => {
  const file = await zoneWithFile('refused')
  const runId = await (await pipelineNamed('refuses', ['default.refused'])).request()
  await start()
  const failing: TestResult = {
    name: 'none',
    severity: 'error',
    isPassed: false,
    value: 1,
    durationMs: 1,
    error: null,
  }
  await archivingReport(runId, [file], [failing])
  expect(await rowOf(runId)).toMatchObject({ status: 'failed' })
  expect(await opened.sql`select archived_by_run from landing_file where id = ${file}`).toEqual([
    { archived_by_run: null },
  ] as never)
  expect(await opened.sql`select kind from outbox where kind = 'archivedInputs'`).toHaveLength(0)
})

test('a success leaves read-only files active and logs a warning', async () => {
  const [own, lent] = [await zoneWithFile('own'), await zoneWithFile('lent')]
  const runId = await (await pipelineNamed('reads-both', ['default.own', 'default.lent'])).request()
  await start()
  await opened.sql`update run_file set may_archive = false where landing_file_id = ${lent}`
  await archivingReport(runId, [own, lent])
  const archived = await opened.sql`
    select id, archived_by_run from landing_file where id in (${own}, ${lent}) order by seq`
  expect(archived.map((row) => [row.id, row.archived_by_run])).toEqual([
    [own, runId],
    [lent, null],
  ])
  const [warning, ...others] = await opened.sql`
    select message from run_log where run_id = ${runId} and level = 'warn'`
  expect([warning?.message, others.length]).toEqual([
    "landing files not archived: the pipeline's owner may read but not write default.lent, so the next run reads the files again",
    0,
  ])
  expect((await logOf(runId)).at(-1)).toStartWith('success')
})

test('a run over the time limit fails, and other runs continue', async () => {
  const stuck = await runningSince('stuck', 121)
  const young = await runningSince('young', 119)
  const waiting = await requested('waits')
  const { ids, completed } = await opened.sql.begin((tx) =>
    failStuckRuns(tx, { timeoutMinutes: 120, limit: 10 }),
  )
  expect(ids).toEqual([stuck])
  expect(completed).toMatchObject([{ run_id: stuck, status: 'failed', pipeline: 'stuck' }])
  const error = 'timed out: the run was running for longer than 120 minutes (stuck_run_timeout_minutes)'
  expect(await rowOf(stuck)).toMatchObject({ status: 'failed', error, follower: null, waiting: false })
  expect((await logOf(stuck)).at(-1)).toBe(error)
  expect((await historyOf(stuck)).at(-1)).toBe('timedOut failed reaper')
  expect(await opened.sql`select state from lake_ref where run_id = ${stuck}`).toEqual([
    { state: 'deleted' },
  ] as never)
  expect(await opened.sql`select state, outcome from run_attempt where run_id = ${stuck}`).toEqual([
    { state: 'closed', outcome: 'failed' },
  ] as never)
  expect(await opened.sql`select kind, payload from outbox`).toEqual([
    { kind: 'cancelAttempt', payload: { handle: `${stuck}:1`, runnerUrl: RUNNER } },
  ] as never)
  expect(await rowOf(young)).toMatchObject({ status: 'running' })
  expect(await rowOf(waiting)).toMatchObject({ status: 'pending' })
})

test('stuck runs fail in batches, even a run between two attempts', async () => {
  const stuck: RunId[] = []
  for (const name of ['a', 'b', 'c']) stuck.push(await runningSince(`batch-${name}`, 10))
  const [first] = stuck
  assert(first)
  await tell(lost(first))
  expect(await rowOf(first)).toMatchObject({ status: 'running', phase: 'waiting' })
  const fail = () => opened.sql.begin((tx) => failStuckRuns(tx, { timeoutMinutes: 5, limit: 2 }))
  const batches = [(await fail()).ids, (await fail()).ids, (await fail()).ids]
  expect(batches.map((ids) => ids.length)).toEqual([2, 1, 0])
  expect(batches.flat().sort()).toEqual(stuck.toSorted())
  expect(await rowOf(first)).toMatchObject({ status: 'failed', waiting: false })
})

test('a stuck run of a newer machine version does not block others', async () => {
  const [newer, ours] = [await runningSince('newer', 10), await runningSince('ours', 10)]
  await opened.sql`update run set machine_version = ${RUN_MACHINE_VERSION + 1} where id = ${newer}`
  const { ids } = await opened.sql.begin((tx) => failStuckRuns(tx, { timeoutMinutes: 5, limit: 1 }))
  expect(ids).toEqual([ours])
  expect(await rowOf(newer)).toMatchObject({ status: 'running' })
})

test('a run whose pipeline was deleted is cancelled at its start', async () => {
  const pipeline = await pipelineNamed('deleted')
  const id = await pipeline.request()
  await opened.sql`update pipeline set deleted_at = clock_timestamp() where id = ${pipeline.id}`
  const purged = await pipelineNamed('purged')
  const late = await purged.request()
  await opened.sql`delete from pipeline where id = ${purged.id}`
  const { attempts, completed } = await start()
  expect(attempts).toEqual([])
  expect(new Map(completed.map((run) => [run.run_id, run.status]))).toEqual(
    new Map([
      [id, 'cancelled'],
      [late, 'cancelled'],
    ]),
  )
  expect(await rowOf(id)).toMatchObject({ status: 'cancelled', waiting: false })
  expect(await historyOf(id)).toEqual([
    'requested pending.waiting manual',
    'cancelRequested cancelled pipeline deleted',
  ])
  expect(await logOf(id)).toEqual(['cancelled: pipeline deleted'])
})

test('a run that ends with its acceptance has a complete history', async () => {
  const id = await requested('quick')
  await start()
  const { completed, freed, nextStartMs } = await tell(accepted(id), executed(id))
  expect(completed).toHaveLength(1)
  expect({ freed: freed.length, nextStartMs }).toEqual({ freed: 1, nextStartMs: null })
  expect(await historyOf(id)).toEqual([
    'requested pending.waiting manual',
    'start pending.starting dispatcher',
    'accepted running.rendering runner',
    'executed success runner',
  ])
  expect(await opened.sql`select state, outcome, runner_boot from run_attempt where run_id = ${id}`).toEqual([
    { state: 'closed', outcome: 'success', runner_boot: 'boot' },
  ] as never)
})

test('each pipeline starts its oldest run, one attempt at a time', async () => {
  const [a, b] = [await pipelineNamed('queue-a'), await pipelineNamed('queue-b')]
  const [a1, b1, a2] = [await a.request(), await b.request(), await a.request()]
  expect((await start()).attempts.map(({ runId }) => runId)).toEqual([a1, b1])
  expect((await start()).attempts).toEqual([])
  const { freed, isAwaited } = await tell(failed(a1, 'no'))
  expect(freed).toEqual([a.id])
  expect(isAwaited).toBe(true)
  expect((await start()).attempts.map(({ runId }) => runId)).toEqual([a2])
})

test("an attempt gets its table's metadata at the base, if any", async () => {
  const [there, none] = [await pipelineNamed('there'), await pipelineNamed('none')]
  const write = async (number: number) => {
    const id = newId()
    await opened.sql`
      insert into lake_content (id, table_uuid, metadata_location, columns, row_count, size_bytes)
      values (${id}, ${newId()}, ${`s3://sluice/_lake/v${number}`}, '[]', 0, 0)`
    await opened.sql`
      update main_entry set to_commit = ${number} where to_commit is null and name = 'there'`
    await opened.sql`
      insert into main_entry (namespace, layer, name, content_id, from_commit)
      values ('default', 'gold', 'there', ${id}, ${number})`
  }
  await write(1)
  await write(2)
  await there.request()
  await none.request()
  const { attempts } = await start()
  const metadata = attempts.map(({ pipeline, tableMetadata }) => [pipeline, tableMetadata])
  expect(Object.fromEntries(metadata)).toEqual({ there: 's3://sluice/_lake/v2', none: '' })
  await opened.sql`delete from main_entry`
})
