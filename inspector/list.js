// The instances of a machine: searched and counted by the server, of which only what can be seen is here.
import { follow, getJson } from './api.js'
import { light, showChart, showCounts } from './chart.js'
import { $, become, countText, fill, h, pill, redraw } from './elements.js'
import { ago, duration, setClock } from './moments.js'

const ROW_HEIGHT = 56
/** Rows of one request. */
const CHUNK = 100
const CHUNKS_KEPT = 12
const SEARCH_MS = 200

const LAYERS = ['bronze', 'silver', 'gold']
export const TITLES = { run: 'Runs', draft: 'Drafts', trigger: 'Triggers' }

/** Shows the list until the answered function is called. `filter` is what the address says; `navigate` changes it. */
export function showList({ machine, definition, filter, navigate, onConnection }) {
  const content = $('content')
  const leaves = definition.states.filter((state) => state.kind !== 'compound')
  let chunks = new Map()
  let total = 0
  let generation = 0
  let isStopped = false
  const loading = new Set()

  const search = h('input', {
    type: 'search',
    id: 'search',
    placeholder: 'Pipeline or id',
    'aria-label': 'Search by pipeline or id',
    value: filter.q ?? '',
    autocomplete: 'off',
    spellcheck: 'false',
  })
  const namespace = h('select', { 'aria-label': 'Namespace' }, h('option', { value: '' }, 'All namespaces'))
  const layer = h(
    'select',
    { 'aria-label': 'Layer' },
    h('option', { value: '' }, 'All layers'),
    LAYERS.map((name) => h('option', { value: name, selected: filter.layer === name }, name)),
  )
  const chips = h('div.chips', { role: 'group', 'aria-label': 'States' })
  const summary = h('p.summary', { role: 'status' }, 'Loading…')
  const spacer = h('ul.spacer', { 'aria-label': TITLES[machine] })
  const scroller = h(
    'div.scroller',
    { tabindex: '0', 'aria-label': `${TITLES[machine]}, scrollable` },
    spacer,
  )
  const empty = h('div.empty', { hidden: true })

  fill(
    content,
    h('div.filters', {}, h('div.search', {}, search, h('kbd', {}, '/')), namespace, layer),
    chips,
    summary,
    scroller,
    empty,
  )
  void getJson('namespaces?limit=200').then(({ namespaces }) => {
    for (const { name } of namespaces)
      namespace.append(h('option', { value: name, selected: filter.namespace === name }, name))
  })

  let typing = 0
  search.addEventListener('input', () => {
    clearTimeout(typing)
    typing = setTimeout(() => navigate({ ...filter, q: search.value.trim() }, { replace: true }), SEARCH_MS)
  })
  namespace.addEventListener('change', () => navigate({ ...filter, namespace: namespace.value }))
  layer.addEventListener('change', () => navigate({ ...filter, layer: layer.value }))
  const pick = (state) => navigate({ ...filter, state: filter.state === state ? '' : state })

  light({ active: filter.state ?? null, taken: null })
  void showChart(machine, pick)
  $('chart-title').textContent = TITLES[machine]
  $('caption').textContent = `${definition.summary} Click a state to see what is in it.`

  const query = () =>
    new URLSearchParams(Object.entries(filter).filter(([, value]) => value !== undefined && value !== ''))

  async function load(index) {
    if (loading.has(index)) return
    loading.add(index)
    const mine = generation
    try {
      const params = query()
      params.set('limit', String(CHUNK))
      params.set('offset', String(index * CHUNK))
      const answer = await getJson(`inspector/${machine}/instances?${params}`)
      if (isStopped || mine !== generation) return
      setClock(answer.now)
      chunks.set(index, answer.instances)
      if (chunks.size > CHUNKS_KEPT) {
        const far = [...chunks.keys()].sort((a, b) => Math.abs(b - index) - Math.abs(a - index))[0]
        chunks.delete(far)
      }
      total = answer.total
      showTotals(answer)
      draw()
    } catch (error) {
      if (!isStopped) summary.textContent = `The list could not be read: ${error.message}`
    } finally {
      loading.delete(index)
    }
  }

  function showTotals({ counts, total_is_exact }) {
    showCounts(counts)
    const all = leaves.reduce(
      (sum, { path }) => ({
        count: sum.count + (counts[path]?.count ?? 0),
        more: sum.more || (counts[path]?.more ?? false),
      }),
      { count: 0, more: false },
    )
    redraw(
      chips,
      chip('All', '', all),
      leaves.map(({ path }) => chip(path, path, counts[path] ?? { count: 0, more: false })),
    )
    const found = countText({ count: total, more: !total_is_exact })
    const one = total === 1 ? TITLES[machine].slice(0, -1).toLowerCase() : TITLES[machine].toLowerCase()
    summary.textContent = `${found} ${one}${filter.state ? ` in ${filter.state}` : ''}`
    empty.hidden = total > 0
    scroller.hidden = total === 0
    const isSearch = [...query().keys()].length > 0
    redraw(
      empty,
      h('h3', {}, isSearch ? 'Nothing matches' : `No ${TITLES[machine].toLowerCase()} yet`),
      isSearch
        ? h('button.primary', { type: 'button', onclick: () => navigate({}) }, 'Show all')
        : h('p', {}, 'They appear here by themselves.'),
    )
  }

  const chip = (label, state, counted) =>
    h(
      'button.chip',
      {
        type: 'button',
        'aria-pressed': String((filter.state ?? '') === state),
        class: `chip${counted.count === 0 ? ' none' : ''}`,
        data: { name: `chip ${state}` },
        onclick: () => navigate({ ...filter, state }),
      },
      state === '' ? label : pill(machine, state),
      h('span.count', {}, countText(counted)),
    )

  const drawn = new Map()

  /** Rows that can be seen, and a few around them. */
  function draw() {
    spacer.style.height = `${total * ROW_HEIGHT}px`
    const first = Math.max(0, Math.floor(scroller.scrollTop / ROW_HEIGHT) - 5)
    const last = Math.min(total - 1, Math.ceil((scroller.scrollTop + scroller.clientHeight) / ROW_HEIGHT) + 5)
    for (const [index, row] of drawn) {
      if (index >= first && index <= last) continue
      row.element.remove()
      drawn.delete(index)
    }
    for (let index = first; index <= last; index++) {
      const chunk = Math.floor(index / CHUNK)
      const instance = chunks.get(chunk)?.[index - chunk * CHUNK]
      if (!chunks.has(chunk)) void load(chunk)
      const text = instance === undefined ? '' : JSON.stringify(instance)
      const known = drawn.get(index)
      if (known?.text === text) continue
      const element = rowOf(instance, index)
      element.style.top = `${index * ROW_HEIGHT}px`
      const id = instance?.id
      // The row of another instance is another row: who has pressed the one did not mean the other.
      if (known !== undefined && known.id === id) {
        become(known.element, element)
        drawn.set(index, { ...known, text })
        continue
      }
      const hadFocus = known?.element.contains(document.activeElement) ?? false
      if (known === undefined) spacer.append(element)
      else known.element.replaceWith(element)
      if (hadFocus) element.querySelector('a')?.focus({ preventScroll: true })
      drawn.set(index, { element, text, id })
    }
  }

  function rowOf(instance, index) {
    if (instance === undefined)
      return h('li.row.pending', { data: { index } }, h('span.bone'), h('span.bone.short'))
    const { id, state, namespace, layer, pipeline, note, attempt, created_at, moved_at, duration_ms } =
      instance
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
            attempt > 1 ? ` · attempt ${attempt}` : '',
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

  /** Reads again what can be seen; what cannot is forgotten. */
  function refresh() {
    const first = Math.floor(scroller.scrollTop / ROW_HEIGHT / CHUNK)
    const last = Math.floor((scroller.scrollTop + scroller.clientHeight) / ROW_HEIGHT / CHUNK)
    for (const index of [...chunks.keys()]) if (index < first || index > last) chunks.delete(index)
    for (let index = first; index <= last; index++) void load(index)
  }

  scroller.addEventListener('scroll', () => requestAnimationFrame(draw), { passive: true })
  const resized = new ResizeObserver(() => draw())
  resized.observe(scroller)

  function onKey(event) {
    const inField = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)
    if (event.key === '/' && !inField) {
      event.preventDefault()
      search.focus()
      return
    }
    if (event.key === 'Escape' && event.target === search) {
      navigate({ ...filter, q: '' }, { replace: true })
      return
    }
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key]
    const jump = event.key === 'Home' ? 0 : event.key === 'End' ? total - 1 : null
    const inList =
      scroller.contains(event.target) || event.target === search || event.target === document.body
    if ((step === undefined && jump === null) || !inList || (inField && jump !== null)) return
    event.preventDefault()
    const current = event.target.closest?.('.row')
    const at = current === null || current === undefined ? -1 : Number(current.dataset.index)
    const next = jump ?? Math.min(total - 1, Math.max(0, at + step))
    focusRow(next)
  }

  function focusRow(index) {
    const top = index * ROW_HEIGHT
    if (top < scroller.scrollTop) scroller.scrollTop = top
    else if (top + ROW_HEIGHT > scroller.scrollTop + scroller.clientHeight)
      scroller.scrollTop = top + ROW_HEIGHT - scroller.clientHeight
    draw()
    drawn.get(index)?.element.querySelector('a')?.focus({ preventScroll: true })
  }
  document.addEventListener('keydown', onKey)

  const unfollow = follow(`inspector/${machine}/events`, { onEvent: refresh, onState: onConnection })
  void load(0)

  return {
    /** The same list with another search: what is typed in stays. */
    update(next) {
      filter = next
      generation += 1
      chunks = new Map()
      loading.clear()
      if (document.activeElement !== search) search.value = filter.q ?? ''
      namespace.value = filter.namespace ?? ''
      layer.value = filter.layer ?? ''
      for (const { element } of drawn.values()) element.remove()
      drawn.clear()
      scroller.scrollTop = 0
      light({ active: filter.state ?? null, taken: null })
      void load(0)
    },
    stop() {
      isStopped = true
      clearTimeout(typing)
      unfollow()
      resized.disconnect()
      document.removeEventListener('keydown', onKey)
    },
  }
}
