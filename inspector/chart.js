// The statechart on the page: the server draws the chart, and this file highlights parts of the chart.
import { getText, save } from './api.js'
import { $, countText, h, toneOf } from './elements.js'

/** @type {[string, string][]} */
const DETAILS = [
  ['states', 'States'],
  ['events', 'Events'],
  ['full', 'Full'],
]
/** Labels are unreadable below this scale. */
const READABLE = 0.72

/** @typedef {{ x: number, y: number, width: number, height: number }} Box */

/** @type {Map<string, Document>} */
const drawings = new Map()
/** @type {HTMLElement} */
const canvas = $('canvas')
/** @type {SVGSVGElement | null} the drawing; null before the first drawing is loaded */
let svg = null
let shown = ''
/** @type {Box} */
let home = { x: 0, y: 0, width: 0, height: 0 }
/** @type {Box | null} */
let view = null
/** @type {(state: string) => void} */
let onState = () => {}
/** @type {import('./types.js').Counts | null} */
let counts = null
/** @type {{ active: string | null, taken: string | null }} */
let lit = { active: null, taken: null }
/** @type {Record<string, string>} */
let chosen = {}

/**
 * Draws a machine, unless the machine is already drawn. `pick` gets the path of a clicked state.
 * @param {string} machine
 * @param {((state: string) => void) | null} pick
 */
export async function showChart(machine, pick) {
  onState = pick ?? (() => {})
  canvas.classList.toggle('pickable', pick !== null)
  const detail = chosen[machine] ?? (await fitting(machine))
  markDetail(machine, detail)
  if (shown === `${machine} ${detail}`) return refresh()
  const drawing = await draw(machine, detail)
  shown = `${machine} ${detail}`
  /** @type {any} */
  const root = drawing.documentElement
  svg = /** @type {SVGSVGElement} */ (document.importNode(root, true))
  svg.removeAttribute('width')
  svg.removeAttribute('height')
  for (const state of statesOf(svg)) {
    state.setAttribute('tabindex', '0')
    state.setAttribute('role', 'button')
    state.dataset.tone = toneOf(machine, state.dataset.state ?? '')
  }
  canvas.replaceChildren(svg)
  const { x, y, width, height } = svg.viewBox.baseVal
  home = { x, y, width, height }
  setView(home)
  refresh()
}

/**
 * The most detailed level whose labels are readable in the available space.
 * @param {string} machine
 */
async function fitting(machine) {
  for (const [detail] of DETAILS.toReversed()) {
    const { documentElement } = await draw(machine, detail)
    const scale = Math.min(
      canvas.clientWidth / Number(documentElement.getAttribute('width')),
      canvas.clientHeight / Number(documentElement.getAttribute('height')),
    )
    if (scale >= READABLE) return detail
  }
  return 'states'
}

/**
 * @param {string} machine
 * @param {string} detail
 */
async function draw(machine, detail) {
  const key = `${machine} ${detail}`
  if (!drawings.has(key)) {
    const text = await getText(`inspector/machines/${machine}.svg?style=none&detail=${detail}`)
    drawings.set(key, new DOMParser().parseFromString(text, 'image/svg+xml'))
  }
  return /** @type {Document} */ (drawings.get(key))
}

/**
 * @param {string} machine
 * @param {string} detail
 */
function markDetail(machine, detail) {
  $('detail').replaceChildren(
    ...DETAILS.map(([name, label]) =>
      h(
        'button',
        {
          type: 'button',
          role: 'radio',
          'aria-checked': String(name === detail),
          onclick: () => {
            chosen = { ...chosen, [machine]: name }
            void showChart(machine, canvas.classList.contains('pickable') ? onState : null)
          },
        },
        label,
      ),
    ),
  )
}

/**
 * Highlights a state with its enclosing states, and the transition that led there.
 * @param {{ active: string | null, taken: string | null }} states
 */
export function light({ active, taken }) {
  const isNew = lit.active !== active
  lit = { active, taken }
  refresh()
  if (isNew && active !== null) bringIntoView(active)
}

/**
 * In an enlarged chart, a step may highlight a state out of view. Then the chart moves to that state.
 * @param {string} path
 */
function bringIntoView(path) {
  /** @type {SVGGraphicsElement | null | undefined} */
  const state = svg?.querySelector(`.state[data-state="${CSS.escape(path)}"]`)
  const box = state?.getBBox()
  if (!box || view === null) return
  const isSeen =
    box.x >= view.x &&
    box.y >= view.y &&
    box.x + box.width <= view.x + view.width &&
    box.y + box.height <= view.y + view.height
  if (isSeen) return
  setView({ ...view, x: box.x + (box.width - view.width) / 2, y: box.y + (box.height - view.height) / 2 })
}

/**
 * Shows the number of instances in each state; null: no numbers.
 * @param {import('./types.js').Counts | null} byState
 */
export function showCounts(byState) {
  counts = byState
  refresh()
}

