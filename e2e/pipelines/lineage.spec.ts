// Lineage: a graph of the sources that pipelines read and the tables that they write.
import { type APIRequestContext, expect, test } from '@playwright/test'
import { addTest, getJson, instant, newNamespace, newZone, pipelineWith, uuid } from '../kit/resources.ts'
import { newTable, runToSuccess } from '../kit/runs.ts'

interface Node {
  id: string
  [field: string]: unknown
}
interface Graph {
  nodes: Node[]
  edges: { source: string; target: string; type: string }[]
}

async function lineage(request: APIRequestContext, namespace?: string): Promise<Graph> {
  const graph: Graph = await getJson(request, '/api/v1/lineage', namespace === undefined ? {} : { namespace })
  expect(Object.keys(graph).sort()).toEqual(['edges', 'nodes'])
  const nodeIds = new Set(graph.nodes.map(({ id }) => id))
  expect(nodeIds.size).toBe(graph.nodes.length)
  for (const { source, target } of graph.edges)
    expect([source, nodeIds.has(source), target, nodeIds.has(target)]).toEqual([source, true, target, true])
  return graph
}
const edgesOf = ({ edges }: Graph) =>
  edges.map(({ source, type, target }) => `${source} ${type} ${target}`).sort()
const nodeOf = ({ nodes }: Graph, id: string) => nodes.find((node) => node.id === id)

test('lineage shows latest runs, quality summaries, table statistics and landing files @lineage', async ({
  request,
}) => {
  const namespace = await newNamespace(request)
  const zone = await newZone(request, namespace, 'drop')
  for (const file of ['a.csv', 'b.csv']) await zone.upload(file, 'id\n1\n2\n')
  const raw = await pipelineWith(request, `select * from read_csv_auto('{{ landing_zone("drop") }}')`, {
    namespace,
    layer: 'bronze',
    name: 'raw',
  })
  await addTest(request, raw, { name: 'has-rows', severity: 'error', sql: 'select 1 where false' })
  const fewIds = "select * from {{ ref('bronze.raw') }} where id > 1"
  await addTest(request, raw, { name: 'few-ids', severity: 'warn', sql: fewIds })
  await runToSuccess(request, raw)
  const clean = { namespace, layer: 'silver', name: 'clean' }
  await pipelineWith(request, `select * from {{ ref('bronze.raw') }}`, clean)

  const graph = await lineage(request, namespace)
  expect(edgesOf(graph)).toEqual(
    [
      `landing:${namespace}.drop landing_input pipeline:${namespace}.bronze.raw`,
      `pipeline:${namespace}.bronze.raw produces table:${namespace}.bronze.raw`,
      `table:${namespace}.bronze.raw ref pipeline:${namespace}.silver.clean`,
      `pipeline:${namespace}.silver.clean produces table:${namespace}.silver.clean`,
    ].sort(),
  )
  expect(nodeOf(graph, `pipeline:${namespace}.bronze.raw`)).toEqual({
    id: `pipeline:${namespace}.bronze.raw`,
    type: 'pipeline',
    namespace,
    layer: 'bronze',
    name: 'raw',
    latest_run: { id: uuid, status: 'success', started_at: instant, duration_ms: expect.any(Number) },
    quality: { total: 2, passed: 1, failed: 0, warned: 1 },
  })
  expect(nodeOf(graph, `pipeline:${namespace}.silver.clean`)).toMatchObject({
    latest_run: null,
    quality: null,
  })
  expect(nodeOf(graph, `table:${namespace}.bronze.raw`)).toEqual({
    id: `table:${namespace}.bronze.raw`,
    type: 'table',
    namespace,
    layer: 'bronze',
    name: 'raw',
    table_stats: { row_count: 4, size_bytes: expect.any(Number) },
  })
  expect(nodeOf(graph, `table:${namespace}.silver.clean`)).toMatchObject({ table_stats: null })
  expect(nodeOf(graph, `landing:${namespace}.drop`)).toEqual({
    id: `landing:${namespace}.drop`,
    type: 'landing_zone',
    namespace,
    name: 'drop',
    landing_info: { file_count: 2 },
  })
})

test('lineage filtered by namespace still shows three-part references to others @lineage.references', async ({
  request,
}) => {
  const [near, far] = [await newNamespace(request), await newNamespace(request)]
  await pipelineWith(request, 'select 1 as id', { namespace: far, layer: 'gold', name: 'made' })
  const reader = { namespace: near, layer: 'gold', name: 'reader' }
  await pipelineWith(request, `select * from {{ ref('${far}.gold.made') }}`, reader)
  const crossing = `table:${far}.gold.made ref pipeline:${near}.gold.reader`
  const filtered = await lineage(request, near)
  expect(edgesOf(filtered)).toEqual(
    [crossing, `pipeline:${near}.gold.reader produces table:${near}.gold.reader`].sort(),
  )
  expect(nodeOf(filtered, `table:${far}.gold.made`)).toMatchObject({
    namespace: far,
    layer: 'gold',
    name: 'made',
  })
  const unfiltered = await lineage(request)
  expect(edgesOf(unfiltered)).toEqual(
    expect.arrayContaining([crossing, `pipeline:${far}.gold.made produces table:${far}.gold.made`]),
  )
})

test('lineage of one node reaches the readers of its table in other namespaces @lineage.node', async ({
  request,
}) => {
  const [near, far] = [await newNamespace(request), await newNamespace(request)]
  await pipelineWith(request, 'select 1 as id', { namespace: near, layer: 'gold', name: 'made' })
  await pipelineWith(request, 'select 1 as id', { namespace: near, layer: 'gold', name: 'apart' })
  await pipelineWith(request, `select * from {{ ref('${near}.gold.made') }}`, {
    namespace: far,
    layer: 'gold',
    name: 'reader',
  })
  const answer = await request.get(`/api/v1/lineage?node=pipeline:${near}.gold.made`)
  expect(answer.status()).toBe(200)
  const graph = await answer.json()
  expect(edgesOf(graph)).toEqual(
    [
      `pipeline:${near}.gold.made produces table:${near}.gold.made`,
      `table:${near}.gold.made ref pipeline:${far}.gold.reader`,
      `pipeline:${far}.gold.reader produces table:${far}.gold.reader`,
    ].sort(),
  )
  expect(graph.nodes).toHaveLength(4)
})

test('lineage shows orphan tables and landing zones as disconnected nodes @lineage.orphans', async ({
  request,
}) => {
  const namespace = await newNamespace(request)
  await newZone(request, namespace, 'unread')
  const pipeline = await newTable(request, { namespace, layer: 'gold', name: 'left' }, 'select 1 as id')
  expect((await request.delete(pipeline.url)).status()).toBe(204)
  const { nodes, edges } = await lineage(request, namespace)
  expect(edges).toEqual([])
  expect(nodes).toEqual([
    expect.objectContaining({
      id: `table:${namespace}.gold.left`,
      table_stats: expect.objectContaining({ row_count: 1 }),
    }),
    expect.objectContaining({ id: `landing:${namespace}.unread`, landing_info: { file_count: 0 } }),
  ])
})
