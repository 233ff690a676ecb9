import { describe, expect, test } from 'bun:test'
import { requestTo, testApp } from '../composition/test-app.ts'
import { newId } from '../core/ids.ts'
import { limits } from '../core/limits.ts'
import type { ObjectStore } from '../objects/port.ts'
import { makeSourceReferences, REFERENCES_SOURCE_BYTES } from '../pipelines/source-references.ts'
import { bytes, quietLog, useParts } from '../pipelines/test-parts.ts'
import { lineageRoutes } from './routes.ts'
import type { LineageGraph } from './schema.ts'
import { makeLineageService, SOURCE_FAILURES } from './service.ts'

const parts = useParts()

/**
 * A lineage service that records which texts it reads and how many in parallel. `instead` runs before each read and may throw.
 */
function watched(instead: (key: string) => Promise<void> = async () => {}) {
  const readLog = { texts: [] as string[], others: 0, most: 0 }
  let openReads = 0
  const other = () => {
    readLog.others += 1
    throw new Error('only texts are read')
  }
  const objects: ObjectStore = {
    ...parts.objects,
    get: other,
    head: other,
    list: other,
    text: async (key, version, maxBytes) => {
      readLog.texts.push(key)
      openReads += 1
      readLog.most = Math.max(readLog.most, openReads)
      try {
        await instead(key)
        return await parts.objects.text(key, version, maxBytes)
      } finally {
        openReads -= 1
      }
    },
  }
  const warnings: object[] = []
  const log = {
    ...quietLog,
    warn: (message: string, fields: object = {}) => warnings.push({ message, ...fields }),
  }
  const { db, sql } = parts
  const service = makeLineageService({ sql, log, references: makeSourceReferences({ db, objects }) })
  return { readLog, service, warnings }
}

const newNamespace = (() => {
  let namespaceCount = 0
  return async () => {
    const name = `ns-${namespaceCount++}`
    await parts.namespaces.create({ name })
    return name
  }
})()

interface CreatedPipeline {
  layer?: 'bronze' | 'silver' | 'gold'
  type?: 'sql' | 'python'
}
async function createPipeline(
  namespace: string,
  name: string,
  source: string,
  { layer = 'silver', type = 'sql' }: CreatedPipeline = {},
) {
  const ref = { namespace, layer, name }
  await parts.pipelines().create({ ...ref, type })
  await write(namespace, name, source, { layer, type })
  return ref
}

async function write(
  namespace: string,
  name: string,
  source: string,
  { layer = 'silver', type = 'sql' }: CreatedPipeline = {},
) {
  const file = type === 'sql' ? 'pipeline.sql' : 'pipeline.py'
  await parts.objects.put(`${namespace}/pipelines/${layer}/${name}/${file}`, bytes(source))
  await parts.pipelines().fileWritten({ namespace, layer, name }, 'test')
}

async function table(namespace: string, layer: string, name: string, { rows = 3, size = 700 } = {}) {
  const id = newId()
  await parts.sql`
    insert into lake_content (id, table_uuid, metadata_location, columns, row_count, size_bytes)
    values (${id}, ${newId()}, 'm', '[]', ${rows}, ${size})`
  await parts.sql`
    insert into main_entry (namespace, layer, name, content_id, from_commit) values (${namespace}, ${layer}, ${name}, ${id}, 1)`
}

async function zone(namespace: string, name: string, files: ('active' | 'archived')[] = []) {
  const id = newId()
  await parts.sql`insert into landing_zone (id, namespace, name) values (${id}, ${namespace}, ${name})`
  for (const [n, state] of files.entries())
    await parts.sql`
      insert into landing_file (id, zone_id, filename, original_name, path, version_id, size_bytes, content_type, archived_by_run)
      values (${newId()}, ${id}, ${`f${n}`}, 'f', 'p', 'v', 1, 'text/csv', ${state === 'active' ? null : newId()})`
  return id
}

async function run(
  ref: object,
  { status, minutesAgo, branch = 'main' }: { status: string; minutesAgo: number; branch?: string },
) {
  const id = newId()
  const { name, layer, namespace } = ref as { namespace: string; layer: string; name: string }
  await parts.sql`
    insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones, snapshot,
      machine_version, status, waiting, branch, created_at, started_at, duration_ms)
    select ${id}, id, namespace, layer, name, type, 'manual', '{}', '[]', '{}', 1, ${status}, false, ${branch},
      clock_timestamp() - make_interval(mins => ${minutesAgo}), '2026-01-02T03:04:05.678Z', 42
    from pipeline where namespace = ${namespace} and layer = ${layer} and name = ${name} and deleted_at is null`
  return id
}

