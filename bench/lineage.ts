// Measures GET /lineage over HTTP with 5,000 pipelines. Cold means that the API process has just started and has read no
// pipeline yet. The same benchmark measures two limits: reading the 5,000 files, twenty at a time, and JSON.stringify of the
// response.
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import postgres from 'postgres'
import type { LineageGraph } from '../app/lineage/schema.ts'
import { store } from '../machines/advance.ts'
import { DRAFT_MACHINE_VERSION, newDraft } from '../machines/draft.ts'
import { readRegistry } from '../sidecars/supervisor/registry.ts'
import { startService } from '../tools/test/service.ts'
import { databaseUrlOf } from './client.ts'
import { type Figures, figuresOf, printFigures, timed } from './figures.ts'

const PIPELINES = 5_000
const LAYERS = ['bronze', 'silver', 'gold'] as const
const NAMESPACES = 4
const RUNS_OF_EACH = 40
const TESTS_OF_EACH = 3
const ZONES = 250
const WARM = 60
const STARTS = 6
const READS_AT_ONCE = 20
/** The time part of every stored file version: microseconds since 1970. */
const VERSION = '0001763711234567'

export async function benchLineage() {
  const service = await startService({
    LOG_FORMAT: 'text',
    RUNNER_URLS: 'none',
    QUERY_URLS: 'none',
    REAPER: 'off',
  })
  const sql = postgres(databaseUrlOf(service.dataDir), { max: 5, onnotice: () => {} })
  try {
    const files = await fill(sql, join(service.dataDir, 'objects'))
    const graph = () => ask(`${service.url}/api/v1/lineage`)
    const cold: number[] = []
    for (let n = 0; n < STARTS; n++) {
      await restartApi(service)
      cold.push(...(await timed(1, graph)))
    }
    await timed(5, graph)
    const warm = await timed(WARM, graph)
    const changed: number[] = []
    for (let n = 0; n < WARM; n++) {
      await change(sql)
      changed.push(...(await timed(1, graph)))
    }
    const answer: LineageGraph = JSON.parse(await graph())
    const text = JSON.stringify(answer)
    const one = await timed(WARM, () => ask(`${service.url}/api/v1/lineage?namespace=ns1`))
    const limit = 'limit: JSON.stringify of the answer'
    const rows: Record<string, Figures> = {
      'GET /lineage, cold': figuresOf(cold),
      'limit: 5,000 files read raw': figuresOf(await timed(STARTS, () => readRaw(files))),
      'GET /lineage, warm': figuresOf(warm),
      'GET /lineage, warm, one run of each of 50 pipelines later': figuresOf(changed),
      'GET /lineage?namespace (a quarter), warm': figuresOf(one),
      [limit]: figuresOf(await timed(WARM, async () => JSON.stringify(answer))),
    }
    printFigures(rows, limit)
    console.log(
      `  ${answer.nodes.length} nodes, ${answer.edges.length} edges, ${(text.length / 1e6).toFixed(1)} MB; ` +
        `${PIPELINES * RUNS_OF_EACH} runs; cold includes all that a new process does for the first time`,
    )
  } finally {
    await sql.end()
    await service.stop()
  }
}

/** Ends the API process and waits for the next one. */
async function restartApi({ dataDir, url }: { dataDir: string; url: string }) {
  const apiPid = () => readRegistry(dataDir)?.processes.find(({ name }) => name === 'api')?.pid
  const before = apiPid()
  if (before) process.kill(before, 'SIGKILL')
  for (;;) {
    const isReady =
      apiPid() !== before &&
      (await fetch(`${url}/health/ready`).then(
        ({ ok }) => ok,
        () => false,
      ))
    if (isReady) break
    await Bun.sleep(50)
  }
  // Background work of the start still runs after the service is ready; wait until it has ended.
  await Bun.sleep(1_500)
}

/** Adds a run to each of 50 pipelines and increments the revision of their drafts. */
async function change(sql: postgres.Sql) {
  await sql`
    with chosen as (select * from pipeline order by random() limit 50),
    revised as (update pipeline set draft_revision = draft_revision + 1 where id in (select id from chosen))
    insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, version_number, pins, landing_zones,
      snapshot, machine_version, status, attempt, waiting, started_at, finished_at, duration_ms, rows_written)
    select gen_random_uuid(), id, namespace, layer, name, 'sql', 'manual', 1, '{}', '[]', '{}', 1, 'success', 1, false,
      now(), now(), 1000, 10
    from chosen`
}

async function ask(url: string): Promise<string> {
  const response = await fetch(url)
  const text = await response.text()
  if (!response.ok) throw new Error(`GET ${url}: ${response.status} ${text}`)
  return text
}

async function readRaw(paths: readonly string[]) {
  const rest = paths.values()
  const readOn = async () => {
    for (const path of rest) await readFile(path, 'utf8')
  }
  await Promise.all(Array.from({ length: READS_AT_ONCE }, readOn))
}

