import type { Sql } from '../../drizzle/client.ts'
import { type TableName, tableKey } from '../../lake/pipeline/names.ts'
import { EVERYTHING, seesEverything } from '../core/access.ts'
import { limits } from '../core/limits.ts'
import type { Log } from '../core/log.ts'
import { type Named, tableNamed } from '../pipelines/references.ts'
import type { SourceReferences } from '../pipelines/source-references.ts'
import { afterId, idIn, makeKept } from './kept.ts'
import type { Edge, LineageGraph, LineageQuery, PipelineNode, TableNode, ZoneNode } from './schema.ts'
import {
  contentsOf,
  type Marks,
  marksOf,
  type PipelineSource,
  pipelinesOf,
  type Run,
  runsOf,
  type Scope,
  type Stats,
  tablesNamed,
} from './store.ts'

export interface LineageDeps {
  sql: Sql
  log: Log
  references: Pick<SourceReferences, 'in'>
}

export type LineageService = ReturnType<typeof makeLineageService>

/**
 * Computed whenever it is asked for: the database is asked what is there, as marks of states that never change, and what
 * those mean is remembered (ADR 29). What a caller may see is in the question, and never in what is remembered.
 */
export function makeLineageService({ sql, log, references }: LineageDeps) {
  const kept = {
    pipelines: makeKept<Placed>(limits.lineageStatesKept),
    runs: makeKept<RunParts>(limits.lineageStatesKept),
    contents: makeKept<Stats>(limits.lineageStatesKept),
  }
  /** Of everything there is. */
  let last: { marks: Marks; text: string } | null = null

  /** Of one namespace, or of all; as far as the caller may see it. */
  async function graph({ namespace }: LineageQuery, visible = EVERYTHING): Promise<LineageGraph> {
    const scope = { namespace, visible }
    return (await computed(await marksOf(sql, scope), scope)).graph
  }

  /** As JSON. That of a graph with the very marks of the one before is the one before. */
  async function text({ namespace }: LineageQuery, visible = EVERYTHING): Promise<string> {
    const scope = { namespace, visible }
    const marks = await marksOf(sql, scope)
    const isOfAll = namespace === undefined && seesEverything(visible)
    if (isOfAll && last !== null && areSame(marks, last.marks)) return last.text
    const { graph, isFinal } = await computed(marks, scope)
    const text = JSON.stringify(graph)
    if (isOfAll) last = isFinal && text.length <= limits.lineageAnswerLength ? { marks, text } : null
    return text
  }

  /** `isFinal`: the same marks give the same graph. */
  async function computed(
    asked: Marks,
    { namespace, visible }: Scope,
  ): Promise<{ graph: LineageGraph; isFinal: boolean }> {
    const { pipelines, runs, tables, marks } = await known(asked, { namespace, visible })
    const { reads, isWhole } = await readsOf(pipelines)
    const foreign = namespace === undefined ? [] : foreignTables(reads, namespace)
    if (foreign.length > 0)
      for (const [name, stats] of await tablesNamed(sql, foreign, visible)) tables.set(name, stats)
    const ofPipeline = new Map([...runs.values()].map((run) => [run.pipelineId, run]))
    const graph = graphOf({ pipelines, reads, runs: ofPipeline, tables, zones: zonesIn(marks) })
    return { graph, isFinal: isWhole && marks === asked && [...runs.values()].every(hasEnded) }
  }

  /** What the marks stand for. Where something of it has been removed meanwhile, they are asked for again. */
  async function known(marks: Marks, scope: Scope, tries: number = limits.lineageTries): Promise<Known> {
    const tableMarks = linesOf(marks.tables)
    const wanted = {
      pipelines: linesOf(marks.pipelines),
      runs: marks.runs.flatMap(linesOf),
      contents: [...new Set(tableMarks.map(idIn))],
    }
    const [pipelines, runs, contents] = await Promise.all([
      kept.pipelines.of(wanted.pipelines, async (ids) =>
        (await pipelinesOf(sql, ids)).map(({ mark, ...source }) => ({
          mark,
          meaning: placed(source),
          isFinal: true,
        })),
      ),
      kept.runs.of(wanted.runs, async (ids) =>
        (await runsOf(sql, ids)).map(({ mark, ...run }) => {
          const meaning = runParts(run)
          return { mark, meaning, isFinal: hasEnded(meaning) }
        }),
      ),
      kept.contents.of(wanted.contents, async (ids) =>
        (await contentsOf(sql, ids)).map(({ id, ...meaning }) => ({ mark: id, meaning, isFinal: true })),
      ),
    ])
    const isWhole =
      pipelines.size === wanted.pipelines.length &&
      runs.size === wanted.runs.length &&
      contents.size === wanted.contents.length
    if (!isWhole && tries > 1) return known(await marksOf(sql, scope), scope, tries - 1)
    return {
      marks,
      pipelines: [...pipelines.values()].sort((a, b) => (a.place < b.place ? -1 : 1)),
      runs,
      tables: new Map(tableMarks.map((mark) => [afterId(mark), contents.get(idIn(mark)) ?? null])),
    }
  }

  /** What each of the pipelines reads, in their order; nothing where the source cannot be read now. */
  async function readsOf(
    pipelines: readonly PipelineSource[],
  ): Promise<{ reads: Named[]; isWhole: boolean }> {
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
    return { reads, isWhole: first === undefined }
  }

  return { graph, text }
}

