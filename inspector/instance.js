// One instance: its reasons for waiting, its time in each state, and a history to step through, followed live.
import { follow, getJson } from './api.js'
import { light, showChart, showCounts } from './chart.js'
import { $, fill, h, redraw } from './elements.js'
import { factsOf } from './facts.js'
import { headOf, historyOf, lifelineOf, msBetween, stepperOf, tabsOf, waitsOf } from './instance-parts.js'
import { showLog } from './log.js'
import { setClock } from './moments.js'

/** @typedef {import('./types.js').Step} Step */
/** @typedef {import('./types.js').Instance} Instance */

/**
 * @typedef {object} InstanceOptions
 * @property {string} machine
 * @property {import('./types.js').Definition} definition
 * @property {string} id
 * @property {number | null} step the id of a step, or null for the latest
 * @property {string} back address of the list
 * @property {(step: number | null) => void} goTo puts another step into the address
 * @property {(state: import('./types.js').Connection) => void} onConnection
 */

/** Shows an instance until `stop` is called. */
export class InstancePage {
  /** @type {Instance} set before anything is drawn */
  instance = /** @type {any} */ (null)
  /** @type {Step[]} */
  steps = []
  /** @type {{ total: number, is_whole: boolean }} */
  history = { total: 0, is_whole: true }
  tab = 'history'
  isStopped = false
  isBuilt = false
  unfollow = () => {}
  /** @type {(() => void) | null} */
  unlog = null
  parts = {
    head: h('div.head'),
    waits: h('div.waits'),
    facts: h('dl.facts'),
    lifeline: h('div.lifeline', { role: 'group', 'aria-label': 'Time in each state' }),
    stepper: h('div.stepper'),
    tabs: h('div.segments.panels', { role: 'tablist', 'aria-label': 'Panels' }),
    panel: h('div.panel', { id: 'panel' }),
  }

  /** @param {InstanceOptions} options */
  constructor({ machine, definition, id, step, back, goTo, onConnection }) {
    this.machine = machine
    this.definition = definition
    this.id = id
    this.selected = step
    this.back = back
    this.goTo = goTo
    this.onConnection = onConnection
    this.path = `inspector/${machine}/instances/${id}`
    fill($('content'), h('p.summary', { role: 'status' }, 'Loading…'))
    showCounts(null)
    light({ active: null, taken: null })
    void showChart(machine, null)
    document.addEventListener('keydown', this.onKey)
    void this.load()
  }

  async load() {
    try {
      const answer = await getJson(this.path)
      if (this.isStopped) return
      this.setInstance(answer)
      this.steps = answer.history.steps
      this.history = answer.history
      const { selected } = this
      if (selected !== null && !this.steps.some((step) => step.id === selected))
        await this.loadUntil(selected)
      this.build()
      this.watch()
    } catch (error) {
      if (!this.isStopped) this.showGone(/** @type {import('./api.js').ApiError} */ (error))
    }
  }

  /** @param {{ status?: number, message: string }} error */
  showGone(error) {
    this.onConnection('ended')
    fill(
      $('content'),
      h(
        'div.empty',
        {},
        h(
          'h3',
          {},
          error.status === 404 ? 'The instance no longer exists' : 'The instance could not be read',
        ),
        h('p', {}, error.message),
        h('a.primary', { href: this.back }, 'Back to the list'),
      ),
    )
  }

  /** @param {Instance} snapshot */
  setInstance(snapshot) {
    this.instance = snapshot
    setClock(snapshot.now)
  }

  /**
   * Loads earlier steps until the wanted step is loaded, or no earlier step is left.
   * @param {number} wanted
   */
  async loadUntil(wanted) {
    for (let first = this.steps[0]; first !== undefined && first.step > 1 && first.id > wanted; ) {
      const before = first.id
      const { history: earlier } = await getJson(`${this.path}?before=${before}`)
      if (this.isStopped || earlier.steps.length === 0) return
      // Two concurrent loads add the steps only once.
      if (this.steps[0]?.id === before) this.steps = [...earlier.steps, ...this.steps]
      first = this.steps[0]
    }
  }

  hasEarlier() {
    const [first] = this.steps
    return first !== undefined && first.step > 1
  }

  async showEarlier() {
    await this.loadUntil(0)
    this.draw()
  }

  watch() {
    if (!this.instance.live) return this.onConnection('ended')
    this.unfollow = follow(`${this.path}/events`, {
      lastEventId: this.steps.at(-1)?.id ?? 0,
      onState: this.onConnection,
      onEvent: (event, data) => {
        if (event === 'transition') return this.append(data)
        if (event === 'gone') {
          this.showGone({ status: 404, message: data.message })
          return false
        }
        if (event !== 'snapshot') return true
        this.setInstance(data)
        this.draw()
        return data.live
      },
    })
  }

