// A statechart as SVG. Every state carries its path and every transition its id, so that a page can highlight them.
import { drawingStyle } from './chart-style.ts'
import { CREATED, isWithin } from './definitions.ts'
import { heightOf, LABEL, type LabelLine, type Point } from './edge-labels.ts'
import {
  type Box,
  type Layout,
  layOut,
  type PlacedEdge,
  type PlacedGroup,
  type PlacedState,
} from './layout.ts'
import type { Definition, Detail, MachineName } from './schema.ts'

export interface DrawingOptions {
  detail: Detail
  /** A standalone drawing contains its styles; any other drawing needs the styles of a page. */
  isStandalone: boolean
  /** Path of the highlighted state. Its enclosing states are highlighted too. */
  active?: string | null
  /** Id of the highlighted transition. */
  taken?: string | null
  /** Number of instances in each state, by path. */
  counts?: ReadonlyMap<string, string>
  title?: string
}

const layouts = new Map<string, Layout>()

function layoutOf(definition: Definition, detail: Detail): Layout {
  const key = `${definition.machine} ${detail}`
  const cached = layouts.get(key)
  if (cached !== undefined) return cached
  const layout = layOut(definition, detail)
  layouts.set(key, layout)
  return layout
}

/** The drawing as text. The layout is computed once for each machine and detail. */
export function drawingOf(definition: Definition, options: DrawingOptions): string {
  const { top, width, height, compounds, states, groups, initials, edges } = layoutOf(
    definition,
    options.detail,
  )
  const { isStandalone, taken = null, counts } = options
  const active = options.active ?? null
  const title = options.title ?? `Statechart of ${ARTICLE[definition.machine]}`
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 ${top} ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escaped(title)}" data-machine="${definition.machine}">`,
    `<title>${escaped(title)}</title>`,
    isStandalone ? `<style>${drawingStyle()}</style>` : '',
    isStandalone ? `<rect class="paper" y="${top}" width="${width}" height="${height}" rx="12"/>` : '',
    ...compounds.map((placed) => compound(placed, active)),
    ...groups.map(group),
    ...initials.map((mark) => initial(mark, isWithin(definition.initial, mark.target), taken)),
    ...edges.map((edge) => way(edge, taken)),
    ...edges.map((edge) => label(edge, taken, compounds)),
    ...states.map((placed) => stateBox(placed, active, counts)),
    '</svg>\n',
  ]
    .filter((part) => part !== '')
    .join('\n')
}

const ARTICLE: Record<MachineName, string> = { run: 'a run', draft: 'a draft', trigger: 'a trigger' }

const isActive = (path: string, active: string | null) => active !== null && isWithin(active, path)

function compound({ state, ...box }: PlacedState, active: string | null) {
  const classes = isActive(state.path, active) ? 'compound active' : 'compound'
  return `<g class="${classes}" data-state="${state.path}"><title>${escaped(`${state.path}: ${state.description}`)}</title>${rect(box, 12)}<text x="${n(box.x + 12)}" y="${n(box.y + 18)}">${escaped(state.name)}</text></g>`
}

const group = ({ members, ...box }: PlacedGroup) =>
  `<g class="group" data-members="${members.join(' ')}"><title>${escaped(`Arrows from this box leave each of ${members.join(', ')}`)}</title>${rect(box, 10)}</g>`

function stateBox(
  { state, ...box }: PlacedState,
  active: string | null,
  counts: ReadonlyMap<string, string> | undefined,
) {
  const radius = state.kind === 'final' ? 18 : 9
  const classes = ['state', state.kind, ...(isActive(state.path, active) ? ['active'] : [])].join(' ')
  const inner = state.kind === 'final' ? rect(grown(box, -3.5), radius - 3.5, 'inner') : ''
  const middle = { x: box.x + box.width / 2, y: box.y + box.height / 2 }
  return `<g class="${classes}" data-state="${state.path}"><title>${escaped(`${state.path}: ${state.description}`)}</title>${rect(grown(box, 5), radius + 5, 'halo')}${rect(box, radius)}${inner}<text x="${n(middle.x)}" y="${n(middle.y + 4.5)}">${escaped(state.name)}</text>${badge(box, counts?.get(state.path) ?? '')}</g>`
}

/** A badge across the upper right corner. Without a count the badge is empty, so that a page can fill it. */
function badge(box: Box, count: string) {
  const width = badgeWidth(count)
  const right = box.x + box.width + 8
  const classes = count === '' || count === '0' ? 'badge none' : 'badge'
  return `<g class="${classes}" data-right="${n(right)}">${rect({ x: right - width, y: box.y - 11, width, height: 20 }, 10)}<text x="${n(right - width / 2)}" y="${n(box.y + 3)}">${escaped(count)}</text></g>`
}

const badgeWidth = (count: string) => Math.max(22, 12 + count.length * 7)

/**
 * A new instance takes the arrows that lead to the innermost initial state. Other initial arrows apply when their box is
 * entered.
 */
function initial({ dot, points }: Layout['initials'][number], isFirst: boolean, taken: string | null) {
  const classes = isFirst && taken === CREATED ? 'way initial taken' : 'way initial'
  return `<g class="${classes}" data-transitions="${isFirst ? CREATED : ''}"><circle class="dot" cx="${n(dot.x)}" cy="${n(dot.y)}" r="5"/>${arrow(points, throughCurve)}</g>`
}