async function results(runId: string, outcomes: [severity: string, status: string][]) {
  for (const [n, [severity, status]] of outcomes.entries())
    await parts.sql`
      insert into quality_result (run_id, pipeline_id, name, severity, status, value, duration_ms)
      values (${runId}, ${newId()}, ${`t${n}`}, ${severity}, ${status}, 0, 1)`
}

const ids = ({ nodes }: LineageGraph) => nodes.map(({ id }) => id).sort()
const edgesOf = ({ edges }: LineageGraph) =>
  edges.map(({ source, target, type }) => `${source} ${type} ${target}`).sort()
const nodeOf = ({ nodes }: LineageGraph, wanted: string) => nodes.find(({ id }) => id === wanted)

/** Each end of an edge must be a node, and no node or edge may occur twice. */
function expectWhole(graph: LineageGraph) {
  const nodeIds = ids(graph)
  expect(new Set(nodeIds).size).toBe(nodeIds.length)
  expect(new Set(edgesOf(graph)).size).toBe(graph.edges.length)
  for (const { source, target } of graph.edges)
    expect(nodeIds).toEqual(expect.arrayContaining([source, target]))
}

test('a run on a branch changes no state of its pipeline', async () => {
  const ns = await newNamespace()
  const ref = await createPipeline(ns, 'flights', 'select 1')
  const untouched = await createPipeline(ns, 'delays', 'select 1')
  const onMain = await run(ref, { status: 'failed', minutesAgo: 9 })
  const later = await run(ref, { status: 'success', minutesAgo: 1, branch: 'dev' })
  await results(later, [['error', 'passed']])
  await run(untouched, { status: 'failed', minutesAgo: 1, branch: 'dev' })
  const graph = await watched().service.graph({ namespace: ns })
  expect(nodeOf(graph, `pipeline:${ns}.silver.flights`)).toMatchObject({
    latest_run: { id: onMain, status: 'failed' },
    quality: null,
  })
  expect(nodeOf(graph, `pipeline:${ns}.silver.delays`)).toMatchObject({ latest_run: null })
})

test('a graph contains runs, test results, Python sources and foreign tables', async () => {
  const ns = await newNamespace()
  const raw = await createPipeline(ns, 'raw', `select * from read_csv_auto('{{ landing_zone("drop") }}')`, {
    layer: 'bronze',
  })
  await createPipeline(
    ns,
    'clean',
    "select * from {{ ref('bronze.raw') }} join {{ ref('bronze.raw') }} using (id)",
  )
  await createPipeline(
    ns,
    'report',
    `x = sql(f"select * from {ref('silver.clean')}")\nresult = ref("other-ns.gold.far")`,
    {
      layer: 'gold',
      type: 'python',
    },
  )
  await table(ns, 'bronze', 'raw', { rows: 10, size: 2048 })
  await table('other-ns', 'gold', 'far')
  await zone(ns, 'drop', ['active', 'active', 'archived'])
  await run(raw, { status: 'failed', minutesAgo: 10 })
  const latest = await run(raw, { status: 'success', minutesAgo: 5 })
  await results(latest, [
    ['error', 'passed'],
    ['error', 'failed'],
    ['warn', 'failed'],
    ['warn', 'passed'],
    ['warn', 'failed'],
  ])
  const graph = await watched().service.graph({ namespace: ns })
  expectWhole(graph)
  expect(edgesOf(graph)).toEqual(
    [
      `landing:${ns}.drop landing_input pipeline:${ns}.bronze.raw`,
      `pipeline:${ns}.bronze.raw produces table:${ns}.bronze.raw`,
      `table:${ns}.bronze.raw ref pipeline:${ns}.silver.clean`,
      `pipeline:${ns}.silver.clean produces table:${ns}.silver.clean`,
      `table:${ns}.silver.clean ref pipeline:${ns}.gold.report`,
      `table:other-ns.gold.far ref pipeline:${ns}.gold.report`,
      `pipeline:${ns}.gold.report produces table:${ns}.gold.report`,
    ].sort(),
  )
  expect(nodeOf(graph, `pipeline:${ns}.bronze.raw`)).toMatchObject({
    latest_run: { id: latest, status: 'success', started_at: '2026-01-02T03:04:05.678Z', duration_ms: 42 },
    quality: { total: 5, passed: 2, failed: 1, warned: 2 },
  })
  expect(nodeOf(graph, `table:${ns}.bronze.raw`)).toMatchObject({
    table_stats: { row_count: 10, size_bytes: 2048 },
  })
  expect(nodeOf(graph, 'table:other-ns.gold.far')).toMatchObject({
    table_stats: { row_count: 3, size_bytes: 700 },
  })
  expect(nodeOf(graph, `landing:${ns}.drop`)).toMatchObject({ landing_info: { file_count: 2 } })
})

