// The rows of the list: only visible rows are in the document, and only chunks around them are loaded.
import { getJson } from './api.js'
import { become, h, pill } from './elements.js'
import { ago, duration, setClock } from './moments.js'

const ROW_HEIGHT = 56
/** Rows per request. */
const CHUNK = 100
const CHUNKS_KEPT = 12

/** @typedef {import('./types.js').Listed} Listed */
/** @typedef {{ element: HTMLElement, text: string, id: string | undefined }} Drawn */

/**
 * @typedef {object} RowsOptions
 * @property {string} machine
 * @property {string} label
 * @property {() => URLSearchParams} query the current search
 * @property {(answer: any) => void} onAnswer
 * @property {(error: Error) => void} onError
 */

/** A scrolling list of any length. */
export class Rows {
  total = 0
  generation = 0
  isStopped = false
  /** @type {Map<number, Listed[]>} */
  chunks = new Map()
  /** @type {Set<number>} */
  loading = new Set()
  /** @type {Map<number, Drawn>} */
  drawn = new Map()

  /** @param {RowsOptions} options */
  constructor({ machine, label, query, onAnswer, onError }) {
    this.machine = machine
    this.query = query
    this.onAnswer = onAnswer
    this.onError = onError
    this.spacer = h('ul.spacer', { 'aria-label': label })
    this.scroller = h('div.scroller', { tabindex: '0', 'aria-label': `${label}, scrollable` }, this.spacer)
    this.scroller.addEventListener('scroll', () => requestAnimationFrame(() => this.draw()), {
      passive: true,
    })
    this.resized = new ResizeObserver(() => this.draw())
    this.resized.observe(this.scroller)
  }

  /** @param {number} index */
  async load(index) {
    if (this.loading.has(index)) return
    this.loading.add(index)
    const mine = this.generation
    try {
      const params = this.query()
      params.set('limit', String(CHUNK))
      params.set('offset', String(index * CHUNK))
      const answer = await getJson(`inspector/${this.machine}/instances?${params}`)
      if (this.isStopped || mine !== this.generation) return
      setClock(answer.now)
      this.chunks.set(index, answer.instances)
      if (this.chunks.size > CHUNKS_KEPT) this.removeFarthest(index)
      this.total = answer.total
      this.onAnswer(answer)
      this.draw()
    } catch (error) {
      if (!this.isStopped) this.onError(/** @type {Error} */ (error))
    } finally {
      this.loading.delete(index)
    }
  }

  /** @param {number} index */
  removeFarthest(index) {
    const [far] = [...this.chunks.keys()].sort((a, b) => Math.abs(b - index) - Math.abs(a - index))
    if (far !== undefined) this.chunks.delete(far)
  }

  /** Draws the visible rows, and a few rows around them. */
  draw() {
    const { scrollTop, clientHeight } = this.scroller
    this.spacer.style.height = `${this.total * ROW_HEIGHT}px`
    const first = Math.max(0, Math.floor(scrollTop / ROW_HEIGHT) - 5)
    const last = Math.min(this.total - 1, Math.ceil((scrollTop + clientHeight) / ROW_HEIGHT) + 5)
    for (const [index, row] of this.drawn) {
      if (index >= first && index <= last) continue
      row.element.remove()
      this.drawn.delete(index)
    }
    for (let index = first; index <= last; index++) this.drawRow(index)
  }

  /** @param {number} index */
  drawRow(index) {
    const chunk = Math.floor(index / CHUNK)
    const instance = this.chunks.get(chunk)?.[index - chunk * CHUNK]
    if (!this.chunks.has(chunk)) void this.load(chunk)
    const text = instance === undefined ? '' : JSON.stringify(instance)
    const drawnRow = this.drawn.get(index)
    if (drawnRow?.text === text) return
    const element = rowOf(this.machine, instance, index)
    element.style.top = `${index * ROW_HEIGHT}px`
    const id = instance?.id
    // A row of another instance is a new element, so that a press on the old row does not count for the new row.
    if (drawnRow !== undefined && drawnRow.id === id) {
      become(drawnRow.element, element)
      this.drawn.set(index, { ...drawnRow, text })
      return
    }
    const hadFocus = drawnRow?.element.contains(document.activeElement) ?? false
    if (drawnRow === undefined) this.spacer.append(element)
    else drawnRow.element.replaceWith(element)
    if (hadFocus) element.querySelector('a')?.focus({ preventScroll: true })
    this.drawn.set(index, { element, text, id })
  }

  /** Reloads the visible chunks, and removes the others. */
  refresh() {
    const { scrollTop, clientHeight } = this.scroller
    const first = Math.floor(scrollTop / ROW_HEIGHT / CHUNK)
    const last = Math.floor((scrollTop + clientHeight) / ROW_HEIGHT / CHUNK)
    for (const index of [...this.chunks.keys()]) if (index < first || index > last) this.chunks.delete(index)
    for (let index = first; index <= last; index++) void this.load(index)
  }

  /** @param {number} index */
  focus(index) {
    const { scroller } = this
    const top = index * ROW_HEIGHT
    if (top < scroller.scrollTop) scroller.scrollTop = top
    else if (top + ROW_HEIGHT > scroller.scrollTop + scroller.clientHeight)
      scroller.scrollTop = top + ROW_HEIGHT - scroller.clientHeight
    this.draw()
    this.drawn.get(index)?.element.querySelector('a')?.focus({ preventScroll: true })
  }

  /** Removes all rows before another search. */
  clear() {
    this.generation += 1
    this.chunks.clear()
    this.loading.clear()
    for (const { element } of this.drawn.values()) element.remove()
    this.drawn.clear()
    this.scroller.scrollTop = 0
  }

  stop() {
    this.isStopped = true
    this.resized.disconnect()
  }
}

/**
 * @param {string} machine
 * @param {Listed | undefined} instance
 * @param {number} index
 */
function rowOf(machine, instance, index) {
  if (instance === undefined)
    return h('li.row.pending', { data: { index } }, h('span.bone'), h('span.bone.short'))
  const { id, state, namespace, layer, pipeline, note, attempt, created_at, moved_at, duration_ms } = instance
  return h(
    'li.row',
    { data: { index } },
    h(
      'a',
      { href: `#/${machine}/${id}`, 'aria-label': `${namespace}.${layer}.${pipeline}, ${state}, ${id}` },
      h('span.cell.state-cell', {}, pill(machine, state)),
      h(
        'span.cell.name-cell',
        {},
        h('span.name', {}, h('span.path', {}, `${namespace}.${layer}.`), pipeline),
        h(
          'span.sub',
          {},
          note,
          attempt !== null && attempt > 1 ? ` · attempt ${attempt}` : '',
          h('code', {}, ` ${id.slice(0, 8)}…${id.slice(-6)}`),
        ),
      ),
      h(
        'span.cell.time-cell',
        {},
        ago(moved_at ?? created_at),
        h('span.sub', {}, duration_ms === null ? '' : `took ${duration(duration_ms)}`),
      ),
    ),
  )
}
