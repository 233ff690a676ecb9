// Measures GET /lineage over HTTP with 5,000 pipelines. Cold means that the API process has just started and has read no
// pipeline yet. The same benchmark measures two limits: reading the 5,000 files, twenty at a time, and JSON.stringify of the
// response.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import postgres from 'postgres'
import type { LineageGraph } from '../app/lineage/schema.ts'
import { readRegistry } from '../sidecars/supervisor/registry.ts'
import { startService } from '../tools/service/service.ts'
import { databaseUrlOf } from './client.ts'
import { type Figures, figuresOf, printFigures, timed } from './figures.ts'
import { storePipelines } from './stored-pipelines.ts'

const PIPELINES = 5_000
const NAMESPACES = 4
const RUNS_OF_EACH = 40
const TESTS_OF_EACH = 3
const ZONES = 250
const WARM = 60
const STARTS = 6
const READS_AT_ONCE = 20

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
    const [pipeline] = answer.nodes
    const around = await timed(WARM, () => ask(`${service.url}/api/v1/lineage?node=${pipeline?.id}`))
    const limit = 'limit: JSON.stringify of the answer'
    const rows: Record<string, Figures> = {
      'GET /lineage, cold': figuresOf(cold),
      'limit: 5,000 files read raw': figuresOf(await timed(STARTS, () => readRaw(files))),
      'GET /lineage, warm': figuresOf(warm),
      'GET /lineage, warm, one run of each of 50 pipelines later': figuresOf(changed),
      'GET /lineage?namespace (a quarter), warm': figuresOf(one),
      'GET /lineage?node, warm': figuresOf(around),
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

/** Stores published pipelines with files, tables, landing zones, runs and test results. Returns the paths of the files. */
async function fill(sql: postgres.Sql, root: string): Promise<string[]> {
  const files = await storePipelines(sql, root, {
    pipelines: PIPELINES,
    namespaces: NAMESPACES,
    zones: ZONES,
  })
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
  await sql`vacuum analyze`
  return files
}