test('missing tables and zones have empty nodes; unknown namespaces are empty', async () => {
  const ns = await newNamespace()
  await createPipeline(
    ns,
    'p',
    `select * from {{ ref('gold.never') }}, read_json_auto('{{ landing_zone("nowhere") }}')`,
  )
  const graph = await watched().service.graph({ namespace: ns })
  expectWhole(graph)
  expect(nodeOf(graph, `table:${ns}.gold.never`)).toMatchObject({ layer: 'gold', table_stats: null })
  expect(nodeOf(graph, `landing:${ns}.nowhere`)).toMatchObject({ landing_info: { file_count: 0 } })
  expect(await watched().service.graph({ namespace: 'nobody-made-it' })).toEqual({ nodes: [], edges: [] })
})

test('references in comments, strings and computed names are ignored', async () => {
  const ns = await newNamespace()
  const sql = `-- {{ ref('silver.a') }}
/* {{ ref('silver.b') }} /* */ {{ landing_zone('c') }} */
{# {{ ref('silver.d') }} #}
select 'ref(''silver.e'')', '--', '{{ "ref('silver.f')" }}' from {{ ref('silver.' ~ 'g') }}, {{ ref("silver.real") }}`
  await createPipeline(ns, 'query', sql)
  const python = `"""ref('silver.a')"""
# landing_zone('b')
name = 'silver.c'
result = sql(f"select * from {ref(name)} -- {{ref('silver.d')}}") or ref(f'silver.{name}') or ref('silver.real')`
  await createPipeline(ns, 'code', python, { type: 'python' })
  const graph = await watched().service.graph({ namespace: ns })
  expect(edgesOf(graph).filter((edge) => !edge.includes('produces'))).toEqual([
    `table:${ns}.silver.real ref pipeline:${ns}.silver.code`,
    `table:${ns}.silver.real ref pipeline:${ns}.silver.query`,
  ])
})

test('each version of a source is read once across graphs', async () => {
  const ns = await newNamespace()
  const reads = (name: string) => `select * from {{ ref('bronze.${name}') }}`
  const published = await createPipeline(ns, 'published', reads('one'))
  await parts.pipelines().publish(published)
  await createPipeline(ns, 'draft', reads('one'))
  const { readLog, service } = watched()
  const refs = async () =>
    edgesOf(await service.graph({ namespace: ns })).flatMap(
      (edge) => edge.match(/bronze\.(.*) ref.*\.(.*)/)?.slice(1) ?? [],
    )
  expect(await refs()).toEqual(['one', 'draft', 'one', 'published'])
  expect(readLog.texts).toHaveLength(2)
  expect(await refs()).toEqual(['one', 'draft', 'one', 'published'])
  await service.graph({})
  const warm = readLog.texts.length
  await service.graph({})
  expect(readLog.texts).toHaveLength(warm)
  // The source that runs execute counts. The draft's source counts only when nothing is published.
  await write(ns, 'draft', reads('two'))
  await write(ns, 'published', reads('two'))
  expect(await refs()).toEqual(['one', 'published', 'two', 'draft'])
  await parts.pipelines().publish(published)
  expect(await refs()).toEqual(['two', 'draft', 'two', 'published'])
  expect(readLog).toMatchObject({ others: 0 })
  expect(readLog.texts).toHaveLength(warm + 2)
})

test('concurrent graphs read each source once, at most twenty in parallel', async () => {
  const ns = await newNamespace()
  for (let n = 0; n < 45; n += 1) await createPipeline(ns, `p${n}`, "select * from {{ ref('bronze.a') }}")
  const { readLog, service } = watched(() => new Promise((resolve) => setImmediate(resolve)))
  const graphs = await Promise.all(Array.from({ length: 4 }, () => service.graph({ namespace: ns })))
  expect(readLog.most).toBe(limits.sourceReadsAtOnce)
  expect(readLog.texts).toHaveLength(45)
  for (const graph of graphs) expect(graph).toEqual(graphs[0] as LineageGraph)
  expect(graphs[0]?.edges).toHaveLength(90)
})

