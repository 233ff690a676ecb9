// The instances of a machine. The server searches and counts.
import { follow, getJson } from './api.js'
import { light, showChart, showCounts } from './chart.js'
import { $, countText, fill, h, pill, redraw } from './elements.js'
import { Rows } from './rows.js'

const SEARCH_MS = 200
const LAYERS = ['bronze', 'silver', 'gold']
/** @type {Record<string, string>} */
const TITLES = { run: 'Runs', draft: 'Drafts', trigger: 'Triggers' }
/** @param {string} machine */
export const titleOf = (machine) => TITLES[machine] ?? machine

/** @typedef {import('./types.js').Filter} Filter */
/** @typedef {import('./types.js').Counted} Counted */

/**
 * @typedef {object} ListOptions
 * @property {string} machine
 * @property {import('./types.js').Definition} definition
 * @property {Filter} filter the filter in the address
 * @property {(filter: Filter, options?: { replace?: boolean }) => void} navigate changes the address
 * @property {(state: import('./types.js').Connection) => void} onConnection
 */

/** Shows the list until `stop` is called. */
export class ListPage {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  typing
  chips = h('div.chips', { role: 'group', 'aria-label': 'States' })
  summary = h('p.summary', { role: 'status' }, 'Loading…')
  empty = h('div.empty', { hidden: true })

  /** @param {ListOptions} options */
  constructor({ machine, definition, filter, navigate, onConnection }) {
    this.machine = machine
    this.filter = filter
    this.navigate = navigate
    this.title = titleOf(machine)
    this.leaves = definition.states.filter((state) => state.kind !== 'compound')
    this.rows = new Rows({
      machine,
      label: this.title,
      query: () => this.query(),
      onAnswer: (answer) => this.showTotals(answer),
      onError: (error) => {
        this.summary.textContent = `The list could not be read: ${error.message}`
      },
    })
    this.buildFilters()
    light({ active: filter.state ?? null, taken: null })
    void showChart(machine, (state) =>
      navigate({ ...this.filter, state: this.filter.state === state ? '' : state }),
    )
    $('chart-title').textContent = this.title
    $('caption').textContent = `${definition.summary} Click a state to list its instances.`
    document.addEventListener('keydown', this.onKey)
    this.unfollow = follow(`inspector/${machine}/events`, {
      onEvent: () => this.rows.refresh(),
      onState: onConnection,
    })
    void this.rows.load(0)
  }

  buildFilters() {
    const { filter } = this
    this.search = /** @type {HTMLInputElement} */ (
      h('input', {
        type: 'search',
        id: 'search',
        placeholder: 'Pipeline or id',
        'aria-label': 'Search by pipeline or id',
        value: filter.q ?? '',
        autocomplete: 'off',
        spellcheck: 'false',
      })
    )
    this.namespace = selectOf('Namespace', 'All namespaces', [], filter.namespace)
    this.layer = selectOf('Layer', 'All layers', LAYERS, filter.layer)
    const { search, namespace, layer } = this
    fill(
      $('content'),
      h('div.filters', {}, h('div.search', {}, search, h('kbd', {}, '/')), namespace, layer),
      this.chips,
      this.summary,
      this.rows.scroller,
      this.empty,
    )
    void getJson('namespaces?limit=200').then(({ namespaces }) => {
      for (const { name } of namespaces)
        namespace.append(h('option', { value: name, selected: this.filter.namespace === name }, name))
    })
    search.addEventListener('input', () => {
      clearTimeout(this.typing)
      this.typing = setTimeout(
        () => this.navigate({ ...this.filter, q: search.value.trim() }, { replace: true }),
        SEARCH_MS,
      )
    })
    namespace.addEventListener('change', () => this.navigate({ ...this.filter, namespace: namespace.value }))
    layer.addEventListener('change', () => this.navigate({ ...this.filter, layer: layer.value }))
  }

  query() {
    return new URLSearchParams(
      Object.entries(this.filter).filter(([, value]) => value !== undefined && value !== ''),
    )
  }

