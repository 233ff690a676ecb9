import { useCallback, useEffect, useRef } from 'react'
import type { DirectedEdge } from '../../../lake/pipeline/reach.ts'
import type { LineageNode } from '../../api/lineage.ts'
import { IconButton } from '../../design/controls.tsx'
import { useIsDark } from '../../shell/theme.ts'
import { NODE, type Place } from './layout.ts'
import { type ColourBy, stateOf } from './state.ts'

interface Drawn {
  graph: { nodes: readonly LineageNode[]; edges: readonly DirectedEdge[] }
  places: ReadonlyMap<string, Place>
  chosen: string
  /** Nodes that a search has found. */
  found: ReadonlySet<string>
  colour: ColourBy
}

interface View {
  x: number
  y: number
  scale: number
}

const SCALE = { min: 0.02, max: 2.5 }
/** Below this scale a node is a plain block: its text could not be read. */
const TEXT_SCALE = 0.4
/** Left and right of the text of a node. */
const TEXT_INSET = { left: 16, right: 8 }
/** A graph of so many nodes is first shown at this scale, at which its text is easy to read. */
const SMALL_GRAPH = 60
const READ_SCALE = 0.8
/** Between the border of the canvas and the first node. */
const EDGE_PX = 16
/** Edges of one drawing. More of them cover each other, and take longer than a frame: every second, third or later one is drawn. */
const EDGES_DRAWN = 6_000

/** The drawing of the graph on a canvas. Only what is visible is drawn. The list beside it has the same nodes for the keyboard. */
export function Graph(props: Drawn & { onChoose: (id: string) => void }) {
  const canvas = useRef<HTMLCanvasElement>(null)
  const view = useRef<View | null>(null)
  const frame = useRef(0)
  const latest = useRef(props)
  latest.current = props
  const isDark = useIsDark()

  const draw = useCallback(() => {
    frame.current ||= requestAnimationFrame(() => {
      frame.current = 0
      if (canvas.current === null) return
      if (view.current === null) {
        const { places, chosen } = latest.current
        view.current = firstView(canvas.current, places)
        reveal(canvas.current, view, places.get(chosen))
      }
      paint(canvas.current, view.current, latest.current)
    })
  }, [])

  useEffect(draw, [draw, isDark, props.graph, props.places, props.chosen, props.found, props.colour])
  useEffect(() => {
    view.current = null
    draw()
  }, [props.places])
  useEffect(() => {
    reveal(canvas.current, view, props.places.get(props.chosen))
    draw()
  }, [draw, props.chosen, props.places])
  useEffect(() => {
    const element = canvas.current
    if (element === null) return
    const observer = new ResizeObserver(draw)
    observer.observe(element)
    const onWheel = (event: WheelEvent) => {
      event.preventDefault()
      zoom(view, event.deltaY < 0 ? 1.15 : 1 / 1.15, event.offsetX, event.offsetY)
      draw()
    }
    element.addEventListener('wheel', onWheel, { passive: false })
    return () => {
      observer.disconnect()
      element.removeEventListener('wheel', onWheel)
      cancelAnimationFrame(frame.current)
      frame.current = 0
    }
  }, [draw])

  const moved = useRef(0)
  const zoomBy = (factor: number) => {
    const element = canvas.current
    if (element === null) return
    zoom(view, factor, element.clientWidth / 2, element.clientHeight / 2)
    draw()
  }
  return (
    <div className="graph">
      <canvas
        ref={canvas}
        role="img"
        aria-label={`Graph of ${props.graph.nodes.length} nodes and ${props.graph.edges.length} edges`}
        onPointerDown={(event) => {
          moved.current = 0
          event.currentTarget.setPointerCapture(event.pointerId)
        }}
        onPointerMove={(event) => {
          if (!event.currentTarget.hasPointerCapture(event.pointerId) || view.current === null) return
          moved.current += Math.abs(event.movementX) + Math.abs(event.movementY)
          view.current.x += event.movementX
          view.current.y += event.movementY
          draw()
        }}
        onPointerUp={({ nativeEvent: { offsetX, offsetY } }) => {
          const id = moved.current < 5 ? nodeAt(view.current, latest.current, offsetX, offsetY) : null
          if (id !== null) props.onChoose(id)
        }}
      />
      <div className="graph-buttons">
        <IconButton icon="plus" label="Zoom in" kind="plain" size="small" onClick={() => zoomBy(1.4)} />
        <IconButton icon="minus" label="Zoom out" kind="plain" size="small" onClick={() => zoomBy(1 / 1.4)} />
        <IconButton
          icon="fit"
          label="Show the whole graph"
          kind="plain"
          size="small"
          onClick={() => {
            if (canvas.current !== null) view.current = fitted(canvas.current, latest.current.places)
            draw()
          }}
        />
      </div>
    </div>
  )
}

