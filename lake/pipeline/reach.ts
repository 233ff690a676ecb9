export interface DirectedEdge {
  source: string
  target: string
}

/** All nodes that can be reached from `start` against (upstream) or along (downstream) the edges, with `start` itself. */
export function reachable(
  start: string,
  edges: readonly DirectedEdge[],
  way: 'upstream' | 'downstream',
): Set<string> {
  const next = new Map<string, string[]>()
  for (const { source, target } of edges) {
    const [from, to] = way === 'downstream' ? [source, target] : [target, source]
    const known = next.get(from)
    if (known === undefined) next.set(from, [to])
    else known.push(to)
  }
  const found = new Set([start])
  for (const id of found) for (const other of next.get(id) ?? []) found.add(other)
  return found
}