const NOTHING: Named = { tables: [], zones: [] }

/** What is shown of a pipeline's latest run. */
type RunParts = Pick<PipelineNode, 'latest_run' | 'quality'> & Pick<Run, 'pipelineId'>

/** Written once for each state: five thousand of them are in every graph. */
interface Placed extends PipelineSource {
  /** By it pipelines are in order. */
  place: string
  nodeId: string
  /** Of the table it makes. */
  table: string
}

const placed = (source: PipelineSource): Placed => ({
  ...source,
  place: `${source.namespace} ${source.layer} ${source.name}`,
  nodeId: `pipeline:${tableKey(source)}`,
  table: tableKey(source),
})

interface Known {
  marks: Marks
  /** By namespace, layer and name. */
  pipelines: Placed[]
  /** By their marks. */
  runs: Map<string, RunParts>
  /** Of main, by their keys. Null: what it held has been removed meanwhile. */
  tables: Map<string, Stats | null>
}

const linesOf = (text: string) => (text === '' ? [] : text.split('\n'))

const areSame = (one: Marks, other: Marks) =>
  one.pipelines === other.pipelines &&
  one.tables === other.tables &&
  one.zones === other.zones &&
  one.runs.every((text, half) => text === other.runs[half])

interface Parts extends Pick<Known, 'pipelines' | 'tables'> {
  /** Of each pipeline, in their order. */
  reads: readonly Named[]
  /** The latest of each pipeline that has one, by its id. */
  runs: ReadonlyMap<string, RunParts>
  /** With their numbers of active files. */
  zones: ReadonlyMap<string, number>
}

/** Whatever an edge names is a node, whether it exists or not. */
function graphOf({ pipelines, reads, runs, tables, zones }: Parts): LineageGraph {
  const tableNodes = new Map<string, TableNode>()
  const zoneNodes = new Map<string, ZoneNode>()
  for (const [key, stats] of [...tables].sort(byKey)) tableNodes.set(key, tableNode(key, stats))
  for (const [key, fileCount] of [...zones].sort(byKey)) zoneNodes.set(key, zoneNode(key, fileCount))
  const tableId = (key: string) => nodeIn(tableNodes, key, () => tableNode(key, null)).id
  const zoneId = (key: string) => nodeIn(zoneNodes, key, () => zoneNode(key, 0)).id
  const pipelineNodes: PipelineNode[] = []
  const edges: Edge[] = []
  pipelines.forEach((pipeline, index) => {
    const { nodeId: target } = pipeline
    pipelineNodes.push(pipelineNode(pipeline, runs.get(pipeline.pipelineId)))
    const made = tableId(pipeline.table)
    for (const table of reads[index]?.tables ?? [])
      edges.push({ source: tableId(table), target, type: 'ref' })
    for (const zone of reads[index]?.zones ?? [])
      edges.push({ source: zoneId(zone), target, type: 'landing_input' })
    edges.push({ source: target, target: made, type: 'produces' })
  })
  return { nodes: [...pipelineNodes, ...tableNodes.values(), ...zoneNodes.values()], edges }
}

function nodeIn<Node>(nodes: Map<string, Node>, key: string, make: () => Node): Node {
  const known = nodes.get(key)
  if (known !== undefined) return known
  const made = make()
  nodes.set(key, made)
  return made
}

const byKey = ([a]: [string, unknown], [b]: [string, unknown]) => (a < b ? -1 : 1)

const pipelineNode = (
  { nodeId, namespace, layer, name }: Placed,
  run: RunParts | undefined,
): PipelineNode => ({
  id: nodeId,
  type: 'pipeline',
  namespace,
  layer,
  name,
  latest_run: run?.latest_run ?? null,
  quality: run?.quality ?? null,
})

const runParts = ({ pipelineId, id, status, startedAt, durationMs, total, ...results }: Run): RunParts => ({
  pipelineId,
  latest_run: {
    id,
    status,
    started_at: startedAt?.toISOString() ?? null,
    duration_ms: durationMs === null ? null : Number(durationMs),
  },
  quality: total === 0 ? null : { total, ...results },
})

const hasEnded = ({ latest_run }: RunParts) =>
  latest_run !== null && latest_run.status !== 'pending' && latest_run.status !== 'running'

const tableNode = (key: string, stats: Stats | null): TableNode => ({
  id: `table:${key}`,
  type: 'table',
  ...tableNamed(key),
  table_stats: stats && { row_count: Number(stats.rowCount), size_bytes: Number(stats.sizeBytes) },
})

function zoneNode(key: string, fileCount: number): ZoneNode {
  const [namespace = '', name = ''] = key.split('.')
  return {
    id: `landing:${key}`,
    type: 'landing_zone',
    namespace,
    name,
    landing_info: { file_count: fileCount },
  }
}

const zonesIn = ({ zones }: Marks) =>
  new Map(
    linesOf(zones).map((line) => {
      const [key = '', count] = line.split(' ')
      return [key, Number(count)]
    }),
  )

function foreignTables(reads: readonly Named[], namespace: string): TableName[] {
  const own = `${namespace}.`
  const foreign = new Set(reads.flatMap(({ tables }) => tables.filter((table) => !table.startsWith(own))))
  return [...foreign].map(tableNamed)
}
