// What is remembered must never show: after each step of several connections with open transactions, the graph of a service
// that has seen everything is the one that is read from the rows.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import postgres from 'postgres'
import { openDatabase } from '../../drizzle/client.ts'
import { testDatabase } from '../../tools/test/database.ts'
import { EVERYTHING, type Visible } from '../core/access.ts'
import { newId } from '../core/ids.ts'
import { limits } from '../core/limits.ts'
import { quietLog } from '../pipelines/test-parts.ts'
import { makeKept } from './kept.ts'
import type { LineageGraph } from './schema.ts'
import { makeLineageService } from './service.ts'

const CONNECTIONS = 4
const STEPS = 500
const SEEDS = [1, 2]
const NAMESPACES = ['ns-a', 'ns-b']
const NAMES = ['p1', 'p2', 'p3', 'p4']

let database: Awaited<ReturnType<typeof testDatabase>>
let opened: ReturnType<typeof openDatabase>
/** Connections that begin and end their transactions by hand. */
let byHand: postgres.Sql
beforeAll(async () => {
  database = await testDatabase()
  opened = openDatabase(database.url, { connections: 1, rawConnections: 8, application: 'test' })
  byHand = postgres(database.url, { max: CONNECTIONS })
})
afterAll(async () => {
  await byHand.end()
  await opened.close()
  await database.drop()
})

/** The same numbers for the same seed. */
function randomOf(seed: number) {
  let state = seed
  const below = (bound: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return Math.floor((state / 0x80000000) * bound)
  }
  return { below, among: <T>(items: readonly T[]): T => items[below(items.length)] as T }
}
type Random = ReturnType<typeof randomOf>

/** Each version of a source reads a table and a zone of its own. */
const readsOf = (source: {
  type: string
  version: number | null
  pinned: string | null
  draftRevision: string
}) => {
  const read =
    source.version === null
      ? `draft-${source.draftRevision}`
      : `${source.version}-${source.pinned?.slice(0, 8)}`
  return { tables: [`ns-a.bronze.${source.type}-${read}`], zones: [`ns-b.z-${read}`] }
}

const serviceOf = (sql = opened.sql) =>
  makeLineageService({ sql, log: quietLog, references: { in: readsOf } })