  /** @param {{ counts: import('./types.js').Counts, total: number, total_is_exact: boolean }} answer */
  showTotals({ counts, total, total_is_exact }) {
    const { leaves, filter } = this
    showCounts(counts)
    const all = leaves.reduce(
      (sum, { path }) => ({
        count: sum.count + (counts[path]?.count ?? 0),
        more: sum.more || (counts[path]?.more ?? false),
      }),
      { count: 0, more: false },
    )
    redraw(
      this.chips,
      this.chip('All', '', all),
      leaves.map(({ path }) => this.chip(path, path, counts[path] ?? { count: 0, more: false })),
    )
    const many = this.title.toLowerCase()
    const found = countText({ count: total, more: !total_is_exact })
    this.summary.textContent = `${found} ${total === 1 ? many.slice(0, -1) : many}${filter.state ? ` in ${filter.state}` : ''}`
    this.empty.hidden = total > 0
    this.rows.scroller.hidden = total === 0
    const isSearch = [...this.query().keys()].length > 0
    redraw(
      this.empty,
      h('h3', {}, isSearch ? 'Nothing matches' : `No ${many} yet`),
      isSearch
        ? h('button.primary', { type: 'button', onclick: () => this.navigate({}) }, 'Show all')
        : h('p', {}, 'New instances appear here automatically.'),
    )
  }

  /**
   * @param {string} label
   * @param {string} state
   * @param {Counted} counted
   */
  chip(label, state, counted) {
    return h(
      'button.chip',
      {
        type: 'button',
        'aria-pressed': String((this.filter.state ?? '') === state),
        class: `chip${counted.count === 0 ? ' none' : ''}`,
        data: { name: `chip ${state}` },
        onclick: () => this.navigate({ ...this.filter, state }),
      },
      state === '' ? label : pill(this.machine, state),
      h('span.count', {}, countText(counted)),
    )
  }

  /** @param {KeyboardEvent} event */
  onKey = (event) => {
    const { rows, search } = this
    const target = /** @type {HTMLElement} */ (event.target)
    const inField = /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)
    if (event.key === '/' && !inField) {
      event.preventDefault()
      search?.focus()
      return
    }
    if (event.key === 'Escape' && target === search) {
      this.navigate({ ...this.filter, q: '' }, { replace: true })
      return
    }
    /** @type {Record<string, number>} */
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }
    const step = steps[event.key]
    const jump = event.key === 'Home' ? 0 : event.key === 'End' ? rows.total - 1 : null
    const inList = rows.scroller.contains(target) || target === search || target === document.body
    if (!inList || (inField && jump !== null)) return
    /** @type {HTMLElement | null} */
    const current = target.closest('.row')
    const at = current === null ? -1 : Number(current.dataset.index)
    const next = jump ?? (step === undefined ? null : Math.min(rows.total - 1, Math.max(0, at + step)))
    if (next === null) return
    event.preventDefault()
    rows.focus(next)
  }

  /**
   * Shows the same list with another search, and keeps text that is being typed.
   * @param {Filter} next
   */
  update(next) {
    this.filter = next
    const { search, namespace, layer } = this
    if (search && document.activeElement !== search) search.value = next.q ?? ''
    if (namespace) namespace.value = next.namespace ?? ''
    if (layer) layer.value = next.layer ?? ''
    this.rows.clear()
    light({ active: next.state ?? null, taken: null })
    void this.rows.load(0)
  }

  stop() {
    clearTimeout(this.typing)
    this.rows.stop()
    this.unfollow()
    document.removeEventListener('keydown', this.onKey)
  }
}

/**
 * @param {string} label
 * @param {string} all
 * @param {string[]} names
 * @param {string | undefined} selected
 */
const selectOf = (label, all, names, selected) =>
  /** @type {HTMLSelectElement} */ (
    h(
      'select',
      { 'aria-label': label },
      h('option', { value: '' }, all),
      names.map((name) => h('option', { value: name, selected: selected === name }, name)),
    )
  )