function refresh() {
  if (svg === null) return
  const { active, taken } = lit
  for (const state of statesOf(svg)) {
    const path = state.dataset.state ?? ''
    const isActive = active !== null && (active === path || active.startsWith(`${path}.`))
    state.classList.toggle('active', isActive)
    /** @type {SVGElement | null} */
    const badge = state.querySelector('.badge')
    if (badge !== null) setBadge(badge, counts?.[path])
    const count = counts?.[path]
    state.setAttribute('aria-label', count === undefined ? path : `${path}, ${countText(count)} instances`)
  }
  /** @type {NodeListOf<SVGElement>} */
  const parts = svg.querySelectorAll('[data-transitions]')
  for (const part of parts)
    part.classList.toggle('taken', taken !== null && !!part.dataset.transitions?.split(' ').includes(taken))
}

/**
 * @param {SVGSVGElement} drawing
 * @returns {NodeListOf<SVGElement>}
 */
const statesOf = (drawing) => drawing.querySelectorAll('[data-state]')

/**
 * @param {SVGElement} badge
 * @param {import('./types.js').Counted | undefined} counted
 */
function setBadge(badge, counted) {
  const text = counted === undefined || counted.count === 0 ? '' : countText(counted)
  badge.classList.toggle('none', text === '')
  const label = badge.querySelector('text')
  const rect = badge.querySelector('rect')
  if (label === null || rect === null || label.textContent === text) return
  const [right, width] = [Number(badge.dataset.right), Math.max(22, 12 + text.length * 7)]
  label.textContent = text
  label.setAttribute('x', String(right - width / 2))
  rect.setAttribute('width', String(width))
  rect.setAttribute('x', String(right - width))
}

/** @param {Box} next */
function setView(next) {
  view = next
  svg?.setAttribute('viewBox', `${next.x} ${next.y} ${next.width} ${next.height}`)
}

/**
 * Zooms by a factor around a point of the drawing, or around its middle.
 * @param {number} factor
 * @param {{ x: number, y: number }} [around]
 */
function zoom(factor, around) {
  if (view === null) return
  const centre = around ?? { x: view.x + view.width / 2, y: view.y + view.height / 2 }
  const width = Math.min(Math.max(view.width / factor, 120), home.width * 1.5)
  const real = view.width / width
  setView({
    x: centre.x - (centre.x - view.x) / real,
    y: centre.y - (centre.y - view.y) / real,
    width,
    height: view.height / real,
  })
}

/**
 * The position of an event in the drawing.
 * @param {SVGSVGElement} drawing
 * @param {MouseEvent} event
 */
const pointOf = (drawing, event) =>
  new DOMPoint(event.clientX, event.clientY).matrixTransform(drawing.getScreenCTM()?.inverse())

/**
 * The path of the state at which an event occurred.
 * @param {Event} event
 */
function stateAt({ target }) {
  /** @type {SVGElement | null} */
  const state = target instanceof Element ? target.closest('[data-state]') : null
  return state?.dataset.state
}

export function startChart() {
  $('zoom-in').addEventListener('click', () => svg && zoom(1.35))
  $('zoom-out').addEventListener('click', () => svg && zoom(1 / 1.35))
  $('zoom-fit').addEventListener('click', () => svg && setView(home))
  $('save-chart').addEventListener('click', saveChart)
  canvas.addEventListener(
    'wheel',
    (event) => {
      if (svg === null || !(event.ctrlKey || event.metaKey)) return
      event.preventDefault()
      zoom(Math.exp(-event.deltaY / 300), pointOf(svg, event))
    },
    { passive: false },
  )
  /** @type {{ start: { x: number, y: number }, moved: boolean, id: number } | null} */
  let drag = null
  canvas.addEventListener('pointerdown', (event) => {
    if (svg === null || event.button !== 0) return
    drag = { start: pointOf(svg, event), moved: false, id: event.pointerId }
  })
  canvas.addEventListener('pointermove', (event) => {
    if (svg === null || drag === null || view === null) return
    const point = pointOf(svg, event)
    const [dx, dy] = [point.x - drag.start.x, point.y - drag.start.y]
    if (!drag.moved && Math.hypot(dx, dy) < 6) return
    if (!drag.moved) canvas.setPointerCapture(drag.id)
    drag.moved = true
    setView({ ...view, x: view.x - dx, y: view.y - dy })
  })
  canvas.addEventListener('pointerup', (event) => {
    const state = stateAt(event)
    if (drag !== null && !drag.moved && state !== undefined) onState(state)
    drag = null
  })
  canvas.addEventListener('pointercancel', () => {
    drag = null
  })
  canvas.addEventListener('keydown', (event) => {
    const state = stateAt(event)
    if (state === undefined || (event.key !== 'Enter' && event.key !== ' ')) return
    event.preventDefault()
    onState(state)
  })
}

/** Saves the chart with the current highlights and its own styles. */
async function saveChart() {
  if (svg === null) return
  const [machine, detail = ''] = shown.split(' ')
  const query = new URLSearchParams({ detail })
  if (lit.active !== null) query.set('active', lit.active)
  if (lit.taken !== null) query.set('taken', lit.taken)
  if (counts !== null) query.set('counts', '1')
  const text = await getText(`inspector/machines/${machine}.svg?${query}`)
  save(new Blob([text], { type: 'image/svg+xml' }), `${machine}.svg`)
}
