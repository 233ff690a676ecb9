// Measures the texts of a page where the browser has set them.
import type { Page } from '@playwright/test'

/** The faults of the layout at the present size, each with the text or the element that has it. */
export const faultsOfLayout = (page: Page): Promise<string[]> => page.evaluate(measure)

declare global {
  interface Window {
    /** Texts of drawings that leave their box. */
    drawnOutside?: Set<string>
  }
}

/** Before the page loads: looks at the texts that a drawing sets into the box that it has drawn before. */
export const watchDrawings = (page: Page) =>
  page.addInitScript(() => {
    const outside = new Set<string>()
    window.drawnOutside = outside
    const { fillText, strokeRect } = CanvasRenderingContext2D.prototype
    let right = Number.POSITIVE_INFINITY
    CanvasRenderingContext2D.prototype.strokeRect = function (x, y, width, height) {
      right = x + width
      strokeRect.call(this, x, y, width, height)
    }
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
      if (x + this.measureText(text).width > right) outside.add(text)
      fillText.call(this, text, x, y)
    }
  })

/** Runs in the page. */
function measure(): string[] {
  /** A fraction of a pixel is rounding. */
  const SLACK = 1.5
  /** Fewer characters than this in each of several lines is text set by the letter. */
  const LINE_CHARACTERS = 4
  const faults = [...(window.drawnOutside ?? [])].map((text) => `leaves the box of its drawing: "${text}"`)
  const named = (element: Element) =>
    `${element.tagName.toLowerCase()}${[...element.classList].map((name) => `.${name}`).join('')}`
  const pathOf = (element: Element | null): string =>
    element === null || element.id === 'root' ? '' : `${pathOf(element.parentElement)} ${named(element)}`
  const short = (text: string) => text.trim().replace(/\s+/g, ' ').slice(0, 40)

  const root = document.scrollingElement ?? document.documentElement
  if (root.scrollWidth > root.clientWidth) faults.push(`the document is ${root.scrollWidth} px wide`)
  if (root.scrollHeight > root.clientHeight) faults.push(`the document is ${root.scrollHeight} px high`)
  const main = document.querySelector('main')
  if (main && main.scrollWidth > main.clientWidth)
    faults.push(`main scrolls sideways: ${main.scrollWidth} px in ${main.clientWidth} px`)

  interface Line {
    box: DOMRect
    text: string
    element: Element
  }
  const lines: Line[] = []
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const text = node.textContent ?? ''
    const element = node.parentElement
    if (element === null || text.trim() === '' || !isShown(element)) continue
    const range = document.createRange()
    range.selectNodeContents(node)
    const boxes = [...range.getClientRects()].filter(({ width, height }) => width > 0 && height > 0)
    const tops = new Set(boxes.map(({ top }) => Math.round(top)))
    if (tops.size > 2 && text.trim().length / tops.size < LINE_CHARACTERS)
      faults.push(`by the letter: "${short(text)}" in${pathOf(element)}`)
    for (const box of boxes) {
      const seen = inContainers(box, element, text)
      if (seen !== null) lines.push({ box: seen, text, element })
    }
  }
  overlaps()
  columns()
  return [...new Set(faults)]

  function isShown(element: Element): boolean {
    if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) return false
    if (element.closest('.skip, script, style, option, noscript')) return false
    for (let at: Element | null = element; at !== null; at = at.parentElement)
      if (getComputedStyle(at).clipPath !== 'none') return false
    return true
  }

  /** The part of a line that its containers show; null: none of it. A line that leaves a container is a fault. */
  function inContainers(box: DOMRect, element: Element, text: string): DOMRect | null {
    let { left, right, top, bottom } = box
    for (let at: Element | null = element; at !== null && at !== document.body; at = containerOf(at)) {
      const style = getComputedStyle(at)
      if (style.display === 'inline' || style.display === 'contents' || at instanceof SVGElement) continue
      const around = at.getBoundingClientRect()
      const clips = style.overflowX !== 'visible'
      // The space at the end of a line hangs over its edge.
      const space = style.whiteSpace === 'pre-wrap' ? Number.parseFloat(style.fontSize) : 0
      if (!clips && (left < around.left - SLACK || right > around.right + SLACK + space)) {
        faults.push(`leaves ${named(at)}: "${short(text)}" in${pathOf(element)}`)
        return null
      }
      if (!clips) continue
      const isCut = style.overflowX === 'hidden' || style.overflowX === 'clip'
      if (isCut && right > around.right + SLACK && style.textOverflow !== 'ellipsis') {
        faults.push(`cut by ${named(at)}: "${short(text)}" in${pathOf(element)}`)
        return null
      }
      left = Math.max(left, around.left)
      right = Math.min(right, around.right)
      top = Math.max(top, around.top)
      bottom = Math.min(bottom, around.bottom)
      if (right <= left || bottom <= top) return null
    }
    return new DOMRect(left, top, right - left, bottom - top)
  }

  /** The element in which another one is placed. For an absolute or fixed element, this is not always the parent. */
  function containerOf(element: Element): Element | null {
    const { position } = getComputedStyle(element)
    if (position === 'fixed') return null
    return position === 'absolute' && element instanceof HTMLElement
      ? element.offsetParent
      : element.parentElement
  }

  /** Whether the element stands above the page on purpose: a dialog, a sticky head, a button over code. */
  function isRaised(element: Element): boolean {
    for (let at: Element | null = element; at !== null; at = at.parentElement)
      if (['fixed', 'sticky'].includes(getComputedStyle(at).position)) return true
    return false
  }

  function overlaps() {
    const flat = lines.filter(({ element }) => !isRaised(element)).sort((a, b) => a.box.top - b.box.top)
    for (const [index, { box, text, element }] of flat.entries())
      for (let next = index + 1; next < flat.length; next++) {
        const other = flat[next] as Line
        if (other.box.top > box.bottom) break
        if (other.element === element) continue
        const wide = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left)
        const high = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top)
        // Boxes of lines are higher than their letters.
        if (wide > SLACK && high > Math.min(box.height, other.box.height) / 3)
          faults.push(`overlap: "${short(text)}" and "${short(other.text)}" in${pathOf(element)}`)
      }
  }

  /** Each cell of a row begins where the head of its column begins. */
  function columns() {
    for (const table of document.querySelectorAll('[role=table], table')) {
      const rows = [...table.querySelectorAll('[role=row], tr')].map((row) =>
        [...row.children].map((cell) => Math.round(cell.getBoundingClientRect().left)),
      )
      const [head = [], ...others] = rows
      for (const row of others)
        if (row.length === head.length && row.some((left, index) => Math.abs(left - (head[index] ?? 0)) > 1))
          faults.push(`a row leaves its columns: ${row} below ${head} in${pathOf(table)}`)
    }
  }
}