  /** @param {Step} step */
  append(step) {
    const last = this.steps.at(-1)
    if (last !== undefined && step.id <= last.id) return
    if (last !== undefined) last.duration_ms = Math.max(0, msBetween(last.at, step.at))
    this.steps.push(step)
    this.history = { ...this.history, total: step.step }
    this.draw()
  }

  /** Adds the parts once; `draw` updates them. */
  build() {
    this.isBuilt = true
    fill($('content'), Object.values(this.parts))
    this.draw()
    this.reveal()
  }

  /** Scrolls the panel, but never the page, until the current step is visible. */
  reveal() {
    const { panel } = this.parts
    const current = panel.querySelector('[aria-current="true"]')
    if (current === null) return
    const [box, frame] = [current.getBoundingClientRect(), panel.getBoundingClientRect()]
    if (box.top < frame.top) panel.scrollTop -= frame.top - box.top + 8
    else if (box.bottom > frame.bottom) panel.scrollTop += box.bottom - frame.bottom + 8
  }

  /** Index of the selected step. */
  selectedIndex() {
    const index = this.steps.findIndex((step) => step.id === this.selected)
    return this.selected === null || index === -1 ? this.steps.length - 1 : index
  }

  /** @param {number} index */
  select(index) {
    const target = this.steps[Math.min(Math.max(index, 0), this.steps.length - 1)]
    if (target === undefined) return
    const next = target === this.steps.at(-1) ? null : target.id
    if (next === this.selected) return
    this.selected = next
    this.goTo(next)
    this.draw()
    this.reveal()
  }

  /** Selects the first kept step, and loads that step if necessary. */
  async selectFirst() {
    await this.loadUntil(0)
    if (!this.isStopped) this.select(0)
  }

  /**
   * Moves forward or back by a number of steps, even before the first loaded step.
   * @param {number} by
   */
  async move(by) {
    const wanted = this.steps[this.selectedIndex()]?.id
    if (wanted === undefined) return
    if (by < 0 && this.selectedIndex() === 0) await this.loadUntil(wanted - 1)
    if (!this.isStopped) this.select(this.steps.findIndex((step) => step.id === wanted) + by)
  }

  draw() {
    const { parts, instance, machine, definition } = this
    if (!this.isBuilt || !$('content').contains(parts.head)) return
    const isLatest = this.selected === null
    const current = this.steps[this.selectedIndex()]
    const state = isLatest ? instance.state : (current?.to ?? instance.state)
    light({ active: state, taken: current?.transition ?? null })
    $('chart-title').textContent =
      isLatest || current === undefined ? 'Now' : `After step ${current.step} of ${this.history.total}`
    $('caption').textContent = definition.states.find(({ path }) => path === state)?.description ?? ''
    redraw(parts.head, ...headOf(this))
    const reasons = isLatest ? instance.waits_for : []
    parts.waits.hidden = reasons.length === 0
    redraw(parts.waits, ...waitsOf(reasons))
    redraw(parts.facts, factsOf(machine, instance, definition))
    // The style divides the width by the number of steps, so that every step fits.
    parts.lifeline.style.setProperty('--steps', String(this.steps.length))
    redraw(parts.lifeline, lifelineOf(this))
    redraw(parts.stepper, ...stepperOf(this))
    redraw(parts.tabs, tabsOf(this))
    if (this.tab === 'history') this.drawHistory()
    if (this.tab === 'data') this.drawData()
  }

  drawHistory() {
    const { panel } = this.parts
    const top = panel.querySelector('.history') === null ? 0 : panel.scrollTop
    redraw(panel, ...historyOf(this))
    panel.scrollTop = top
  }

  drawData() {
    const { history: _, ...shown } = this.instance
    redraw(this.parts.panel, h('pre.data', {}, JSON.stringify(shown, null, 2)))
  }

  /** @param {string} name */
  openTab(name) {
    if (this.tab === name) return
    this.tab = name
    this.unlog?.()
    this.unlog = name === 'log' ? showLog(this.parts.panel, this.id) : null
    this.draw()
  }

  /** @param {KeyboardEvent} event */
  onKey = (event) => {
    const { tagName } = /** @type {Element} */ (event.target)
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(tagName) || event.altKey || event.ctrlKey || event.metaKey) return
    /** @type {Record<string, () => unknown>} */
    const actions = {
      ArrowLeft: () => this.move(-1),
      ArrowRight: () => this.move(1),
      Home: () => this.selectFirst(),
      End: () => this.select(this.steps.length - 1),
    }
    const go = actions[event.key]
    if (go !== undefined) {
      event.preventDefault()
      void go()
    }
    if (event.key === 'Escape') location.hash = this.back
  }

  /**
   * Shows the step that the address now names.
   * @param {number | null} next
   */
  async step(next) {
    if (next === this.selected) return
    this.selected = next
    await this.loadUntil(next ?? Number.POSITIVE_INFINITY)
    this.draw()
  }

  stop() {
    this.isStopped = true
    this.unfollow()
    this.unlog?.()
    document.removeEventListener('keydown', this.onKey)
  }
}
