import type { Sql } from '../../drizzle/client.ts'
import { type TableName, tableKey } from '../../lake/pipeline/names.ts'
import { EVERYTHING } from '../core/access.ts'
import { limits } from '../core/limits.ts'
import type { Log } from '../core/log.ts'
import { type Named, tableNamed } from '../pipelines/references.ts'
import type { SourceReferences } from '../pipelines/source-references.ts'
import type { Edge, LineageGraph, LineageQuery, PipelineNode, TableNode, ZoneNode } from './schema.ts'
import {
  type LineagePipeline,
  type LineageTable,
  type LineageZone,
  pipelinesOf,
  tablesOf,
  zonesOf,
} from './store.ts'

/**
 * After this many failed reads, a graph skips all remaining sources. Otherwise an unreachable store would be tried thousands of
 * times.
 */
export const SOURCE_FAILURES = 20

export interface LineageDeps {
  sql: Sql
  log: Log
  references: Pick<SourceReferences, 'in'>
}

export type LineageService = ReturnType<typeof makeLineageService>

/** Computes the graph from rows for each request. Only parsed sources are cached, by version (ADR 32). */
export function makeLineageService({ sql, log, references }: LineageDeps) {
  /** The visible part of the graph of one namespace, or of all namespaces. */
  async function graph({ namespace }: LineageQuery, visible = EVERYTHING): Promise<LineageGraph> {
    const scope = { namespace, visible }
    const [pipelines, zones] = await Promise.all([pipelinesOf(sql, scope), zonesOf(sql, scope)])
    const reads = await readsOf(pipelines)
    const others = namespace === undefined ? [] : foreignTables(reads, namespace)
    return graphOf({ pipelines, reads, tables: await tablesOf(sql, scope, others), zones })
  }

  /** The tables and zones that each pipeline reads, in the order of `pipelines`. Empty for a source that cannot be read now. */
  async function readsOf(pipelines: readonly LineagePipeline[]): Promise<Named[]> {
    const reads = pipelines.map(() => NOTHING)
    const remaining = pipelines.entries()
    const failures: { pipeline: string; error: unknown }[] = []
    async function readRemaining() {
      for (const [index, pipeline] of remaining) {
        if (failures.length >= SOURCE_FAILURES) return
        try {
          const found = references.in(pipeline)
          reads[index] = found instanceof Promise ? await found : found
        } catch (error) {
          failures.push({ pipeline: tableKey(pipeline), error })
        }
      }
    }
    await Promise.all(Array.from({ length: limits.sourceReadsAtOnce }, readRemaining))
    const [first] = failures
    if (first !== undefined)
      log.warn('incomplete lineage graph: pipeline sources could not be read', {
        failures: failures.length,
        ...first,
      })
    return reads
  }

  return { graph }
}

const NOTHING: Named = { tables: [], zones: [] }

interface Parts {
  pipelines: readonly LineagePipeline[]
  /** One entry for each pipeline, in the same order. */
  reads: readonly Named[]
  tables: readonly LineageTable[]
  zones: readonly LineageZone[]
}

/** Each end of an edge has a node, even if its table or zone does not exist. */
function graphOf({ pipelines, reads, tables, zones }: Parts): LineageGraph {
  const tableNodes = new Map(tables.map((table) => [tableKey(table), tableNode(table, table)]))
  const zoneNodes = new Map(zones.map((zone) => [`${zone.namespace}.${zone.name}`, zoneNode(zone)]))
  const tableId = (key: string) => nodeIn(tableNodes, key, () => tableNode(tableNamed(key), null)).id
  const zoneId = (key: string) => nodeIn(zoneNodes, key, () => zoneNode({ ...zoneNamed(key), files: 0 })).id
  const pipelineNodes = pipelines.map(pipelineNode)
  const edges = pipelines.flatMap((pipeline, index): Edge[] => {
    const { tables, zones } = reads[index] ?? NOTHING
    const key = tableKey(pipeline)
    const target = `pipeline:${key}`
    const outputTable = tableId(key)
    return [
      ...tables.map((table): Edge => ({ source: tableId(table), target, type: 'ref' })),
      ...zones.map((zone): Edge => ({ source: zoneId(zone), target, type: 'landing_input' })),
      { source: target, target: outputTable, type: 'produces' },
    ]
  })
  return { nodes: [...pipelineNodes, ...tableNodes.values(), ...zoneNodes.values()], edges }
}

function nodeIn<Node>(nodes: Map<string, Node>, key: string, create: () => Node): Node {
  const existing = nodes.get(key)
  if (existing !== undefined) return existing
  const created = create()
  nodes.set(key, created)
  return created
}

function pipelineNode(pipeline: LineagePipeline): PipelineNode {
  const { namespace, layer, name, runId, status, startedAt, durationMs } = pipeline
  const { total, passed, failed, warned } = pipeline
  return {
    id: `pipeline:${tableKey(pipeline)}`,
    type: 'pipeline',
    namespace,
    layer,
    name,
    latest_run:
      runId === null || status === null
        ? null
        : { id: runId, status, started_at: startedAt?.toISOString() ?? null, duration_ms: durationMs },
    quality: total === 0 ? null : { total, passed, failed, warned },
  }
}

const tableNode = (
  { namespace, layer, name }: TableName,
  stats: Pick<LineageTable, 'rowCount' | 'sizeBytes'> | null,
): TableNode => ({
  id: `table:${tableKey({ namespace, layer, name })}`,
  type: 'table',
  namespace,
  layer,
  name,
  table_stats: stats && { row_count: stats.rowCount, size_bytes: stats.sizeBytes },
})

const zoneNode = ({ namespace, name, files }: LineageZone): ZoneNode => ({
  id: `landing:${namespace}.${name}`,
  type: 'landing_zone',
  namespace,
  name,
  landing_info: { file_count: files },
})

/** Splits `namespace.name` of a zone; neither part contains a dot. */
const zoneNamed = (key: string) => {
  const dot = key.indexOf('.')
  return { namespace: key.slice(0, dot), name: key.slice(dot + 1) }
}

function foreignTables(reads: readonly Named[], namespace: string): TableName[] {
  const own = `${namespace}.`
  const foreign = new Set(reads.flatMap(({ tables }) => tables.filter((table) => !table.startsWith(own))))
  return [...foreign].map(tableNamed)
}
