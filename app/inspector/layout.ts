// The layout of a statechart: dagre places states and labels, and inner states inside outer states.
import assert from 'node:assert/strict'
import { Graph, layout } from '@dagrejs/dagre'
import {
  bundled,
  commonGroups,
  type EdgeLabel,
  type Group,
  type LabelLine,
  linesOf,
  type Point,
  representative,
  sizeOf,
} from './edge-labels.ts'
import type { Definition, Detail, StateDefinition, TransitionDefinition } from './schema.ts'

/** `x` and `y` are the upper left corner. */
export interface Box extends Point {
  width: number
  height: number
}

export interface PlacedState extends Box {
  state: StateDefinition
}
/** A box around several states. Transitions that all these states share are drawn once, from the box. */
export interface PlacedGroup extends Box {
  members: string[]
}
export interface PlacedEdge {
  /** Transitions that share an arrow. An inner list contains the same transition of each member of a group. */
  transitions: TransitionDefinition[][]
  points: Point[]
  /** An arrow from a state to itself, drawn beside the state. */
  isLoop: boolean
  label: Box & { lines: LabelLine[] }
}

export interface Layout {
  /** The upper border of the drawing: at most 0. */
  top: number
  width: number
  height: number
  compounds: PlacedState[]
  states: PlacedState[]
  groups: PlacedGroup[]
  /** The arrow into the initial state of each level. */
  initials: { target: string; dot: Point; points: Point[] }[]
  edges: PlacedEdge[]
}

const NAME_SIZE = 13
const STATE_HEIGHT = 38
const STATE_MIN_WIDTH = 96
/** Length of the arrow that marks an initial state. */
const MARK = 16
/** Height of the title row of a compound state. */
const TITLE = 30
/** No state is this wide, so a wider box is a box around states. */
const WIDE = 180
const MARGIN = 28

export function layOut(definition: Definition, detail: Detail): Layout {
  const { states, transitions } = definition
  const graph = new Graph({ compound: true, multigraph: true })
  graph.setGraph({
    rankdir: 'TB',
    nodesep: 20,
    edgesep: 8,
    ranksep: 30,
    marginx: MARGIN,
    marginy: MARGIN,
  })
  graph.setDefaultEdgeLabel(() => ({}))
  const groups = commonGroups(definition)
  const groupOf = new Map(groups.flatMap((group) => group.members.map((member) => [member, group.id])))

  for (const { path, kind, name } of states)
    graph.setNode(path, kind === 'compound' ? {} : { width: stateWidth(name), height: STATE_HEIGHT })
  for (const { id } of groups) graph.setNode(id, {})
  for (const { path, parent } of states) {
    const group = groupOf.get(path)
    if (group !== undefined) graph.setParent(path, group)
    else if (parent !== null) graph.setParent(path, parent)
  }
  for (const { id, parent } of groups) if (parent !== null) graph.setParent(id, parent)

  const bundles = bundled(transitions, groups)
  for (const [index, bundle] of bundles.entries()) {
    const lines = linesOf(bundle.transitions, detail)
    graph.setEdge(
      bundle.from.leaves.at(-1) ?? representative(states, bundle.from.path),
      representative(states, bundle.to),
      {
        ...sizeOf(lines),
        labelpos: 'c',
        weight: bundle.weight,
        lines,
        bundle,
      },
      String(index),
    )
  }
  layout(graph)

  const boxes = new Map<string, Box>()
  for (const id of graph.nodes()) boxes.set(id, boxOf(graph.node(id)))
  const box = (id: string) => boxAt(boxes, id)
  addTitleRows(definition, groups, boxes)
  const initials = states.filter(({ initial }) => initial)
  const ends = new Ports(boxes)
  for (const { path } of initials) ends.reserve(path)
  const edges = graph.edges().map((edge) => {
    const placed = graph.edge(edge) as EdgeLabel
    // An arrow with a label ends at the inner state, because the label must stay on the arrow.
    const to = placed.lines.length === 0 ? placed.bundle.to : edge.w
    const points =
      edge.v === edge.w ? [] : outside(placed.points.slice(1, -1), box(placed.bundle.from.path), box(to))
    return { ...placed, from: placed.bundle.from.path, to, points, isLoop: edge.v === edge.w }
  })
  for (const edge of edges) if (!edge.isLoop) ends.join(edge)
  const placedEdges = edges.map((edge): PlacedEdge => {
    const label = boxOf(edge)
    const points = edge.isLoop ? loop(box(edge.from), label) : ends.way(edge)
    return {
      transitions: edge.bundle.transitions,
      points,
      isLoop: edge.isLoop,
      label: { ...label, lines: edge.lines },
    }
  })

  const { width, height } = graph.graph()
  assert(width !== undefined && height !== undefined)
  const top = Math.min(0, ...[...boxes.values()].map(({ y }) => y - MARK - 12))
  const placed = (state: StateDefinition): PlacedState => ({ state, ...box(state.path) })
  return {
    top: Math.floor(top),
    width: Math.ceil(width),
    height: Math.ceil(height - top),
    compounds: states.filter(({ kind }) => kind === 'compound').map(placed),
    states: states.filter(({ kind }) => kind !== 'compound').map(placed),
    groups: groups.map(({ id, members }) => ({ members, ...box(id) })),
    initials: initials.map(({ path }) => {
      const end = { x: ends.reserved(path), y: box(path).y }
      const dot = { x: end.x, y: end.y - MARK }
      return { target: path, dot, points: [dot, end] }
    }),
    edges: placedEdges,
  }
}