test('a missing, oversized or unreadable source leaves its pipeline without inputs', async () => {
  const ns = await newNamespace()
  const reads = "select * from {{ ref('bronze.a') }}"
  for (const name of ['gone', 'long', 'broken', 'fine'])
    await createPipeline(ns, name, name === 'long' ? reads.padEnd(REFERENCES_SOURCE_BYTES + 1) : reads)
  await parts.objects.removeAll(`${ns}/pipelines/silver/gone/`)
  let isBroken = true
  const { service, warnings } = watched(async (key) => {
    if (isBroken && key.includes('/broken/')) throw new Error('the disk is tired')
  })
  const readers = async () =>
    edgesOf(await service.graph({ namespace: ns })).flatMap(
      (edge) => edge.match(/ ref .*\.(.*)/)?.slice(1) ?? [],
    )
  expect(await readers()).toEqual(['fine'])
  expect(warnings).toEqual([
    {
      message: 'incomplete lineage graph: pipeline sources could not be read',
      failures: 1,
      pipeline: `${ns}.silver.broken`,
      error: new Error('the disk is tired'),
    },
  ])
  isBroken = false
  expect(await readers()).toEqual(['broken', 'fine'])
  expect(warnings).toHaveLength(1)
})

test('a graph stops reading sources when the store keeps failing', async () => {
  const ns = await newNamespace()
  for (let n = 0; n < 60; n += 1) await createPipeline(ns, `p${n}`, "select * from {{ ref('bronze.a') }}")
  const { readLog, service, warnings } = watched(() => Promise.reject(new Error('away')))
  const graph = await service.graph({ namespace: ns })
  expect(graph.edges).toHaveLength(60)
  expect(readLog.texts.length).toBeLessThan(SOURCE_FAILURES + limits.sourceReadsAtOnce)
  expect(warnings).toHaveLength(1)
})

test('a new pipeline shows no runs of its deleted namesake, whose table remains', async () => {
  const ns = await newNamespace()
  const ref = await createPipeline(ns, 'again', "select * from {{ ref('bronze.old') }}")
  await table(ns, 'silver', 'again')
  await run(ref, { status: 'success', minutesAgo: 1 })
  const { service } = watched()
  await service.graph({ namespace: ns })
  await parts.pipelines().remove(ref)
  const orphan = await service.graph({ namespace: ns })
  expect([ids(orphan), orphan.edges]).toEqual([[`table:${ns}.silver.again`], []])
  await createPipeline(ns, 'again', "select * from {{ ref('bronze.new') }}")
  const graph = await service.graph({ namespace: ns })
  expect(nodeOf(graph, `pipeline:${ns}.silver.again`)).toMatchObject({ latest_run: null, quality: null })
  expect(ids(graph)).toContain(`table:${ns}.bronze.new`)
  expect(ids(graph)).not.toContain(`table:${ns}.bronze.old`)
})

test('a graph contains only visible pipelines and zones with their tables', async () => {
  const ns = await newNamespace()
  await createPipeline(ns, 'mine', "select * from {{ ref('silver.theirs') }}")
  await createPipeline(ns, 'theirs', 'select 1 as a')
  for (const name of ['mine', 'theirs', 'orphan']) await table(ns, 'silver', name)
  const seenZone = await zone(ns, 'seen')
  await zone(ns, 'hidden')
  const [mine] = await parts.sql<{ id: string }[]>`
    select id from pipeline where namespace = ${ns} and name = 'mine'`
  const { service } = watched()
  const nobody = { pipelines: [], zones: [], namespaces: [] }
  expect(await service.graph({ namespace: ns }, nobody)).toEqual({ nodes: [], edges: [] })
  for (const query of [{ namespace: ns }, {}]) {
    const graph = await service.graph(query, { ...nobody, pipelines: [mine?.id ?? ''], zones: [seenZone] })
    expectWhole(graph)
    expect(ids(graph)).toEqual(
      [
        `landing:${ns}.seen`,
        `pipeline:${ns}.silver.mine`,
        `table:${ns}.silver.mine`,
        `table:${ns}.silver.theirs`,
      ].sort(),
    )
    // The source of `mine` names this table, so its node is visible. Its size is not.
    expect(nodeOf(graph, `table:${ns}.silver.theirs`)).toMatchObject({ table_stats: null })
    expect(nodeOf(graph, `table:${ns}.silver.mine`)).toMatchObject({ table_stats: { row_count: 3 } })
  }
  expect(ids(await service.graph({ namespace: ns }, { ...nobody, namespaces: [ns] }))).toEqual([
    `table:${ns}.silver.orphan`,
  ])
})

