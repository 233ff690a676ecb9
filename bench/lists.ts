// Measures lists over a million runs, requested over HTTP by several concurrent callers. Two comparisons use the same Postgres
// in the same benchmark:
// - the page and the count as plain SQL, through the same client and without HTTP;
// - a server that only executes `select 1`.
import postgres from 'postgres'
import { openDatabase } from '../drizzle/client.ts'
import { startService } from '../tools/service/service.ts'
import { databaseUrlOf } from './client.ts'
import { type Figures, figuresOf, printFigures } from './figures.ts'

const RUNS = 1_000_000
const AUDIT_ENTRIES = 1_000_000
const PIPELINES = 1_000
const NAMESPACES = 8
const DAYS = 80
const CALLERS = 4
const MEASURE_MS = 3_000
const WARM_UP = 20
/** Runs per second that are added and end while the lists are measured. */
const CHANGES_PER_SECOND = 100

type Sql = postgres.Sql

export async function benchLists() {
  // The reaper would prune the data: each pipeline has about a thousand runs.
  const service = await startService({ LOG_FORMAT: 'text', RUNNER_URLS: 'none', REAPER: 'off' })
  const databaseUrl = databaseUrlOf(service.dataDir)
  const sql = postgres(databaseUrl, { max: 2, onnotice: () => {} })
  try {
    await fill(sql)
    await measureLists(service.url, databaseUrl)
  } finally {
    await sql.end()
    await service.stop()
  }
}

async function measureLists(url: string, databaseUrl: string) {
  const { sql, close } = openDatabase(databaseUrl, {
    connections: 1,
    rawConnections: 12,
    application: 'bench',
  })
  const bare = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async () => Response.json([...(await sql`select 1 as one`)]),
  })
  const anyOffset = (total: number) => Math.floor(Math.random() * total)
  const ago = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString()
  const runs = (query: string) => async () => {
    const { total } = await ask<{ total: number }>(`${url}/api/v1/runs?${query}`)
    return total
  }
  const requests: Record<string, () => Promise<unknown>> = {
    'limit: select 1 over HTTP': () => ask(bare.url.href),
    'limit: the first page in SQL': () => sql`select * from run order by created_at desc, id desc limit 50`,
    'GET /runs, first page and total': runs(''),
    'peer: count(*) in SQL': () => sql`select count(*) from run`,
    'GET /runs, any offset': () => runs(`offset=${anyOffset(RUNS)}`)(),
    'GET /runs, the middle': runs(`offset=${RUNS / 2}`),
    'peer: the middle in SQL': () =>
      sql`select * from run order by created_at desc, id desc limit 50 offset ${RUNS / 2}`,
    'GET /runs, the end': runs(`offset=${RUNS - 50}`),
    'GET /runs?status=failed': runs('status=failed'),
    'GET /runs?status=failed, any offset': () => runs(`status=failed&offset=${anyOffset(RUNS / 50)}`)(),
    'GET /runs?status=running': runs('status=running'),
    'GET /runs?namespace': runs('namespace=ns3'),
    'GET /runs?namespace, any offset': () => runs(`namespace=ns3&offset=${anyOffset(RUNS / NAMESPACES)}`)(),
    'GET /runs?namespace with few runs': runs('namespace=rare'),
    'GET /runs?namespace&layer&status': runs('namespace=ns3&layer=gold&status=failed'),
    'GET /runs?layer': runs('layer=gold'),
    'GET /runs, a pipeline': runs('namespace=ns3&layer=gold&pipeline=p11'),
    'GET /runs, a day': runs(`from=${ago(10)}&to=${ago(9)}`),
    'GET /runs, the latest half': runs(`from=${ago(DAYS / 2)}`),
    'GET /runs, the latest half, failed': runs(`from=${ago(DAYS / 2)}&status=failed`),
    'GET /runs?sort=duration_ms': runs('sort=duration_ms'),
    'GET /runs?sort=trigger, the middle': runs(`sort=trigger&offset=${RUNS / 2}`),
    'GET /audit': () => ask(`${url}/api/v1/audit`),
    'GET /audit, any offset': () => ask(`${url}/api/v1/audit?offset=${anyOffset(AUDIT_ENTRIES)}`),
  }
  let isOver = false
  const changing = change(sql, () => isOver)
  const rows: Record<string, Figures> = {}
  for (const [name, once] of Object.entries(requests)) {
    for (let n = 0; n < WARM_UP; n++) await once()
    rows[name] = figuresOf(await sampled(once))
  }
  isOver = true
  await changing
  printFigures(rows, 'limit: select 1 over HTTP')
  await bare.stop(true)
  const [counted] = await sql`select count(*)::int as runs from run`
  const total = await runs('')()
  if (total !== counted?.runs)
    throw new Error(`the list reports ${total} runs, the table has ${counted?.runs}`)
  console.log(
    `  ${total.toLocaleString('en')} runs, ${CALLERS} callers at once, ${CHANGES_PER_SECOND} new runs a second beside them`,
  )
  await close()
}

