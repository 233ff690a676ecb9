import { afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { select } from '../../drizzle/rows.ts'
import { useDatabase } from '../../tools/service/database.ts'
import { addPipeline } from '../../workers/testing.ts'
import { newId } from '../core/ids.ts'
import { pruneAudit, pruneEvents, pruneHistory, pruneIdempotencyKeys } from './store/history.ts'
import { firstIdAt, pruneLogs } from './store/logs.ts'
import { BATCH_ROWS, inBatches, LINE_KEY, NotLeading } from './store/reaping.ts'
import { pruneQualityResults } from './store/results.ts'
import { pruneAllRunsOf, pruneRuns } from './store/runs.ts'
import { addRuns, reapingNow, rowsOf, runsLeft } from './test-rows.ts'

setDefaultTimeout(60_000)
const database = useDatabase({ rawConnections: 6 })
let sql: Sql
let pipelines = 0
beforeAll(async () => {
  sql = database.sql
})
afterEach(async () => {
  await sql`truncate run, run_log, run_attempt, run_file, quality_result, transition, retention_override, pipeline cascade`
})

async function somePipeline(overrides: Record<string, number> = {}) {
  const name = `p-${pipelines++}`
  const { id } = await addPipeline(sql, name, { landingZones: [], nudge: () => {} })
  if (Object.keys(overrides).length > 0)
    await sql`insert into retention_override ${sql({ pipeline_id: id, ...overrides })}`
  const pipeline = { namespace: 'default', layer: 'gold', name }
  const add = (count: number, status: string, daysAgo: number, logLines?: number) =>
    addRuns(sql, { pipelineId: id, pipeline, count, status, daysAgo, logLines })
  return { id, add }
}

const prune = async () => {
  const reaping = await reapingNow(sql)
  await pruneRuns(reaping)
  return reaping.reaped
}

describe('runs', () => {
  test('prunes runs beyond the count with all their rows, and no others', async () => {
    const { add } = await somePipeline()
    const old = await add(7, 'cancelled', 6)
    const kept = await add(100, 'cancelled', 1)
    expect(await prune()).toMatchObject({ runsPruned: 7, logsPruned: 21 })
    expect(await rowsOf(sql, old)).toEqual({ runs: 0, logs: 0, attempts: 0, files: 0, results: 0, moves: 0 })
    expect(await rowsOf(sql, kept)).toEqual({
      runs: 100,
      logs: 300,
      attempts: 100,
      files: 100,
      results: 100,
      moves: 100,
    })
  })

  test('prunes runs older than the age even if they are few', async () => {
    const { add } = await somePipeline()
    const old = await add(3, 'cancelled', 91)
    const kept = await add(3, 'cancelled', 89)
    expect((await prune()).runsPruned).toBe(3)
    expect(await runsLeft(sql, [...old, ...kept])).toEqual(kept)
  })

  test('keeps active runs and the latest success beyond count and age', async () => {
    const { add } = await somePipeline({ runs_max_per_pipeline: 1 })
    const successes = await add(2, 'success', 300)
    const [running] = await add(1, 'running', 200)
    const pending = await add(2, 'pending', 150)
    const cancelled = await add(2, 'cancelled', 1)
    await prune()
    expect(await runsLeft(sql, [...successes, running ?? '', ...pending, ...cancelled])).toEqual([
      successes[1] ?? '',
      running ?? '',
      ...pending,
      cancelled[1] ?? '',
    ])
  })

  test('keeps a failure on main that no later success has settled', async () => {
    const { add } = await somePipeline({ runs_max_per_pipeline: 1 })
    const settled = await add(2, 'failed', 310)
    const [success = ''] = await add(1, 'success', 300)
    const [older = '', failure = ''] = await add(2, 'failed', 200)
    const onBranch = await add(3, 'success', 100)
    await sql`update run set branch = 'dev' where id = any(${onBranch})`
    const cancelled = await add(3, 'cancelled', 1)
    await prune()
    const all = [...settled, success, older, failure, ...onBranch, ...cancelled]
    expect(await runsLeft(sql, all)).toEqual([success, failure, cancelled[2] ?? ''])
    const settling = await add(1, 'success', 0)
    await prune()
    expect(await runsLeft(sql, [...all, ...settling])).toEqual(settling)
  })

  test('keeps a run that becomes the latest success during pruning', async () => {
    const { add } = await somePipeline({ runs_max_per_pipeline: 1 })
    const [before = ''] = await add(1, 'success', 300)
    const [ending = ''] = await add(1, 'running', 200)
    const [newest = ''] = await add(1, 'cancelled', 1)
    const reaping = await reapingNow(sql)
    let pauses = 0
    await pruneRuns({
      ...reaping,
      async pause() {
        // At the first pause, the range is known but its runs are not selected yet.
        if (pauses++ === 0)
          await sql`update run set status = 'success', finished_at = clock_timestamp() where id = ${ending}`
      },
    })
    expect(await runsLeft(sql, [before, ending, newest])).toEqual([ending, newest])
  })

  test("prunes each pipeline by its own settings, else by the system's", async () => {
    const few = await somePipeline({ runs_max_per_pipeline: 2 })
    const long = await somePipeline({ runs_max_age_days: 400 })
    const plain = await somePipeline()
    const [inFew, inLong, inPlain] = [
      await few.add(5, 'cancelled', 1),
      await long.add(5, 'cancelled', 200),
      await plain.add(5, 'cancelled', 200),
    ]
    expect((await prune()).runsPruned).toBe(8)
    expect(await runsLeft(sql, inFew)).toEqual(inFew.slice(3))
    expect(await runsLeft(sql, inLong)).toEqual(inLong)
    expect(await runsLeft(sql, inPlain)).toEqual([])
  })

  test('deletes a run with many log lines in several bounded transactions', async () => {
    const { add } = await somePipeline()
    await add(3, 'cancelled', 100, BATCH_ROWS)
    const reaping = await reapingNow(sql)
    const sizes: number[] = []
    const left = async () => Number((await sql`select count(*) from run_log`)[0]?.count)
    let before = await left()
    await pruneRuns({
      ...reaping,
      pause: async () => {
        const now = await left()
        sizes.push(before - now)
        before = now
      },
    })
    expect(reaping.reaped).toMatchObject({ runsPruned: 3, logsPruned: 3 * BATCH_ROWS })
    expect(Math.max(...sizes)).toBeLessThanOrEqual(BATCH_ROWS)
    expect(sizes.length).toBeGreaterThan(3)
  })

  test('finds the rows of thousands of runs by index, without scanning logs', async () => {
    const { add } = await somePipeline()
    await add(3_000, 'cancelled', 100, 0)
    const many = await somePipeline({ runs_max_per_pipeline: 1_000 })
    await many.add(500, 'cancelled', 1, 100)
    await sql`delete from run_attempt`
    await sql`delete from transition`
    await sql`analyze run_log`
    const reaping = await reapingNow(sql)
    /** Scans by this backend only, so the work of others does not count. */
    const timesRead = async (tx: SqlTx) => {
      const [log] =
        await tx`select seq_scan::int as times from pg_stat_xact_user_tables where relname = 'run_log'`
      return Number(log?.times)
    }
    let times = 0
    await pruneRuns({
      ...reaping,
      write: (work) =>
        reaping.write(async (tx) => {
          const before = await timesRead(tx)
          const done = await work(tx)
          times += (await timesRead(tx)) - before
          return done
        }),
    })
    expect(reaping.reaped.runsPruned).toBe(3_000)
    expect(times).toBe(0)
  })

  test('prunes more pipelines than one page to their counts', async () => {
    await sql`
      insert into pipeline (id, namespace, layer, name, type, draft_snapshot, draft_machine_version, draft_dirty)
      select gen_random_uuid(), 'default', 'gold', 'many-' || n, 'sql', '{}', 1, false from generate_series(1, 1200) n`
    await sql`
      insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones, snapshot,
        machine_version, status, waiting, created_at)
      select gen_random_uuid(), p.id, 'default', 'gold', p.name, 'sql', 'manual', '{}', '[]', '{}', 1, 'cancelled', false,
        clock_timestamp() - n * interval '1 day' from pipeline p, generate_series(80, 99) n`
    expect((await prune()).runsPruned).toBe(1200 * 10)
    expect(
      await sql`select count(*)::int as runs from run group by pipeline_id having count(*) <> 10`,
    ).toEqual([] as never)
    expect((await prune()).runsPruned).toBe(0)
  })

  test('skips a locked run and prunes it in a later tick', async () => {
    const { add } = await somePipeline()
    const old = await add(3, 'cancelled', 100)
    const locked = Promise.withResolvers<void>()
    const release = Promise.withResolvers<void>()
    const holder = sql.begin(async (tx) => {
      await tx`select from run where id = ${old[1] ?? ''} for update`
      locked.resolve()
      await release.promise
    })
    await locked.promise
    expect((await prune()).runsPruned).toBe(2)
    release.resolve()
    await holder
    expect((await prune()).runsPruned).toBe(1)
  })

  test('prunes runs in the tick that pruned their log lines', async () => {
    const [plain, longer] = [await somePipeline(), await somePipeline()]
    await sql`insert into retention_override (pipeline_id, logs_max_age_days) values (${longer.id}, 1000)`
    const ids = [...(await plain.add(3, 'cancelled', 100)), ...(await longer.add(3, 'cancelled', 100))]
    const reaping = await reapingNow(sql)
    await pruneLogs(reaping)
    const { logsPruned } = reaping.reaped
    expect(logsPruned).toBeGreaterThan(0)
    await pruneRuns(reaping)
    expect(reaping.reaped.runsPruned).toBe(6)
    expect(reaping.reaped.logsPruned).toBe(2 * logsPruned)
    expect(await rowsOf(sql, ids)).toMatchObject({ runs: 0, logs: 0, moves: 0 })
  })

  describe('runs pruned after their log lines in the same tick', () => {
    const pruneBoth = async (between: () => Promise<unknown> = async () => {}) => {
      const reaping = await reapingNow(sql)
      await pruneLogs(reaping)
      expect(reaping.linesGone.length).toBeGreaterThan(0)
      await between()
      await pruneRuns(reaping)
      return reaping.reaped
    }
    const linesWithoutRun = () =>
      sql`select run_id, seq from run_log l where not exists (select from run r where r.id = l.run_id)`

    test('prunes runs without leaving a line, despite other lines in between', async () => {
      const plain = await somePipeline()
      const longer = await somePipeline({ logs_max_age_days: 1_000 })
      const ids = [
        ...(await plain.add(20, 'cancelled', 150, 1_700)),
        ...(await longer.add(2, 'cancelled', 130, 40)),
        ...(await plain.add(1, 'cancelled', 120, 3 * BATCH_ROWS)),
        ...(await plain.add(20, 'cancelled', 100, 1_700)),
      ]
      const young = [ids[3] ?? '', ids[22] ?? '', ids[30] ?? '']
      await sql`insert into run_log (run_id, seq, at, level, message)
        select id, seq, clock_timestamp(), 'info', 'late' from unnest(${young}::uuid[]) id, unnest(array[0, 90000]) seq`
      const lines = 40 * 1_700 + 80 + 3 * BATCH_ROWS + 6
      expect(await pruneBoth()).toMatchObject({ runsPruned: 43, logsPruned: lines })
      expect(await linesWithoutRun()).toEqual([] as never)
    })

    test('prunes a line that arrived late for a recently ended run', async () => {
      const { add } = await somePipeline()
      const ids = await add(20, 'cancelled', 100, 1_700)
      const ended = ids[7] ?? ''
      await sql`update run set finished_at = clock_timestamp() where id = ${ended}`
      const pruned = await pruneBoth(
        () => sql`insert into run_log (run_id, seq, at, level, message)
          values (${ended}, 5000, clock_timestamp(), 'info', 'late')`,
      )
      expect(pruned).toMatchObject({ runsPruned: 20, logsPruned: 20 * 1_700 + 1 })
      expect(await linesWithoutRun()).toEqual([] as never)
    })

    test('does not count lines as deleted when their batch was rolled back', async () => {
      const { add } = await somePipeline()
      await add(20, 'cancelled', 100, 1_700)
      const reaping = await reapingNow(sql)
      let batches = 0
      const lost = pruneLogs({
        ...reaping,
        write: (work) =>
          reaping.write(async (tx) => {
            const done = await work(tx)
            batches += 1
            if (batches === 3) throw new Error('the connection is lost')
            return done
          }),
      })
      await expect(lost).rejects.toThrow('the connection is lost')
      const [left] = await select(sql, LINE_KEY)`from run_log order by run_id, seq limit 1`
      const until = reaping.linesGone.at(-1)?.until
      expect(left && until && (until.runId < left.runId || until.seq < left.seq)).toBe(true)
      await pruneRuns(reaping)
      expect(await linesWithoutRun()).toEqual([] as never)
    })
  })

  test('prunes all runs of a purged pipeline, also the latest success', async () => {
    const { id, add } = await somePipeline()
    const ids = await add(5, 'success', 0)
    const reaping = await reapingNow(sql)
    await pruneAllRunsOf(reaping, id, reaping.now)
    expect(await rowsOf(sql, ids)).toMatchObject({ runs: 0, logs: 0, moves: 0 })
  })
})

describe('log lines', () => {
  const logs = async () => {
    const reaping = await reapingNow(sql)
    await pruneLogs(reaping)
    return reaping.reaped.logsPruned
  }

  test('prunes log lines older than the age and keeps their runs', async () => {
    const { add } = await somePipeline()
    const old = await add(2, 'cancelled', 31)
    const young = await add(2, 'cancelled', 29)
    expect(await logs()).toBe(6)
    expect(await rowsOf(sql, old)).toMatchObject({ runs: 2, logs: 0, moves: 2 })
    expect(await rowsOf(sql, young)).toMatchObject({ runs: 2, logs: 6 })
    expect(await logs()).toBe(0)
  })

  test('prunes log lines by the age that their pipeline sets', async () => {
    const long = await somePipeline({ logs_max_age_days: 60 })
    const short = await somePipeline({ logs_max_age_days: 1 })
    const plain = await somePipeline()
    const [inLong, inShort, inPlain] = [
      await long.add(2, 'cancelled', 40),
      await short.add(2, 'cancelled', 2),
      await plain.add(2, 'cancelled', 2),
    ]
    const tooOld = await long.add(1, 'cancelled', 61)
    expect(await logs()).toBe(9)
    expect(await rowsOf(sql, inLong)).toMatchObject({ logs: 6 })
    expect(await rowsOf(sql, inShort)).toMatchObject({ logs: 0 })
    expect(await rowsOf(sql, inPlain)).toMatchObject({ logs: 6 })
    expect(await rowsOf(sql, tooOld)).toMatchObject({ logs: 0 })
  })

  test('keeps young log lines of an old run', async () => {
    const { add } = await somePipeline()
    const [run = ''] = await add(1, 'running', 40)
    await sql`insert into run_log (run_id, seq, at, level, message) values (${run}, 100, clock_timestamp(), 'info', 'still here')`
    expect(await logs()).toBe(3)
    expect(await rowsOf(sql, [run])).toMatchObject({ logs: 1 })
  })

  test('prunes log lines of a deleted run by age', async () => {
    await sql`insert into run_log (run_id, seq, at, level, message)
      values (${firstIdAt(Date.now() - 40 * 86_400_000)}, 1, clock_timestamp() - interval '40 days', 'info', 'left behind')`
    expect(await logs()).toBe(1)
  })

  test('prunes log lines by database time even if run ids are later', async () => {
    const [halfAnHour, cutoff] = [1_800_000, Date.now() - 30 * 86_400_000]
    await sql`insert into run_log (run_id, seq, at, level, message)
      values (${firstIdAt(cutoff + halfAnHour)}, 1, ${new Date(cutoff - halfAnHour)}, 'info', 'old')`
    expect(await logs()).toBe(1)
  })

  test('prunes more log lines than one batch in one tick', async () => {
    const { add } = await somePipeline()
    const ids = await add(3, 'cancelled', 31, BATCH_ROWS)
    expect(await logs()).toBe(3 * BATCH_ROWS)
    expect(await rowsOf(sql, ids)).toMatchObject({ runs: 3, logs: 0 })
  })

  test('the first id of a millisecond precedes all ids made in it', () => {
    const before = Date.now()
    const id = newId()
    expect(firstIdAt(before) <= id).toBe(true)
    expect(firstIdAt(Date.now() + 10_000) > id).toBe(true)
  })
})

test('keeps the newest results of each quality test, per pipeline settings', async () => {
  const plain = await somePipeline()
  const few = await somePipeline({ quality_results_max_per_test: 3 })
  await plain.add(120, 'success', 1)
  const inFew = await few.add(10, 'success', 1)
  const reaping = await reapingNow(sql)
  await pruneQualityResults(reaping)
  expect(reaping.reaped.qualityPruned).toBe(27)
  const left = await sql<{ run_id: string }[]>`
    select run_id from quality_result where pipeline_id = ${few.id} order by created_at`
  expect(left.map((row) => row.run_id)).toEqual(inFew.slice(7))
  const [{ count } = {}] = await sql`select count(*)::int from quality_result where pipeline_id = ${plain.id}`
  expect(count).toBe(100)
})

test('keeps the results of the run that decides over its pipeline', async () => {
  const { id, add } = await somePipeline({ quality_results_max_per_test: 2 })
  const [deciding = ''] = await add(1, 'success', 9)
  const onBranch = await add(4, 'success', 1)
  await sql`update run set branch = 'dev' where id = any(${onBranch})`
  await pruneQualityResults(await reapingNow(sql))
  const left = await sql<{ run_id: string }[]>`
    select run_id from quality_result where pipeline_id = ${id} order by created_at`
  expect(left.map((row) => row.run_id)).toEqual([deciding, ...onBranch.slice(2)])
})

test('prunes the results of more quality tests than one page', async () => {
  const { id } = await somePipeline({ quality_results_max_per_test: 1 })
  await sql`
    insert into quality_result (run_id, pipeline_id, name, severity, status, value, duration_ms, created_at)
    select gen_random_uuid(), ${id}, 'test-' || t, 'warn', 'passed', 0, 1, clock_timestamp() - n * interval '1 day'
    from generate_series(1, 1100) t, generate_series(1, 3) n`
  const reaping = await reapingNow(sql)
  await pruneQualityResults(reaping)
  expect(reaping.reaped.qualityPruned).toBe(2200)
})

test('prunes old audit entries, stored answers and events, and keeps young ones', async () => {
  const ages = (unit: string) => sql`clock_timestamp() - (n + 0.5) * ${`1 ${unit}`}::interval`
  await sql`insert into audit_entry (id, user_id, action, resource, ip, created_at)
    select gen_random_uuid(), '', 'post', '/', '', ${ages('day')} from generate_series(360, 369) n`
  await sql`insert into idempotency_key (caller, operation, key, request_hash, status, body, created_at)
    select '', 'POST /runs', n::text, '', 202, '{}', ${ages('hour')} from generate_series(20, 29) n`
  await sql`insert into trigger_event (kind, source, subject, created_at)
    select 'fileUploaded', 'zone:a.b', gen_random_uuid(), ${ages('day')} from generate_series(5, 9) n`
  const reaping = await reapingNow(sql)
  await pruneAudit(reaping)
  await pruneIdempotencyKeys(reaping)
  await pruneEvents(reaping)
  const [left] = await sql`select (select count(*)::int from audit_entry) as audit,
    (select count(*)::int from idempotency_key) as keys, (select count(*)::int from trigger_event) as events`
  expect(left).toEqual({ audit: 5, keys: 4, events: 2 })
  expect(reaping.reaped).toMatchObject({ auditPruned: 5, historyPruned: 6 + 3 })
})

test('prunes draft history by age and count but keeps the latest transition', async () => {
  const move = (entity: string, machine: string, count: number, days: number) => sql`
    insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
    select ${machine}, ${entity}, clock_timestamp() - ${days} * interval '1 day', 'fileWritten', 'clean', 'dirty', '[]', ''
    from generate_series(1, ${count})`
  const [old, young, busy, goneTrigger] = [newId(), newId(), newId(), newId()]
  await move(old, 'draft', 5, 100)
  await move(young, 'draft', 5, 10)
  await move(busy, 'draft', 1_500, 1)
  await move(goneTrigger, 'trigger', 5, 100)
  const reaping = await reapingNow(sql)
  await pruneHistory(reaping)
  const left = await sql`select entity_id, count(*)::int from transition group by 1 order by 1`
  expect(left.map(({ entity_id, count }) => [entity_id, count])).toEqual([
    [old, 1],
    [young, 5],
    [busy, 1_000],
  ])
  expect(reaping.reaped.historyPruned).toBe(4 + 500 + 5)
})

test('a reaper that lost its leadership writes nothing and throws', async () => {
  const { add } = await somePipeline()
  const ids = await add(3, 'cancelled', 100)
  const reaping = await reapingNow(sql)
  await expect(pruneRuns({ ...reaping, write: async () => null })).rejects.toThrow(NotLeading)
  expect(await rowsOf(sql, ids)).toMatchObject({ runs: 3, logs: 9 })
})

test('retries a batch after a lock timeout and pauses in between', async () => {
  const reaping = await reapingNow(sql)
  let tries = 0
  let pauses = 0
  await inBatches({ ...reaping, pause: async () => void pauses++ }, async () => {
    tries += 1
    if (tries < 3)
      throw Object.assign(new Error('canceling statement due to lock timeout'), { code: '55P03' })
    return false
  })
  expect([tries, pauses]).toEqual([3, 3])
})