describe('the graph around a node', () => {
  /** Two sources, a join of both, and its reader in another namespace; `other` reads only the second source. */
  async function diamond() {
    const [ns, far] = [await newNamespace(), await newNamespace()]
    await createPipeline(ns, 'one', `select * from read_csv_auto('{{ landing_zone("drop") }}')`)
    await createPipeline(ns, 'two', 'select 2 as id')
    await createPipeline(
      ns,
      'both',
      "select * from {{ ref('silver.one') }} join {{ ref('silver.two') }} using (id)",
    )
    await createPipeline(ns, 'other', "select * from {{ ref('silver.two') }}")
    await createPipeline(far, 'reader', `select * from {{ ref('${ns}.silver.both') }}`)
    for (const name of ['one', 'two', 'orphan']) await table(ns, 'silver', name)
    await zone(ns, 'drop', ['active'])
    const { service } = watched()
    const around = async (node: string) => {
      const graph = await service.graph({ node })
      expectWhole(graph)
      return graph
    }
    return { ns, far, service, around }
  }
  const named = (graph: LineageGraph) =>
    ids(graph)
      .map((id) => id.replace(/ns-\d+\./, ''))
      .sort()

  test('has all nodes up- and downstream of it, in each namespace, and no siblings', async () => {
    const { ns, far, around } = await diamond()
    const graph = await around(`pipeline:${ns}.silver.one`)
    expect(named(graph)).toEqual(
      [
        'landing:drop',
        'pipeline:silver.both',
        'pipeline:silver.one',
        'pipeline:silver.reader',
        'table:silver.both',
        'table:silver.one',
        'table:silver.reader',
      ].sort(),
    )
    expect(nodeOf(graph, `landing:${ns}.drop`)).toMatchObject({ landing_info: { file_count: 1 } })
    expect(nodeOf(graph, `table:${ns}.silver.one`)).toMatchObject({ table_stats: { row_count: 3 } })
    const upstream = await around(`pipeline:${far}.silver.reader`)
    expect(named(upstream)).toContain('pipeline:silver.two')
    expect(named(upstream)).not.toContain('pipeline:silver.other')
  })

  test('starts at a table or at a landing zone, too', async () => {
    const { ns, around } = await diamond()
    expect(named(await around(`table:${ns}.silver.two`)).filter((id) => id.startsWith('pipeline'))).toEqual(
      ['both', 'other', 'reader', 'two'].map((name) => `pipeline:silver.${name}`),
    )
    expect(named(await around(`landing:${ns}.drop`))).toContain('pipeline:silver.reader')
  })

  test('is only the node without connections, and empty for an unknown node', async () => {
    const { ns, around } = await diamond()
    expect(named(await around(`table:${ns}.silver.orphan`))).toEqual(['table:silver.orphan'])
    for (const kind of ['pipeline', 'table'])
      expect(await around(`${kind}:${ns}.silver.nobody`)).toEqual({ nodes: [], edges: [] })
    expect(await around(`landing:${ns}.nobody`)).toEqual({ nodes: [], edges: [] })
  })

  test('leads through visible pipelines only', async () => {
    const { ns, far, service } = await diamond()
    const visible = await parts.sql<{ id: string }[]>`
      select id from pipeline where (namespace = ${ns} and name = 'one') or namespace = ${far}`
    const access = { pipelines: visible.map(({ id }) => id), zones: [], namespaces: [] }
    const graph = await service.graph({ node: `pipeline:${ns}.silver.one` }, access)
    expect(named(graph)).toEqual(['landing:drop', 'pipeline:silver.one', 'table:silver.one'])
    expect(nodeOf(graph, `landing:${ns}.drop`)).toMatchObject({ landing_info: { file_count: 0 } })
    for (const hidden of [`pipeline:${ns}.silver.both`, `table:${ns}.silver.orphan`])
      expect(await service.graph({ node: hidden }, access)).toEqual({ nodes: [], edges: [] })
  })
})

test('an invalid namespace or node gets 400', async () => {
  const app = testApp({ api: [lineageRoutes(watched().service)] })
  const answer = async (query: string) => (await requestTo(app, 'GET', `/api/v1/lineage?${query}`)).status
  for (const bad of ['A', 'a%00b', '..%2f', '']) expect(await answer(`namespace=${bad}`)).toBe(400)
  for (const bad of ['x', 'pipeline:a.b', 'table:a.iron.b', 'landing:a.silver.b', 'table:a.gold.%00', ''])
    expect(await answer(`node=${bad}`)).toBe(400)
})
