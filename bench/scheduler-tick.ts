// Measures one tick of the scheduler over 100,000 schedules, with durable commits. 1% of the schedules are due, and each
// schedule has its own pipeline. The limit, measured in the same benchmark, is the least work of a tick. It is one transaction
// with a raw UPDATE of as many schedules and a raw INSERT of as many runs.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId } from '../app/core/ids.ts'
import type { Log } from '../app/core/log.ts'
import { migrate, openDatabase, type Sql } from '../drizzle/client.ts'
import { store } from '../machines/advance.ts'
import { newRun } from '../machines/run.ts'
import { startPostgres } from '../sidecars/supervisor/postgres.ts'
import { startLeadership } from '../workers/leadership/leadership.ts'
import { tickSchedules } from '../workers/scheduler.ts'
import { figuresOf, printFigures, timed } from './figures.ts'
import { addPublished } from './pipelines.ts'

const SCHEDULES = 100_000
const DUE = 1_000
const TICKS = 20
/** Makes 1,440 different cron expressions. Outside 1 January, no schedule becomes due by itself. */
const CRON = `(n % 60) || ' ' || (n / 60 % 24) || ' 1 1 *'`

const quiet: Log = { info: () => {}, warn: () => {}, error: () => {}, named: () => quiet }

export async function benchSchedulerTick() {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const server = await startPostgres({ dataDir, log: () => {} })
  try {
    await migrate(server.url)
    const database = openDatabase(server.url, { connections: 1, rawConnections: 2, application: 'bench' })
    await measure(server.url, database.sql)
    await database.close()
  } finally {
    await server.stop()
    await rm(dataDir, { recursive: true, force: true })
  }
}

async function measure(databaseUrl: string, sql: Sql) {
  await addPublished(sql, SCHEDULES)
  await sql.unsafe(`
    insert into schedule (id, pipeline_id, cron)
    select gen_random_uuid(), id, ${CRON} from (select id, row_number() over () as n from pipeline) p`)
  await sql`vacuum analyze`

  const leadership = startLeadership({
    databaseUrl,
    role: 'scheduler',
    holder: 'bench',
    log: quiet,
  })
  while (!leadership.isLeading()) await new Promise((resolve) => setTimeout(resolve, 10))
  const tick = () => tickSchedules({ write: leadership.write, newId, log: quiet })

  const [first = Number.NaN] = await timed(1, tick)
  const idle = await timed(TICKS, tick)
  await sql`vacuum analyze schedule`
  // The two alternate, so that other load on the machine affects both equally.
  const due: number[] = []
  const raw: number[] = []
  for (let n = 0; n < TICKS; n++) {
    await makeDue(sql)
    due.push(...(await timed(1, () => expecting(DUE, tick))))
    await makeDue(sql)
    raw.push(...(await timed(1, () => rawUpdate(sql))))
  }
  await makeDue(sql)
  const statements = await statementsOf(sql)
  await leadership.stop()

  printFigures(
    {
      [`raw update and insert of ${DUE} rows`]: figuresOf(raw),
      [`tick, ${DUE} of ${SCHEDULES} due`]: figuresOf(due),
      'tick, nothing due': figuresOf(idle),
      [`first tick, ${SCHEDULES} new`]: figuresOf([first]),
    },
    `raw update and insert of ${DUE} rows`,
  )
  console.log(`  statements of a tick, the fence included: ${statements}`)
}

/** Makes `DUE` random schedules due, and removes all runs so that no run of these schedules is active. */
async function makeDue(sql: Sql) {
  await sql`truncate run, transition`
  await sql`
    update schedule set next_run_at = clock_timestamp() - interval '1 minute'
    where id in (select id from schedule order by md5(id::text || clock_timestamp()::text) limit ${DUE})`
}

async function expecting(count: number, tick: () => Promise<{ requested: number } | null>) {
  const ticked = await tick()
  if (ticked?.requested !== count)
    throw new Error(`the tick requested ${ticked?.requested} runs instead of ${count}`)
}

/** Counts the statements that the client sends in one tick, without `begin` and `commit`. */
async function statementsOf(sql: Sql): Promise<number> {
  let count = 0
  sql.options.debug = (_, text) => {
    if (!/^(begin|commit)/.test(text)) count += 1
  }
  await tickSchedules({
    newId,
    log: quiet,
    // Executes the leader's fencing statement on a connection that belongs to no leader.
    write: (work) =>
      sql
        .begin(async (tx) => {
          await tx`select 1 from leader where role = 'scheduler' for share`
          return { done: await work(tx) }
        })
        .then(({ done }) => done),
  })
  sql.options.debug = false
  return count
}

/** Writes the same rows as a tick in one SQL statement, without the tick's reads, decisions and notifications. */
const rawUpdate = (sql: Sql) => sql`
  with due as (
    update schedule set next_run_at = clock_timestamp() + interval '1 day', last_run_at = clock_timestamp()
    where enabled and next_run_at <= (select clock_timestamp()) returning id, pipeline_id),
  made as (
    insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, version_number, pins,
      landing_zones, snapshot, machine_version, status, schedule_id, schedule_due)
    select gen_random_uuid(), p.id, p.namespace, p.layer, p.name, v.pipeline_type, 'schedule', v.version_number,
      v.published_versions, v.landing_zones, ${sql.json({ ...(store(newRun()) as object) })}, 1, 'pending', due.id,
      clock_timestamp()
    from due cross join lateral (select * from pipeline where id = due.pipeline_id limit 1) p
    cross join lateral (
      select * from pipeline_version where pipeline_id = p.id and version_number = p.published_version limit 1) v
    returning id, created_at)
  insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
  select 'run', id, created_at, 'requested', '', 'pending.waiting', '[]', 'schedule' from made`
