import type { ElkNode } from 'elkjs/lib/elk-api.js'
import type { DirectedEdge } from '../../../lake/pipeline/reach.ts'
import { CONSOLE } from '../../api/request.ts'

export interface Place {
  x: number
  y: number
}

export const NODE = { width: 190, height: 40 }
const GAP = { x: 44, y: 16 }
/** ELK takes seconds for larger graphs. They get plain layers instead. */
const ELK_NODES_MAX = 800
/** A layer with fewer nodes than this is one column. */
const ROWS_MIN = 40

/** Places for all nodes, left to right in the direction of the data. */
export async function layoutOf(
  ids: readonly string[],
  edges: readonly DirectedEdge[],
): Promise<Map<string, Place>> {
  if (ids.length === 0 || ids.length > ELK_NODES_MAX) return inLayers(ids, edges)
  const { default: ELK } = await import('elkjs/lib/elk-api.js')
  const name = document.querySelector<HTMLMetaElement>('meta[name="layout-worker"]')?.content ?? ''
  const worker = new Worker(new URL(`assets/${name}`, CONSOLE))
  const elk = new ELK({ workerFactory: () => worker })
  try {
    const graph: ElkNode = {
      id: 'root',
      layoutOptions: {
        'elk.algorithm': 'layered',
        'elk.direction': 'RIGHT',
        'elk.layered.spacing.nodeNodeBetweenLayers': String(GAP.x),
        'elk.spacing.nodeNode': String(GAP.y),
      },
      children: ids.map((id) => ({ id, ...NODE })),
      edges: edges.map(({ source, target }, index) => ({
        id: `e${index}`,
        sources: [source],
        targets: [target],
      })),
    }
    const { children = [] } = await elk.layout(graph)
    return new Map(children.map(({ id, x = 0, y = 0 }) => [id, { x, y }]))
  } finally {
    worker.terminate()
  }
}

/**
 * A short text that changes with the nodes and with the ends of the edges, in any order. It is short because the key of a query
 * is written as text for each render.
 */
export function fingerprintOf(ids: readonly string[], edges: readonly DirectedEdge[]): string {
  const texts = [ids, edges.map(({ source, target }) => `${source}>${target}`)]
  return texts.map((list) => `${list.length} ${hashOf(list.toSorted().join())}`).join(' ')
}

function hashOf(text: string): number {
  let hash = 0
  for (let at = 0; at < text.length; at++) hash = (Math.imul(hash, 31) + text.charCodeAt(at)) | 0
  return hash
}

/** Each node stands right of all its sources: the longest path decides. A cycle ends at its first repeated node. */
export function inLayers(ids: readonly string[], edges: readonly DirectedEdge[]): Map<string, Place> {
  const known = new Set(ids)
  const targets = Map.groupBy(edges, ({ source }) => source)
  const waiting = new Map(ids.map((id) => [id, 0]))
  for (const { source, target } of edges)
    if (known.has(source) && known.has(target)) waiting.set(target, (waiting.get(target) ?? 0) + 1)
  const depth = new Map(ids.map((id) => [id, 0]))
  const ready = ids.filter((id) => waiting.get(id) === 0)
  for (let next = 0; next < ready.length; next++) {
    const id = ready[next] as string
    for (const { target } of targets.get(id) ?? []) {
      if (!known.has(target)) continue
      depth.set(target, Math.max(depth.get(target) ?? 0, (depth.get(id) ?? 0) + 1))
      const left = (waiting.get(target) ?? 0) - 1
      waiting.set(target, left)
      if (left === 0) ready.push(target)
    }
  }
  return placesOf(Map.groupBy(ids, (id) => depth.get(id) ?? 0))
}

/** A layer with many nodes takes several columns, so that the drawing stays about as wide as high. */
function placesOf(layers: ReadonlyMap<number, readonly string[]>): Map<string, Place> {
  const total = [...layers.values()].reduce((sum, layer) => sum + layer.length, 0)
  const rows = Math.max(ROWS_MIN, Math.ceil(2 * Math.sqrt(total)))
  const places = new Map<string, Place>()
  let column = 0
  for (const [, layer] of [...layers].sort(([a], [b]) => a - b)) {
    for (const [index, id] of layer.entries())
      places.set(id, {
        x: (column + Math.floor(index / rows)) * (NODE.width + GAP.x),
        y: (index % rows) * (NODE.height + GAP.y),
      })
    column += Math.ceil(layer.length / rows)
  }
  return places
}