function zoom(view: { current: View | null }, factor: number, x: number, y: number): void {
  if (view.current === null) return
  const before = view.current.scale
  const scale = Math.min(SCALE.max, Math.max(SCALE.min, before * factor))
  const ratio = scale / before
  view.current = { scale, x: x - (x - view.current.x) * ratio, y: y - (y - view.current.y) * ratio }
}

/** Moves the view to a place that is outside the canvas, at a scale at which its text can be read. */
function reveal(
  canvas: HTMLCanvasElement | null,
  view: { current: View | null },
  place: Place | undefined,
): void {
  if (canvas === null || place === undefined || view.current === null) return
  const { clientWidth: width, clientHeight: height } = canvas
  const [x, y] = [
    view.current.x + place.x * view.current.scale,
    view.current.y + place.y * view.current.scale,
  ]
  const isReadable = view.current.scale >= TEXT_SCALE
  if (isReadable && x >= 0 && y >= 0 && x <= width - NODE.width && y <= height - NODE.height) return
  const scale = Math.max(view.current.scale, 0.8)
  view.current = {
    scale,
    x: width / 2 - (place.x + NODE.width / 2) * scale,
    y: height / 2 - (place.y + NODE.height / 2) * scale,
  }
}

/** The first look at a small graph is large enough to be read, from the sources on. A large graph is shown as a whole. */
function firstView(canvas: HTMLCanvasElement, places: ReadonlyMap<string, Place>): View {
  const whole = fitted(canvas, places)
  if (places.size > SMALL_GRAPH || whole.scale >= READ_SCALE) return whole
  const bottom = NODE.height + Math.max(0, ...[...places.values()].map(({ y }) => y))
  const top = (canvas.clientHeight - bottom * READ_SCALE) / 2
  return { scale: READ_SCALE, x: EDGE_PX, y: Math.max(EDGE_PX, top) }
}

function fitted(canvas: HTMLCanvasElement, places: ReadonlyMap<string, Place>): View {
  let [right, bottom] = [NODE.width, NODE.height]
  for (const { x, y } of places.values()) {
    right = Math.max(right, x + NODE.width)
    bottom = Math.max(bottom, y + NODE.height)
  }
  const { clientWidth: width, clientHeight: height } = canvas
  const scale = Math.min(1.1, Math.max(SCALE.min, 0.94 * Math.min(width / right, height / bottom)))
  return { scale, x: (width - right * scale) / 2, y: (height - bottom * scale) / 2 }
}

function nodeAt(view: View | null, { graph, places }: Drawn, x: number, y: number): string | null {
  if (view === null) return null
  const [left, top] = [(x - view.x) / view.scale, (y - view.y) / view.scale]
  const hit = graph.nodes.find(({ id }) => {
    const place = places.get(id)
    return (
      place &&
      left >= place.x &&
      left <= place.x + NODE.width &&
      top >= place.y &&
      top <= place.y + NODE.height
    )
  })
  return hit?.id ?? null
}

const colourOf = (node: LineageNode, by: ColourBy): string => stateOf(node, by)?.colour ?? '--line-strong'