/** What the rows say, put together from all of them. */
async function readFromRows(namespace: string | undefined, visible: Visible) {
  const { sql } = opened
  const isSeen = (seen: 'all' | readonly string[], id: string) => seen === 'all' || seen.includes(id)
  const isOf = (row: postgres.Row) => namespace === undefined || row.namespace === namespace
  const live = await sql`select * from pipeline where deleted_at is null`
  const pipelines = live.filter((row) => isOf(row) && isSeen(visible.pipelines, row.id))
  const versions = await sql`select * from pipeline_version`
  const runs = await sql`select * from run order by created_at desc, id desc`
  const results = await sql`select * from quality_result`
  const contents = await sql`select * from lake_content`
  const files = await sql`select * from landing_file where archived_by_run is null`
  const zones = (await sql`select * from landing_zone`).filter(
    (row) => isOf(row) && isSeen(visible.zones, row.id),
  )
  const keyOf = ({ namespace, layer, name }: postgres.Row) => `${namespace}.${layer}.${name}`
  const nodes = new Map<string, object>()
  const edges: object[] = []
  for (const entry of await sql`select * from main_entry where to_commit is null`) {
    const { namespace, layer, name } = entry
    const maker = live.find((row) => keyOf(row) === keyOf(entry))
    if (!isSeen(maker ? visible.pipelines : visible.namespaces, maker?.id ?? namespace)) continue
    const content = contents.find(({ id }) => id === entry.content_id)
    const table_stats = { row_count: Number(content?.row_count), size_bytes: Number(content?.size_bytes) }
    const id = `table:${keyOf(entry)}`
    nodes.set(id, { id, type: 'table', namespace, layer, name, table_stats })
  }
  const others = new Set(
    [...nodes.keys()].filter((id) => namespace !== undefined && !id.startsWith(`table:${namespace}.`)),
  )
  for (const { id: zoneId, namespace, name } of zones) {
    const id = `landing:${namespace}.${name}`
    const file_count = files.filter(({ zone_id }) => zone_id === zoneId).length
    nodes.set(id, { id, type: 'landing_zone', namespace, name, landing_info: { file_count } })
  }
  for (const pipeline of pipelines) {
    const { namespace, layer, name } = pipeline
    const target = `pipeline:${keyOf(pipeline)}`
    const run = runs.find(({ pipeline_id }) => pipeline_id === pipeline.id)
    const found = results.filter(({ run_id }) => run_id === run?.id)
    const failed = found.filter(({ status }) => status !== 'passed')
    const warned = failed.filter(({ severity }) => severity === 'warn').length
    nodes.set(target, {
      id: target,
      type: 'pipeline',
      namespace,
      layer,
      name,
      latest_run: run
        ? {
            id: run.id,
            status: run.status,
            started_at: run.started_at?.toISOString() ?? null,
            duration_ms: run.duration_ms === null ? null : Number(run.duration_ms),
          }
        : null,
      quality:
        found.length === 0
          ? null
          : {
              total: found.length,
              passed: found.length - failed.length,
              failed: failed.length - warned,
              warned,
            },
    })
    const version = versions.find(
      (row) => row.pipeline_id === pipeline.id && row.version_number === pipeline.published_version,
    )
    const type = version?.pipeline_type ?? pipeline.type
    const file = `${namespace}/pipelines/${layer}/${name}/pipeline.${type === 'python' ? 'py' : 'sql'}`
    const reads = readsOf({
      type,
      version: version?.version_number ?? null,
      pinned: version?.published_versions[file] ?? null,
      draftRevision: pipeline.draft_revision,
    })
    const empty = (id: string, more: object) => {
      others.delete(id)
      if (!nodes.has(id)) nodes.set(id, { id, ...more })
    }
    const table = (key: string) => {
      const [namespace, layer, name] = key.split('.')
      empty(`table:${key}`, { type: 'table', namespace, layer, name, table_stats: null })
    }
    for (const key of reads.tables) {
      table(key)
      edges.push({ source: `table:${key}`, target, type: 'ref' })
    }
    for (const key of reads.zones) {
      const [namespace, name] = key.split('.')
      empty(`landing:${key}`, { type: 'landing_zone', namespace, name, landing_info: { file_count: 0 } })
      edges.push({ source: `landing:${key}`, target, type: 'landing_input' })
    }
    table(keyOf(pipeline))
    edges.push({ source: target, target: `table:${keyOf(pipeline)}`, type: 'produces' })
  }
  for (const other of others) nodes.delete(other)
  return inOrder({ nodes: [...nodes.values()], edges } as LineageGraph)
}

const inOrder = ({ nodes, edges }: LineageGraph) => ({
  nodes: nodes.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
  edges: edges.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)),
})

type Tx = postgres.ReservedSql
type Write = (tx: Tx, random: Random) => Promise<unknown>

const anyPipeline = (tx: Tx) => tx`select id from pipeline where deleted_at is null order by random() limit 1`
const pick = (random: Random) => ({ namespace: random.among(NAMESPACES), name: random.among(NAMES) })
const at = (random: Random) => `2026-01-02T03:04:0${random.below(10)}.678Z`

