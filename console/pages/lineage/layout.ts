import type { ElkNode } from 'elkjs/lib/elk-api.js'
import { CONSOLE } from '../../api/request.ts'

export interface Place {
  x: number
  y: number
}
export interface Edge {
  source: string
  target: string
}

export const NODE = { width: 190, height: 40 }
const GAP = { x: 44, y: 16 }
/** ELK takes seconds for larger graphs. They get plain layers instead. */
const ELK_NODES_MAX = 800

/** Places for all nodes, left to right in the direction of the data. */
export async function layoutOf(ids: readonly string[], edges: readonly Edge[]): Promise<Map<string, Place>> {
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

/** Each node stands right of all its sources: the longest path decides. A cycle ends at its first repeated node. */
export function inLayers(ids: readonly string[], edges: readonly Edge[]): Map<string, Place> {
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
  const rows = new Map<number, number>()
  return new Map(
    ids.map((id) => {
      const column = depth.get(id) ?? 0
      const row = rows.get(column) ?? 0
      rows.set(column, row + 1)
      return [id, { x: column * (NODE.width + GAP.x), y: row * (NODE.height + GAP.y) }]
    }),
  )
}

/** All nodes that can be reached from `start` against or along the edges, with `start` itself. */
export function reachable(
  start: string,
  edges: readonly Edge[],
  way: 'upstream' | 'downstream',
): Set<string> {
  const next = new Map<string, string[]>()
  for (const { source, target } of edges) {
    const [from, to] = way === 'downstream' ? [source, target] : [target, source]
    next.set(from, [...(next.get(from) ?? []), to])
  }
  const found = new Set([start])
  for (const id of found) for (const other of next.get(id) ?? []) found.add(other)
  return found
}