/** Durations, in milliseconds, of `once` while `CALLERS` callers repeat it for `MEASURE_MS`. */
async function sampled(once: () => Promise<unknown>): Promise<number[]> {
  const samples: number[] = []
  const until = performance.now() + MEASURE_MS
  await Promise.all(
    Array.from({ length: CALLERS }, async () => {
      while (performance.now() < until) {
        const since = performance.now()
        await once()
        samples.push(performance.now() - since)
      }
    }),
  )
  return samples
}

async function ask<Answer>(url: string): Promise<Answer> {
  const response = await fetch(url)
  if (!response.ok) throw new Error(`GET ${url}: ${response.status} ${await response.text()}`)
  return response.json()
}

/** Adds and ends runs at a steady rate, so that totals and the newest pages change all the time. */
async function change(sql: Sql, isOver: () => boolean) {
  const perStep = CHANGES_PER_SECOND / 10
  while (!isOver()) {
    const added = await sql<{ id: string }[]>`
      insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones, snapshot,
        machine_version, status, waiting)
      select gen_random_uuid(), id, namespace, layer, name, type, 'bench', '{}', '[]', '{}', 1, 'cancelled', false
      from pipeline order by id limit ${perStep} returning id`
    const ids = added.map(({ id }) => id)
    await sql`update run set status = 'failed', finished_at = clock_timestamp() where id = any(${ids}::uuid[])`
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

/** Stores runs of many pipelines spread over `DAYS` days, and as many entries of the audit log. */
async function fill(sql: Sql) {
  await sql`
    insert into pipeline (id, namespace, layer, name, type, draft_snapshot, draft_machine_version, draft_dirty)
    select gen_random_uuid(), case when n = 0 then 'rare' else 'ns' || n % ${NAMESPACES} end,
      (array['bronze', 'silver', 'gold'])[1 + n % 3], 'p' || n, 'sql', '{}', 1, false
    from generate_series(0, ${PIPELINES - 1}) n`
  await sql`
    with numbered as (select *, row_number() over (order by namespace <> 'rare', id) - 1 as number from pipeline)
    insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, version_number, pins, landing_zones,
      snapshot, machine_version, status, attempt, waiting, created_at, started_at, finished_at, duration_ms, rows_written)
    select (lpad(to_hex((extract(epoch from at.at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 14))::uuid,
      p.id, p.namespace, p.layer, p.name, 'sql', (array['manual', 'schedule:0 * * * *', 'webhook'])[1 + n % 3], 1,
      jsonb_build_object(p.name || '/pipeline.sql', md5(n::text), p.name || '/config.yaml', md5((n + 1)::text)), '[]',
      '{"value":"success","status":"done","context":{"attempt":1,"lostRunners":0,"mergeConflicts":0,"rowsWritten":10}}', 1,
      case when n % 50 = 0 then 'failed' when n % 200 = 1 then 'cancelled' else 'success' end, 1, false, at.at, at.at, at.at,
      hashint4(n) & 65535, 10
    from generate_series(1, ${RUNS}) n
    join numbered p on p.number = case when n % 20000 = 0 then 0 else 1 + (hashint4(n) & 1048575) % ${PIPELINES - 1} end
    cross join lateral (
      select clock_timestamp() - ${DAYS} * interval '1 day' + n * ${DAYS / RUNS}::float8 * interval '1 day' as at) at
    order by n`
  await sql`
    insert into audit_entry (id, user_id, action, resource, ip, created_at)
    select gen_random_uuid(), 'somebody', 'post', '/api/v1/runs', '127.0.0.1',
      clock_timestamp() - interval '80 days' + n * interval '5 seconds'
    from generate_series(1, ${AUDIT_ENTRIES}) n`
  // Leaves the tables in the state that autovacuum would produce.
  await sql`vacuum analyze`
}