/** What the service does to these rows, and now and then a little more. */
const WRITES: Record<string, Write> = {
  'a pipeline is created': (tx, random) => {
    const { namespace, name } = pick(random)
    return tx`
      insert into pipeline (id, namespace, layer, name, type, draft_snapshot, draft_machine_version, draft_dirty)
      values (${newId()}, ${namespace}, 'silver', ${name}, ${random.among(['sql', 'python'])}, '{}', 1, true)
      on conflict do nothing`
  },
  'a draft is written': (tx) => tx`
    update pipeline set draft_revision = draft_revision + 1 where id in (${anyPipeline(tx)})`,
  'a pipeline is published': (tx, random) => tx`
    with published as (
      update pipeline set published_version = coalesce(published_version, 0) + 1 where id in (${anyPipeline(tx)})
      returning *)
    insert into pipeline_version (id, pipeline_id, version_number, message, pipeline_type, published_versions, landing_zones)
    select ${newId()}, id, published_version, '', type, jsonb_build_object(namespace || '/pipelines/silver/' || name ||
      case type when 'python' then '/pipeline.py' else '/pipeline.sql' end, ${`v-${random.below(1_000)}`}::text), '[]'
    from published`,
  'a pipeline is deleted': (tx) => tx`
    update pipeline set deleted_at = clock_timestamp() where id in (${anyPipeline(tx)})`,
  'a run is requested': (tx) => tx`
    insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones, snapshot,
      machine_version, status)
    select ${newId()}, id, namespace, layer, name, type, 'manual', '{}', '[]', '{}', 1, 'pending'
    from pipeline where id in (${anyPipeline(tx)})`,
  'a run starts': (tx, random) => tx`
    update run set status = 'running', started_at = ${at(random)}
    where id = (select id from run where status = 'pending' order by random() limit 1)`,
  'a run starts again': (tx, random) => tx`
    update run set started_at = ${at(random)}
    where id = (select id from run where status = 'running' order by random() limit 1) and status = 'running'`,
  'a run ends with its results': (tx, random) => tx`
    with ended as (
      update run set status = ${random.among(['success', 'failed', 'cancelled'])}, duration_ms = ${random.below(99)}
      where id = (select id from run where status in ('pending', 'running') order by random() limit 1)
        and status in ('pending', 'running')
      returning *)
    insert into quality_result (run_id, pipeline_id, name, severity, status, value, duration_ms)
    select id, pipeline_id, 't' || n, case when random() < 0.5 then 'warn' else 'error' end,
      case when random() < 0.5 then 'passed' else 'failed' end, 0, 1
    from ended, generate_series(1, ${random.below(4)}) n`,
  'results are pruned': (tx) => tx`
    delete from quality_result where (run_id, name) in (
      select run_id, name from quality_result order by random() limit 2)`,
  'runs are reaped': (tx) => tx`
    with gone as (
      delete from run where id in (select id from run where status <> 'running' order by random() limit 2) returning id)
    delete from quality_result where run_id in (select id from gone)`,
  'a table changes': (tx, random) => {
    const { namespace, name } = pick(random)
    const [id, number] = [newId(), random.below(1_000_000_000)]
    return tx`
      with content as (
        insert into lake_content (id, table_uuid, metadata_location, columns, row_count, size_bytes)
        values (${id}, ${newId()}, 'm', '[]', ${random.below(99)}, ${random.below(99)}) returning id),
      before as (
        update main_entry set to_commit = ${number}
        where namespace = ${namespace} and name = ${name} and to_commit is null returning 1)
      insert into main_entry (namespace, layer, name, content_id, from_commit)
      select ${namespace}, 'silver', ${name}, id, ${number} from content where (select count(*) from before) >= 0`
  },
  'a table is dropped': (tx, random) => tx`
    update main_entry set to_commit = ${random.below(1_000_000_000)}
    where namespace = ${random.among(NAMESPACES)} and name = ${random.among(NAMES)} and to_commit is null`,
  'a zone is created': (tx, random) => tx`
    insert into landing_zone (id, namespace, name)
    values (${newId()}, ${random.among(NAMESPACES)}, ${`z-draft-${random.below(3)}`}) on conflict do nothing`,
  'a zone is deleted': (tx) => tx`
    delete from landing_zone where id in (select id from landing_zone order by random() limit 1)`,
  'a file arrives': (tx) => tx`
    insert into landing_file (id, zone_id, filename, original_name, path, version_id, size_bytes, content_type)
    select ${newId()}, id, ${newId()}, 'f', 'p', 'v', 1, 'text/csv' from landing_zone order by random() limit 1`,
  'files are archived': (tx) => tx`
    update landing_file set archived_by_run = ${newId()} where id in (select id from landing_file order by random() limit 2)`,
}

test.each(SEEDS)(
  'whatever is written and removed meanwhile, what is remembered shows the rows (seed %i)',
  async (seed) => {
    const { sql } = opened
    await sql`truncate pipeline, pipeline_version, run, quality_result, main_entry, lake_content, landing_zone, landing_file cascade`
    const random = randomOf(seed)
    const service = serviceOf()
    const connections = await Promise.all(
      Array.from({ length: CONNECTIONS }, async () => ({ tx: await byHand.reserve(), isOpen: false })),
    )
    const done = new Set<string>()
    let isSomethingThere = false
    try {
      for (const [n, { tx }] of connections.entries())
        await tx`select set_config('lock_timeout', '5ms', false), setseed(${(seed + n) / 100})`
      for (let step = 0; step < STEPS; step += 1) {
        const connection = random.among(connections)
        const { tx, isOpen } = connection
        const [what, write] = random.among(Object.entries(WRITES))
        try {
          if (!isOpen) await tx`begin`
          connection.isOpen = true
          await write(tx, random)
          done.add(what)
          if (random.below(3) > 0) continue
          await tx.unsafe(random.below(5) === 0 ? 'rollback' : 'commit')
          connection.isOpen = false
        } catch {
          // It waited for a row of another, or met one of the same name.
          await tx`rollback`
          connection.isOpen = false
        }
        const rows = await readFromRows(undefined, EVERYTHING)
        isSomethingThere ||= rows.edges.length > 6
        expect(inOrder(JSON.parse(await service.text({})))).toEqual(rows)
        if (step % 5 > 0) continue
        const ids = await sql`select id from pipeline union all select id from landing_zone`
        const some = ids.filter(() => random.below(2) === 0).map(({ id }) => id)
        const visible = { pipelines: some, zones: some, namespaces: [random.among(NAMESPACES)] }
        expect(inOrder(await service.graph({}, visible))).toEqual(await readFromRows(undefined, visible))
        const namespace = random.among(NAMESPACES)
        const ofOne = await readFromRows(namespace, EVERYTHING)
        expect(inOrder(JSON.parse(await service.text({ namespace })))).toEqual(ofOne)
      }
    } finally {
      for (const { tx, isOpen } of connections) {
        if (isOpen) await tx`rollback`
        await tx`reset lock_timeout`
        tx.release()
      }
    }
    expect(done.size).toBe(Object.keys(WRITES).length)
    expect(isSomethingThere).toBe(true)
  },
  120_000,
)

