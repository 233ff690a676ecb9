// A statechart in the page: the service draws it, and the page highlights, counts, moves and enlarges it.
import type { Counts, MachineName } from '../../api/inspector.ts'
import { countText, toneOf } from './state.tsx'

/** A highlighted state with its enclosing states, and the transition that led there. */
export interface Lit {
  active: string | null
  taken: string | null
}

interface Point {
  x: number
  y: number
}
export interface View extends Point {
  width: number
  height: number
}

/** The least width of the visible part, in units of the drawing. */
const WIDTH_MIN = 120
const MARGIN = 1.5
/** A badge grows with its digits, as in `app/inspector/drawing.ts`. */
const BADGE = { min: 22, padding: 12, perCharacter: 7 }

export class Drawing {
  readonly svg: SVGSVGElement
  readonly home: View
  view: View

  constructor(machine: MachineName, text: string) {
    const { documentElement } = new DOMParser().parseFromString(text, 'image/svg+xml')
    this.svg = document.importNode(documentElement, true) as unknown as SVGSVGElement
    this.svg.removeAttribute('width')
    this.svg.removeAttribute('height')
    for (const state of this.#states()) state.dataset.tone = toneOf(machine, state.dataset.state ?? '')
    // Screen readers and tests read the number as a word of its own.
    for (const badge of this.svg.querySelectorAll('.badge')) badge.before(' ')
    const { x, y, width, height } = this.svg.viewBox.baseVal
    this.home = { x, y, width, height }
    this.view = this.home
  }

  #states(): NodeListOf<SVGGElement> {
    return this.svg.querySelectorAll('[data-state]')
  }

  show(view: View): void {
    this.view = view
    this.svg.setAttribute('viewBox', `${view.x} ${view.y} ${view.width} ${view.height}`)
  }

  /** States are buttons where a click on them means something. Otherwise the drawing is one picture. */
  setPickable(isPickable: boolean, label: string): void {
    this.svg.setAttribute('role', isPickable ? 'group' : 'img')
    this.svg.setAttribute('aria-label', label)
    for (const state of this.#states()) {
      if (isPickable) {
        state.setAttribute('role', 'button')
        state.setAttribute('tabindex', '0')
      } else for (const name of ['role', 'tabindex']) state.removeAttribute(name)
    }
  }

  light({ active, taken }: Lit): void {
    for (const state of this.#states()) {
      const path = state.dataset.state ?? ''
      state.classList.toggle('active', active !== null && (active === path || active.startsWith(`${path}.`)))
    }
    for (const part of this.svg.querySelectorAll<SVGGElement>('[data-transitions]'))
      part.classList.toggle(
        'taken',
        taken !== null && (part.dataset.transitions ?? '').split(' ').includes(taken),
      )
    if (active !== null) this.#bringIntoView(active)
  }

  /** In an enlarged drawing, a step may highlight a state out of view. Then the drawing moves to that state. */
  #bringIntoView(path: string): void {
    const { view } = this
    const state = this.svg.querySelector<SVGGElement>(`.state[data-state="${CSS.escape(path)}"]`)
    const box = state?.getBBox()
    if (box === undefined || box.width === 0) return
    const isSeen =
      box.x >= view.x &&
      box.y >= view.y &&
      box.x + box.width <= view.x + view.width &&
      box.y + box.height <= view.y + view.height
    if (isSeen) return
    this.show({
      ...view,
      x: box.x + (box.width - view.width) / 2,
      y: box.y + (box.height - view.height) / 2,
    })
  }

  /** Shows the number of instances in each state; null: no numbers. */
  count(counts: Counts | null): void {
    for (const state of this.#states()) {
      const path = state.dataset.state ?? ''
      const counted = counts?.[path]
      const text = counted === undefined || counted.count === 0 ? '' : countText(counted)
      if (state.getAttribute('role') === 'button')
        state.setAttribute('aria-label', counted ? `${path} ${countText(counted)} instances` : path)
      const badge = state.querySelector<SVGGElement>('.badge')
      if (badge !== null) setBadge(badge, text)
    }
  }

  /** Enlarges by a factor around a point of the drawing, or around the middle of the visible part. */
  zoom(factor: number, around?: Point): void {
    const { view, home } = this
    const { x, y } = around ?? { x: view.x + view.width / 2, y: view.y + view.height / 2 }
    const width = Math.min(Math.max(view.width / factor, WIDTH_MIN), home.width * MARGIN)
    const real = view.width / width
    this.show({ x: x - (x - view.x) / real, y: y - (y - view.y) / real, width, height: view.height / real })
  }

  /** The position of an event in the drawing. */
  pointOf({ clientX, clientY }: { clientX: number; clientY: number }): Point {
    const { x, y } = new DOMPoint(clientX, clientY).matrixTransform(this.svg.getScreenCTM()?.inverse())
    return { x, y }
  }
}

/** The path of the state at which an event occurred. */
export const stateAt = (target: EventTarget): string | undefined =>
  target instanceof Element ? target.closest<SVGElement>('[data-state]')?.dataset.state : undefined

/** The size of a drawing at its full scale. */
export function sizeOf(text: string): { width: number; height: number } {
  const [, width = '0', height = '0'] = /\bwidth="([\d.]+)" height="([\d.]+)"/.exec(text) ?? []
  return { width: Number(width), height: Number(height) }
}

function setBadge(badge: SVGGElement, text: string): void {
  badge.classList.toggle('none', text === '')
  const label = badge.querySelector('text')
  const rect = badge.querySelector('rect')
  if (label === null || rect === null || label.textContent === text) return
  const right = Number(badge.dataset.right)
  const width = Math.max(BADGE.min, BADGE.padding + text.length * BADGE.perCharacter)
  label.textContent = text
  label.setAttribute('x', String(right - width / 2))
  rect.setAttribute('width', String(width))
  rect.setAttribute('x', String(right - width))
}