function paint(canvas: HTMLCanvasElement, view: View, { graph, places, chosen, found, colour }: Drawn): void {
  const context = canvas.getContext('2d')
  if (context === null) return
  const ratio = devicePixelRatio
  const { clientWidth: width, clientHeight: height } = canvas
  if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
    canvas.width = width * ratio
    canvas.height = height * ratio
  }
  const style = getComputedStyle(document.documentElement)
  const palette = new Map<string, string>()
  const of = (name: string) => {
    const value = palette.get(name) ?? style.getPropertyValue(name).trim()
    palette.set(name, value)
    return value
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0)
  context.clearRect(0, 0, width, height)
  context.setTransform(ratio * view.scale, 0, 0, ratio * view.scale, ratio * view.x, ratio * view.y)
  const seen = {
    left: -view.x / view.scale - NODE.width,
    top: -view.y / view.scale - NODE.height,
    right: (width - view.x) / view.scale,
    bottom: (height - view.y) / view.scale,
  }
  paintEdges(context, graph.edges, places, seen, of('--line-strong'), view.scale)
  const hasText = view.scale >= TEXT_SCALE
  const hasNamespaces = graph.nodes.some(({ namespace }) => namespace !== graph.nodes[0]?.namespace)
  context.font = '13px system-ui, sans-serif'
  context.textBaseline = 'middle'
  const marks = new Path2D()
  for (const node of graph.nodes) {
    const place = places.get(node.id)
    if (place === undefined) continue
    const { x, y } = place
    if (x < seen.left || x > seen.right || y < seen.top || y > seen.bottom) continue
    if (node.id === chosen || found.has(node.id)) marks.rect(x, y, NODE.width, NODE.height)
    context.fillStyle = hasText ? of('--surface') : of(colourOf(node, colour))
    context.fillRect(x, y, NODE.width, NODE.height)
    if (!hasText) continue
    context.lineWidth = 1
    context.strokeStyle = of('--line-strong')
    context.strokeRect(x, y, NODE.width, NODE.height)
    context.fillStyle = of(colourOf(node, colour))
    context.fillRect(x, y, 6, NODE.height)
    context.fillStyle = of('--text')
    paintText(context, node.name, x, y + 14)
    context.fillStyle = node.type === 'landing_zone' ? of('--muted') : of(`--${node.layer}`)
    const kind = node.type === 'landing_zone' ? 'landing zone' : `${node.layer} ${node.type}`
    const text = hasNamespaces ? `${kind}, ${node.namespace}` : kind
    paintText(context, text, x, y + 30)
  }
  context.lineWidth = 3 / Math.min(1, view.scale)
  context.strokeStyle = of('--focus')
  context.stroke(marks)
}

/** One line of a node whose left border is at `x`. A text that is too wide for the node ends with an ellipsis. */
function paintText(context: CanvasRenderingContext2D, text: string, x: number, y: number): void {
  const width = NODE.width - TEXT_INSET.left - TEXT_INSET.right
  const full = context.measureText(text).width
  let shown = text
  // The first length is a guess by the mean width of a character.
  for (
    let length = Math.floor((text.length * width) / full);
    context.measureText(shown).width > width;
    length--
  )
    shown = `${text.slice(0, length)}…`
  context.fillText(shown, x + TEXT_INSET.left, y)
}

interface Box {
  left: number
  top: number
  right: number
  bottom: number
}

/** All edges as one path, which is much faster than a path for each. */
function paintEdges(
  context: CanvasRenderingContext2D,
  edges: readonly DirectedEdge[],
  places: ReadonlyMap<string, Place>,
  seen: Box,
  colour: string,
  scale: number,
): void {
  const lines: [Place, Place][] = []
  for (const { source, target } of edges) {
    const [from, to] = [places.get(source), places.get(target)]
    if (from === undefined || to === undefined) continue
    const isOut =
      Math.max(from.x, to.x) < seen.left ||
      Math.min(from.x, to.x) > seen.right ||
      Math.max(from.y, to.y) < seen.top ||
      Math.min(from.y, to.y) > seen.bottom
    if (!isOut) lines.push([from, to])
  }
  const step = Math.ceil(lines.length / EDGES_DRAWN)
  context.beginPath()
  for (const [index, [from, to]] of lines.entries()) {
    if (index % step > 0) continue
    const [x1, y1, x2, y2] = [from.x + NODE.width, from.y + NODE.height / 2, to.x, to.y + NODE.height / 2]
    const middle = (x1 + x2) / 2
    context.moveTo(x1, y1)
    if (scale < TEXT_SCALE) context.lineTo(x2, y2)
    else context.bezierCurveTo(middle, y1, middle, y2, x2, y2)
  }
  context.strokeStyle = colour
  context.lineWidth = 1 / Math.max(0.3, scale)
  context.globalAlpha = 0.6
  context.stroke()
  context.globalAlpha = 1
}