test('a warm graph asks only what is there, and of what has changed only what it is now', async () => {
  const { sql } = opened
  await sql`truncate pipeline, pipeline_version, run, quality_result, main_entry, lake_content, landing_zone, landing_file cascade`
  const random = randomOf(7)
  const tx = await byHand.reserve()
  for (let n = 0; n < 60; n += 1)
    for (const what of [
      'a pipeline is created',
      'a run is requested',
      'a run ends with its results',
      'a table changes',
    ])
      await WRITES[what]?.(tx, random)
  await tx`update run set status = 'success'`
  tx.release()
  const asked: unknown[][] = []
  const watching = new Proxy(sql, {
    apply(target, self, args: unknown[]) {
      asked.push(args.slice(1).filter(Array.isArray))
      return Reflect.apply(target as never, self, args)
    },
  })
  const service = serviceOf(watching)
  const idsAskedFor = async () => {
    asked.length = 0
    await service.text({})
    return asked.flat().flat()
  }
  expect((await idsAskedFor()).length).toBeGreaterThan(8)
  expect(await idsAskedFor()).toEqual([])
  const [one] =
    await sql`update pipeline set draft_revision = draft_revision + 1 where id = (select id from pipeline limit 1) returning id`
  expect(new Set(await idsAskedFor())).toEqual(new Set([one?.id]))
  expect(await idsAskedFor()).toEqual([])
})

test('what has been used last is remembered, and no more than the limit', async () => {
  const kept = makeKept<string>(2)
  const marks = ['a', 'b', 'c'].map((letter) => letter.repeat(36))
  const [a = '', b = '', c = ''] = marks
  const asked: string[] = []
  const ask = async (ids: string[]) => {
    asked.push(...ids)
    return ids.map((mark) => ({ mark, meaning: mark, isFinal: true }))
  }
  for (const wanted of [[a, b], [a], [c], [a], [b]])
    expect([...(await kept.of(wanted, ask)).keys()].sort()).toEqual(wanted)
  expect(asked).toEqual([a, b, c, b])
  // More than can be kept is answered all the same.
  expect((await kept.of(marks, ask)).size).toBe(3)
})

test('what is removed while a graph is computed has it begin again, and not for ever', async () => {
  const { sql } = opened
  await sql`truncate pipeline, pipeline_version, run, quality_result, main_entry, lake_content, landing_zone, landing_file cascade`
  const random = randomOf(11)
  const tx = await byHand.reserve()
  for (const what of ['a pipeline is created', 'a run is requested']) await WRITES[what]?.(tx, random)
  tx.release()
  let asked = 0
  const reaping = new Proxy(sql, {
    apply(target, self, args: [TemplateStringsArray, ...unknown[]]) {
      const isOfRuns = args[0].join('').includes('with result as')
      if (!isOfRuns) return Reflect.apply(target as never, self, args)
      asked += 1
      return (async () => {
        await sql`delete from run`
        const rows = (await Reflect.apply(target as never, self, args)) as unknown[]
        // The next one comes as soon as this one is gone.
        if (asked < 10) await WRITES['a run is requested']?.(sql as unknown as Tx, random)
        return rows
      })()
    },
  })
  const { nodes } = await serviceOf(reaping).graph({})
  expect(asked).toBe(limits.lineageTries)
  expect(nodes.find(({ type }) => type === 'pipeline')).toMatchObject({ latest_run: null })
})
