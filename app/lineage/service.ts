import type { Sql } from '../../drizzle/client.ts'
import { type TableName, tableKey } from '../../ground/names.ts'
import { reachable } from '../../lake/pipeline/reach.ts'
import { EVERYTHING, type Visible } from '../core/access.ts'
import { limits } from '../core/limits.ts'
import type { Log } from '../core/log.ts'
import { type Named, tableNamed } from '../pipelines/references.ts'
import type { SourceReferences } from '../pipelines/source-references.ts'
import type { Edge, LineageGraph, LineageQuery, PipelineNode, TableNode, ZoneNode } from './schema.ts'
import {
  type LatestRun,
  type LineageSource,
  type LineageTable,
  type LineageZone,
  latestRunsOf,
  sourcesOf,
  tablesOf,
  type ZoneName,
  zonesNamed,
  zonesOf,
} from './store.ts'

/**
 * After this many failed reads, a graph skips all remaining sources. Otherwise an unreachable store would be tried thousands of
 * times.
 */
export const SOURCE_FAILURES = 20

interface LineageDeps {
  sql: Sql
  log: Log
  references: Pick<SourceReferences, 'in'>
}

export type LineageService = ReturnType<typeof makeLineageService>

/** Computes the graph from rows for each request. Only parsed sources are cached, by version (ADR 32). */
export function makeLineageService({ sql, log, references }: LineageDeps) {
  /** The visible graph of one namespace, or of all; with `node`, only what is upstream or downstream of it. */
  async function graph({ namespace, node }: LineageQuery, visible = EVERYTHING): Promise<LineageGraph> {
    const scope = { namespace, visible }
    const sources = await sourcesOf(sql, scope)
    const edges = edgesOf(sources, await readsOf(sources))
    if (node !== undefined) return graphAround(node, edges, sources, visible)
    const others = namespace === undefined ? [] : namesOf(TABLE, endsOf(edges)).map(tableNamed)
    const [runs, tables, zones] = await Promise.all([
      latestRunsOf(sql, sources.map(uuidOf)),
      tablesOf(sql, namespace, others, visible),
      zonesOf(sql, scope),
    ])
    return graphOf({ sources, runs, tables, zones, edges })
  }

  async function graphAround(
    node: string,
    all: readonly Edge[],
    pipelines: readonly LineageSource[],
    visible: Visible,
  ): Promise<LineageGraph> {
    const edges = edgesAround(node, all)
    const ids = endsOf(edges).add(node)
    const sources = pipelines.filter((pipeline) => ids.has(PIPELINE + tableKey(pipeline)))
    const [runs, tables, zones] = await Promise.all([
      latestRunsOf(sql, sources.map(uuidOf)),
      tablesOf(sql, null, namesOf(TABLE, ids).map(tableNamed), visible),
      zonesNamed(sql, namesOf(ZONE, ids).map(zoneNamed), visible),
    ])
    return graphOf({ sources, runs, tables, zones, edges })
  }

  /** The tables and zones that each pipeline reads, in the order of `pipelines`. Empty for a source that cannot be read now. */
  async function readsOf(pipelines: readonly LineageSource[]): Promise<Named[]> {
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

/** Kinds of nodes: the beginnings of their ids. */
const PIPELINE = 'pipeline:'
const TABLE = 'table:'
const ZONE = 'landing:'

const uuidOf = ({ pipelineId }: LineageSource) => pipelineId

const endsOf = (edges: readonly Edge[]) => new Set(edges.flatMap(({ source, target }) => [source, target]))

/** The names of the nodes of one kind. */
const namesOf = (kind: string, ids: ReadonlySet<string>): string[] =>
  [...ids].filter((id) => id.startsWith(kind)).map((id) => id.slice(kind.length))

/** `reads` has one entry for each pipeline, in the same order. */
const edgesOf = (pipelines: readonly LineageSource[], reads: readonly Named[]): Edge[] =>
  pipelines.flatMap((pipeline, index): Edge[] => {
    const { tables, zones } = reads[index] ?? NOTHING
    const key = tableKey(pipeline)
    const target = PIPELINE + key
    return [
      ...tables.map((table): Edge => ({ source: TABLE + table, target, type: 'ref' })),
      ...zones.map((zone): Edge => ({ source: ZONE + zone, target, type: 'landing_input' })),
      { source: target, target: TABLE + key, type: 'produces' },
    ]
  })

/** The edges on the paths to a node, and on the paths from it. */
function edgesAround(node: string, edges: readonly Edge[]): Edge[] {
  const upstream = reachable(node, edges, 'upstream')
  const downstream = reachable(node, edges, 'downstream')
  return edges.filter(({ source, target }) => upstream.has(target) || downstream.has(source))
}

interface Parts {
  sources: readonly LineageSource[]
  runs: readonly LatestRun[]
  tables: readonly LineageTable[]
  zones: readonly LineageZone[]
  edges: Edge[]
}

/** Each end of an edge has a node, even if its table or zone does not exist. */
function graphOf({ sources, runs, tables, zones, edges }: Parts): LineageGraph {
  const runOf = new Map(runs.map((run) => [run.pipelineId, run]))
  const pipelineNodes = sources.map((source) => pipelineNode(source, runOf.get(source.pipelineId)))
  const tableNodes = tables.map((table) => tableNode(table, table))
  const zoneNodes = zones.map(zoneNode)
  const known = new Set([...tableNodes, ...zoneNodes].map(({ id }) => id))
  const unknown = new Set([...endsOf(edges)].filter((id) => !known.has(id)))
  return {
    nodes: [
      ...pipelineNodes,
      ...tableNodes,
      ...namesOf(TABLE, unknown).map((key) => tableNode(tableNamed(key), null)),
      ...zoneNodes,
      ...namesOf(ZONE, unknown).map((key) => zoneNode({ ...zoneNamed(key), files: 0 })),
    ],
    edges,
  }
}

const pipelineNode = (
  { namespace, layer, name }: LineageSource,
  run: LatestRun | undefined,
): PipelineNode => ({
  id: PIPELINE + tableKey({ namespace, layer, name }),
  type: 'pipeline',
  namespace,
  layer,
  name,
  latest_run: run
    ? {
        id: run.id,
        status: run.status,
        started_at: run.startedAt?.toISOString() ?? null,
        duration_ms: run.durationMs,
      }
    : null,
  quality:
    run === undefined || run.total === 0
      ? null
      : { total: run.total, passed: run.passed, failed: run.failed, warned: run.warned },
})

const tableNode = (
  { namespace, layer, name }: TableName,
  stats: Pick<LineageTable, 'rowCount' | 'sizeBytes'> | null,
): TableNode => ({
  id: TABLE + tableKey({ namespace, layer, name }),
  type: 'table',
  namespace,
  layer,
  name,
  table_stats: stats && { row_count: stats.rowCount, size_bytes: stats.sizeBytes },
})

const zoneNode = ({ namespace, name, files }: LineageZone): ZoneNode => ({
  id: `${ZONE}${namespace}.${name}`,
  type: 'landing_zone',
  namespace,
  name,
  landing_info: { file_count: files },
})

/** Splits `namespace.name` of a zone; neither part contains a dot. */
function zoneNamed(key: string): ZoneName {
  const dot = key.indexOf('.')
  return { namespace: key.slice(0, dot), name: key.slice(dot + 1) }
}