function way({ transitions, points, isLoop, label }: PlacedEdge, taken: string | null) {
  const ids = transitions.flat().map(({ id }) => id)
  const classes = taken !== null && ids.includes(taken) ? 'way taken' : 'way'
  return `<g class="${classes}" data-transitions="${escaped(ids.join(' '))}">${arrow(points, isLoop ? loopCurve : label.lines.length > 0 ? throughCurve : looseCurve)}</g>`
}

function label({ label: placed }: PlacedEdge, taken: string | null, compounds: PlacedState[]) {
  const middle = { x: placed.x + placed.width / 2, y: placed.y + placed.height / 2 }
  const isIn = compounds.some((box) => contains(box, middle))
  let y = placed.y + LABEL.padY
  const lines = placed.lines.map((line) => {
    y += heightOf(line)
    return textLine(line, { x: middle.x, y: y - 4 }, taken)
  })
  return `<g class="label${isIn ? ' in' : ''}">${rect(placed, 5)}${lines.join('')}</g>`
}

function textLine({ transitions, kind, text, guard }: LabelLine, { x, y }: Point, taken: string | null) {
  const ids = transitions.map(({ id }) => id)
  const classes = taken !== null && ids.includes(taken) ? 'line taken' : 'line'
  const behind = guard === '' ? '' : ` <tspan class="guard">${escaped(guard)}</tspan>`
  return `<g class="${classes}" data-transitions="${escaped(ids.join(' '))}"><text x="${n(x)}" y="${n(y)}"><tspan class="${kind}">${escaped(text)}</tspan>${behind}</text></g>`
}

const HEAD = 7

/**
 * A line with an arrowhead. The line ends where the head begins. The head points up or down; the head of a loop points
 * sideways.
 */
function arrow(points: Point[], curve: (points: Point[]) => string) {
  const end = points.at(-1)
  const before = points.at(-2)
  if (end === undefined || before === undefined) return ''
  const [ux, uy] = curve === loopCurve ? [-1, 0] : [0, end.y < before.y ? -1 : 1]
  const neck = { x: end.x - ux * HEAD, y: end.y - uy * HEAD }
  const corner = (side: number) => `${n(neck.x - uy * side)},${n(neck.y + ux * side)}`
  const line = [...points.slice(0, -1), neck]
  return `<path d="${curve(line)}"/><polygon class="head" points="${n(end.x)},${n(end.y)} ${corner(3.6)} ${corner(-3.6)}"/>`
}

/** A curve through every point with vertical tangents. Arrows flow from top to bottom, through the middle of their labels. */
function throughCurve(points: Point[]): string {
  const [first, ...others] = points
  if (first === undefined) return ''
  let last = first
  const parts = others.map((point) => {
    const middle = (last.y + point.y) / 2
    const from = last
    last = point
    if (Math.abs(from.x - point.x) < 0.1) return `L${at(point)}`
    return `C${n(from.x)} ${n(middle)} ${n(point.x)} ${n(middle)} ${at(point)}`
  })
  return `M${at(first)}${parts.join('')}`
}

/** A uniform cubic B-spline, for arrows without labels. The curve only passes near its inner points. */
function looseCurve(points: Point[]): string {
  const [first, second] = points
  const last = points.at(-1)
  if (first === undefined || second === undefined || last === undefined) return ''
  if (points.length === 2) return throughCurve(points)
  const parts = [`M${at(first)}L${at(mix(first, second, 1 / 6))}`]
  for (const [index, point] of points.entries()) {
    const [before, after] = [points[index - 1], points[index + 1]]
    if (before === undefined || after === undefined) continue
    const knot = mix(mix(before, after, 1 / 2), point, 2 / 3)
    parts.push(`C${at(mix(before, point, 1 / 3))} ${at(mix(before, point, 2 / 3))} ${at(knot)}`)
  }
  const beforeLast = points.at(-2) ?? first
  return `${parts.join('')}C${at(mix(beforeLast, last, 1 / 3))} ${at(mix(beforeLast, last, 2 / 3))} ${at(last)}`
}

const mix = (a: Point, b: Point, part: number): Point => ({
  x: a.x + (b.x - a.x) * part,
  y: a.y + (b.y - a.y) * part,
})

/** A loop beside a state. */
function loopCurve([start, far, back, end]: Point[]): string {
  if (start === undefined || far === undefined || back === undefined || end === undefined) return ''
  return `M${at(start)}C${at(far)} ${at(back)} ${at(end)}`
}

const rect = ({ x, y, width, height }: Box, radius: number, name = '') =>
  `<rect${name === '' ? '' : ` class="${name}"`} x="${n(x)}" y="${n(y)}" width="${n(width)}" height="${n(height)}" rx="${radius}"/>`

const grown = ({ x, y, width, height }: Box, by: number): Box => ({
  x: x - by,
  y: y - by,
  width: width + 2 * by,
  height: height + 2 * by,
})

const contains = (box: Box, { x, y }: Point) =>
  x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height

const at = ({ x, y }: Point) => `${n(x)} ${n(y)}`
/** A tenth of a pixel is precise enough, and makes drawings identical on every platform. */
const n = (value: number) => String(Math.round(value * 10) / 10)

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
const escaped = (text: string) => text.replace(/[&<>"]/g, (letter) => ENTITIES[letter] ?? letter)
