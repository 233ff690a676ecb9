import type { Sql } from '../../drizzle/client.ts'
import { type TableName, tableKey } from '../../lake/pipeline/names.ts'
import { EVERYTHING } from '../access/ports.ts'
import { limits } from '../limits.ts'
import type { Log } from '../log.ts'
import { type Named, tableNamed } from '../pipelines/references.ts'
import type { SourceReferences } from '../pipelines/source-references.ts'
import {
  type LatestRun,
  latestRunsOf,
  type PipelineSource,
  type Quality,
  qualityOf,
  sourcesOf,
  type Table,
  tablesNamed,
  tablesOf,
  type Zone,
  zonesOf,
} from './queries.ts'
import type { Edge, LineageGraph, LineageQuery, PipelineNode, TableNode, ZoneNode } from './schema.ts'

export interface LineageDeps {
  sql: Sql
  log: Log
  references: Pick<SourceReferences, 'in'>
}

export type LineageService = ReturnType<typeof makeLineageService>

/** Computed whenever it is asked for; only what a version of a source reads is remembered. */
export function makeLineageService({ sql, log, references }: LineageDeps) {
  /** Of one namespace, or of all; as far as the caller may see it. */
  async function graph({ namespace }: LineageQuery, visible = EVERYTHING): Promise<LineageGraph> {
    const scope = { namespace, visible }
    const [{ pipelines, reads }, runs, qualities, tables, zones] = await Promise.all([
      sourcesOf(sql, scope).then(async (pipelines) => ({ pipelines, reads: await readsOf(pipelines) })),
      latestRunsOf(sql, scope),
      qualityOf(sql, scope),
      tablesOf(sql, scope),
      zonesOf(sql, scope),
    ])
    const foreign = namespace === undefined ? [] : foreignTables(reads, namespace)
    const others = foreign.length === 0 ? [] : await tablesNamed(sql, foreign, visible)
    return graphOf({ pipelines, reads, runs, qualities, tables: [...tables, ...others], zones })
  }

  /** What each of the pipelines reads, in their order; nothing where the source cannot be read now. */
  async function readsOf(pipelines: readonly PipelineSource[]): Promise<Named[]> {
    const reads = pipelines.map(() => NOTHING)
    const rest = pipelines.entries()
    const failures: { pipeline: string; error: unknown }[] = []
    async function readOn() {
      for (const [index, pipeline] of rest) {
        // A store that is away is not asked thousands of times.
        if (failures.length >= limits.lineageFailures) return
        try {
          const found = references.in(pipeline)
          reads[index] = found instanceof Promise ? await found : found
        } catch (error) {
          failures.push({ pipeline: tableKey(pipeline), error })
        }
      }
    }
    await Promise.all(Array.from({ length: limits.sourceReadsAtOnce }, readOn))
    const [first] = failures
    if (first !== undefined)
      log.warn('lineage is without what some pipelines read: their sources could not be read', {
        failures: failures.length,
        ...first,
      })
    return reads
  }

  return { graph }
}

const NOTHING: Named = { tables: [], zones: [] }

interface Parts {
  pipelines: readonly PipelineSource[]
  /** Of each pipeline, in their order. */
  reads: readonly Named[]
  runs: readonly LatestRun[]
  qualities: readonly Quality[]
  tables: readonly Table[]
  zones: readonly Zone[]
}

/** Whatever an edge names is a node, whether it exists or not. */
function graphOf({ pipelines, reads, runs, qualities, tables, zones }: Parts): LineageGraph {
  const latest = new Map(runs.map((run) => [run.pipelineId, run]))
  const qualityOfRun = new Map(qualities.map(({ runId, ...quality }) => [runId, quality]))
  const tableNodes = new Map<string, TableNode>()
  const zoneNodes = new Map<string, ZoneNode>()
  for (const table of tables) {
    const node = tableNode(table, table)
    tableNodes.set(node.id, node)
  }
  for (const zone of zones) {
    const node = zoneNode(zone, zone.fileCount)
    zoneNodes.set(node.id, node)
  }
  const pipelineNodes: PipelineNode[] = []
  const edges: Edge[] = []
  pipelines.forEach((pipeline, index) => {
    const run = latest.get(pipeline.pipelineId)
    const node = pipelineNode(pipeline, run, run && qualityOfRun.get(run.id))
    pipelineNodes.push(node)
    const made = `table:${tableKey(pipeline)}`
    if (!tableNodes.has(made)) tableNodes.set(made, tableNode(pipeline, null))
    for (const table of reads[index]?.tables ?? []) {
      const source = `table:${table}`
      if (!tableNodes.has(source)) tableNodes.set(source, tableNode(tableNamed(table), null))
      edges.push({ source, target: node.id, type: 'ref' })
    }
    for (const zone of reads[index]?.zones ?? []) {
      const source = `landing:${zone}`
      if (!zoneNodes.has(source)) zoneNodes.set(source, zoneNode(zoneNamed(zone), 0))
      edges.push({ source, target: node.id, type: 'landing_input' })
    }
    edges.push({ source: node.id, target: made, type: 'produces' })
  })
  return { nodes: [...pipelineNodes, ...tableNodes.values(), ...zoneNodes.values()], edges }
}

const pipelineNode = (
  { namespace, layer, name }: PipelineSource,
  run: LatestRun | undefined,
  quality: PipelineNode['quality'] = null,
): PipelineNode => ({
  id: `pipeline:${namespace}.${layer}.${name}`,
  type: 'pipeline',
  namespace,
  layer,
  name,
  latest_run:
    run === undefined
      ? null
      : {
          id: run.id,
          status: run.status,
          started_at: run.startedAt?.toISOString() ?? null,
          duration_ms: run.durationMs === null ? null : Number(run.durationMs),
        },
  quality,
})

const tableNode = (
  { namespace, layer, name }: TableName,
  stats: Pick<Table, 'rowCount' | 'sizeBytes'> | null,
): TableNode => ({
  id: `table:${namespace}.${layer}.${name}`,
  type: 'table',
  namespace,
  layer,
  name,
  table_stats: stats && { row_count: Number(stats.rowCount), size_bytes: Number(stats.sizeBytes) },
})

const zoneNode = ({ namespace, name }: Omit<Zone, 'fileCount'>, fileCount: number): ZoneNode => ({
  id: `landing:${namespace}.${name}`,
  type: 'landing_zone',
  namespace,
  name,
  landing_info: { file_count: fileCount },
})

function foreignTables(reads: readonly Named[], namespace: string): TableName[] {
  const own = `${namespace}.`
  const foreign = new Set(reads.flatMap(({ tables }) => tables.filter((table) => !table.startsWith(own))))
  return [...foreign].map(tableNamed)
}

function zoneNamed(key: string): Omit<Zone, 'fileCount'> {
  const [namespace = '', name = ''] = key.split('.')
  return { namespace, name }
}