/** Extends compound boxes upwards, so that each title has a row of its own. */
function addTitleRows({ states }: Definition, groups: Group[], boxes: Map<string, Box>) {
  for (const { path, kind } of states.toReversed()) {
    if (kind !== 'compound') continue
    const box = boxAt(boxes, path)
    const content = [
      ...states.filter(({ parent }) => parent === path).map((state) => state.path),
      ...groups.filter(({ parent }) => parent === path).map(({ id }) => id),
    ]
    const y = Math.min(...content.map((id) => boxAt(boxes, id).y - TITLE))
    boxes.set(path, { ...box, y, height: box.height + box.y - y })
  }
}

interface Joined {
  from: string
  to: string
  points: Point[]
}

/**
 * The points at which arrows leave and reach a box. They lie side by side on its upper and lower border, in the order of their
 * other ends.
 */
class Ports {
  readonly #sides = new Map<string, { key: object; towards: number }[]>()
  readonly #initial = new Map<string, object>()
  readonly #boxes: Map<string, Box>

  constructor(boxes: Map<string, Box>) {
    this.#boxes = boxes
  }

  /** Reserves the leftmost point above a state for the arrow of an initial state. */
  reserve(path: string) {
    const key = {}
    this.#initial.set(path, key)
    this.#add(`top ${path}`, key, Number.NEGATIVE_INFINITY)
  }

  reserved(path: string): number {
    const key = this.#initial.get(path)
    assert(key, 'no position reserved for the arrow of an initial state')
    return this.#endX(path, 'top', key)
  }

  join(edge: Joined) {
    const { leaves, reaches } = this.#sidesOf(edge)
    this.#add(`${leaves} ${edge.from}`, edge.points, edge.points[0]?.x ?? this.#middle(edge.to))
    this.#add(`${reaches} ${edge.to}`, edge.points, edge.points.at(-1)?.x ?? this.#middle(edge.from))
  }

  way(edge: Joined): Point[] {
    const { leaves, reaches } = this.#sidesOf(edge)
    return [
      { x: this.#endX(edge.from, leaves, edge.points), y: this.#border(edge.from, leaves) },
      ...edge.points,
      { x: this.#endX(edge.to, reaches, edge.points), y: this.#border(edge.to, reaches) },
    ]
  }

  #sidesOf({ from, to, points }: Joined) {
    const [start, end] = [this.#box(from), this.#box(to)]
    const first = points[0]?.y ?? end.y + end.height / 2
    const last = points.at(-1)?.y ?? start.y + start.height / 2
    return {
      leaves: first > start.y + start.height / 2 ? ('bottom' as const) : ('top' as const),
      reaches: last < end.y + end.height / 2 ? ('top' as const) : ('bottom' as const),
    }
  }

  #add(side: string, key: object, towards: number) {
    const ends = this.#sides.get(side) ?? []
    ends.push({ key, towards })
    this.#sides.set(side, ends)
  }

  #endX(path: string, side: 'top' | 'bottom', key: object): number {
    const box = this.#box(path)
    const ends = this.#sides.get(`${side} ${path}`) ?? []
    const own = ends.find((end) => end.key === key)
    // On a wide box, each arrow ends directly opposite its other end.
    if (own !== undefined && Number.isFinite(own.towards) && box.width > WIDE)
      return Math.min(Math.max(own.towards, box.x + 16), box.x + box.width - 16)
    if (box.width > WIDE) return box.x + 28
    const order = ends.toSorted((a, b) => a.towards - b.towards).findIndex((end) => end.key === key)
    return box.x + (box.width * (order + 1)) / (ends.length + 1)
  }

  #border(path: string, side: 'top' | 'bottom') {
    const { y, height } = this.#box(path)
    return side === 'top' ? y : y + height
  }

  #middle(path: string) {
    const { x, width } = this.#box(path)
    return x + width / 2
  }

  #box(path: string): Box {
    return boxAt(this.#boxes, path)
  }
}

/** The box of a state or group. Every state and group has one. */
function boxAt(boxes: ReadonlyMap<string, Box>, path: string): Box {
  const box = boxes.get(path)
  assert(box, `no position for state or group ${path}`)
  return box
}

/** The points of a loop out of the right side of a state and back, with the label beside the loop. */
function loop(state: Box, label: Box): Point[] {
  const [right, middle, far] = [state.x + state.width, state.y + state.height / 2, label.x - 2]
  return [
    { x: right, y: middle - 8 },
    { x: far, y: middle - 12 },
    { x: far, y: middle + 12 },
    { x: right, y: middle + 8 },
  ]
}

const stateWidth = (name: string) => Math.max(STATE_MIN_WIDTH, Math.ceil(name.length * NAME_SIZE * 0.6) + 36)

const boxOf = ({ x = 0, y = 0, width = 0, height = 0 }: Partial<Box>): Box => ({
  x: x - width / 2,
  y: y - height / 2,
  width,
  height,
})

/** The points of an arrow outside of the two boxes that it joins. */
const outside = (points: Point[], from: Box, to: Box): Point[] =>
  points.filter((point) => !isInside(point, from) && !isInside(point, to))

const isInside = ({ x, y }: Point, box: Box) =>
  x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height