const sourceOf = (n: number) => {
  const { layer } = placeOf(n)
  if (layer === 'bronze')
    return `select *, current_timestamp as loaded_at\nfrom read_csv_auto('{{ landing_zone("zone-${n % ZONES}") }}')\nwhere id is not null\n`
  const near = placeOf(n - NAMESPACES)
  const far = placeOf(n - NAMESPACES - (n % NAMESPACES) + ((n + 1) % NAMESPACES))
  return `-- @merge_strategy: incremental
-- @unique_key: id
with orders as (
  select * from {{ ref('${near.layer}.${near.name}') }} where status <> 'cancelled' -- {{ ref('${near.layer}.gone') }}
), customers as (
  select id, name, sum(amount) as total, count(*) as orders
  from {{ ref('${far.namespace}.${far.layer}.${far.name}') }}
  where day > current_date - 30
  group by id, name
)
select orders.id, customers.name, customers.total, case when customers.total > 100 then 'large' else 'small' end as size
from orders left join customers using (id)
{% if is_incremental() %}where orders.updated_at > '{{ watermark_value }}'{% endif %}
`
}
const placeOf = (n: number) => ({
  namespace: `ns${n % NAMESPACES}`,
  layer: LAYERS[Math.floor(n / NAMESPACES) % 3] ?? 'gold',
  name: `p${n}`,
})

/** Stores published pipelines with files, tables, landing zones, runs and test results. Returns the paths of the files. */
async function fill(sql: postgres.Sql, root: string): Promise<string[]> {
  const pipelines = Array.from({ length: PIPELINES }, (_, n) => {
    const { namespace, layer, name } = placeOf(n)
    const source = sourceOf(n)
    const key = `${namespace}/pipelines/${layer}/${name}/pipeline.sql`
    const versionId = `${VERSION}~${source.length}`
    return { namespace, layer, name, key, versionId, source, path: join(root, `${key}~${versionId}`) }
  })
  for (let at = 0; at < PIPELINES; at += 100)
    await Promise.all(
      pipelines.slice(at, at + 100).map(async ({ path, source }) => {
        await mkdir(dirname(path), { recursive: true })
        await writeFile(path, source)
      }),
    )
  const rows = pipelines.map(({ namespace, layer, name, key, versionId }) => ({
    namespace,
    layer,
    name,
    pins: { [key]: versionId },
  }))
  const draft = { ...(store(newDraft()) as object) }
  await sql`insert into namespace (name) select 'ns' || n from generate_series(0, ${NAMESPACES - 1}) n`
  await sql`
    insert into pipeline (id, namespace, layer, name, type, draft_snapshot, draft_machine_version, draft_dirty, published_version)
    select gen_random_uuid(), namespace, layer, name, 'sql', ${sql.json(draft)}, ${DRAFT_MACHINE_VERSION}, false, 1
    from jsonb_to_recordset(${sql.json(rows)}) as p(namespace text, layer text, name text)`
  await sql`
    insert into pipeline_version (id, pipeline_id, version_number, message, pipeline_type, published_versions, landing_zones)
    select gen_random_uuid(), p.id, 1, '', 'sql', r.pins, '[]'
    from jsonb_to_recordset(${sql.json(rows)}) as r(namespace text, layer text, name text, pins jsonb)
    join pipeline p using (namespace, layer, name)`
  await sql`
    insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, version_number, pins, landing_zones,
      snapshot, machine_version, status, attempt, waiting, created_at, started_at, finished_at, duration_ms, rows_written)
    select gen_random_uuid(), p.id, namespace, layer, name, 'sql', 'manual', 1, v.published_versions, '[]', '{}', 1, 'success', 1, false,
      at, at, at + interval '1 second', 1000, 10
    from generate_series(1, ${RUNS_OF_EACH}) hour, pipeline p join pipeline_version v on v.pipeline_id = p.id,
      lateral (select now() - make_interval(hours => hour) as at) times`
  await sql`
    insert into quality_result (run_id, pipeline_id, name, severity, status, value, duration_ms)
    select id, pipeline_id, 'test-' || n, case n when 1 then 'warn' else 'error' end, 'passed', 0, 1
    from run, generate_series(1, ${TESTS_OF_EACH}) n`
  await sql`
    with contents as (
      insert into lake_content (id, table_uuid, metadata_location, columns, row_count, size_bytes)
      select id, gen_random_uuid(), '', '[]', 1000, 100000 from pipeline returning id)
    insert into main_entry (namespace, layer, name, content_id, from_commit)
    select namespace, layer, name, id, 1 from pipeline join contents using (id)`
  await sql`
    insert into landing_zone (id, namespace, name)
    select gen_random_uuid(), 'ns' || n % ${NAMESPACES}, 'zone-' || n from generate_series(0, ${ZONES - 1}) n`
  await sql`vacuum analyze`
  return pipelines.map(({ path }) => path)
}
