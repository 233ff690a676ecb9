// One instance: what it waits for, where its time went, and its history to step through, live at its end.
import { download, follow, getJson } from './api.js'
import { light, showChart, showCounts } from './chart.js'
import { $, fill, h, pill, redraw, toneOf } from './elements.js'
import { factsOf } from './facts.js'
import { showLog } from './log.js'
import { absolute, ago, clock, duration, serverNow, setClock, since } from './moments.js'

/** Shows an instance until the answered function is called. `step` is the id of a step, or null for the latest. */
export function showInstance({ machine, definition, id, step, back, goTo, onConnection }) {
  const content = $('content')
  let instance = null
  let steps = []
  let history = { total: 0, is_whole: true }
  let selected = step
  let tab = 'history'
  let unfollow = () => {}
  let unlog = null
  let isStopped = false

  fill(content, h('p.summary', { role: 'status' }, 'Loading…'))
  showCounts(null)
  light({ active: null, taken: null })
  void showChart(machine, null)
  void load()

  async function load() {
    try {
      const answer = await getJson(`inspector/${machine}/instances/${id}`)
      if (isStopped) return
      take(answer)
      steps = answer.history.steps
      history = answer.history
      if (selected !== null && !steps.some((one) => one.id === selected)) await loadUntil(selected)
      build()
      watch()
    } catch (error) {
      if (!isStopped) showGone(error)
    }
  }

  function showGone(error) {
    onConnection('ended')
    fill(
      content,
      h(
        'div.empty',
        {},
        h('h3', {}, error.status === 404 ? 'It is not there any more' : 'It could not be read'),
        h('p', {}, error.message),
        h('a.primary', { href: back }, 'Back to the list'),
      ),
    )
  }

  function take(snapshot) {
    instance = snapshot
    setClock(snapshot.now)
  }

  /** Earlier steps, until one of them is there or there are none. */
  async function loadUntil(wanted) {
    while (hasEarlier() && steps[0].id > wanted) {
      const before = steps[0].id
      const { history: earlier } = await getJson(`inspector/${machine}/instances/${id}?before=${before}`)
      if (isStopped || earlier.steps.length === 0) return
      // Whoever has asked for them twice has them once.
      if (steps[0].id === before) steps = [...earlier.steps, ...steps]
    }
  }
  const hasEarlier = () => steps.length > 0 && steps[0].step > 1

  function watch() {
    if (!instance.live) return onConnection('ended')
    const last = steps.at(-1)?.id ?? 0
    unfollow = follow(`inspector/${machine}/instances/${id}/events`, {
      lastEventId: last,
      onState: onConnection,
      onEvent(event, data) {
        if (event === 'transition') return append(data)
        if (event === 'gone') {
          showGone({ status: 404, message: data.message })
          return false
        }
        if (event !== 'snapshot') return true
        take(data)
        draw()
        return data.live
      },
    })
  }

  function append(one) {
    const last = steps.at(-1)
    if (last !== undefined && one.id <= last.id) return
    if (last !== undefined) last.duration_ms = Math.max(0, new Date(one.at) - new Date(last.at))
    steps.push(one)
    history = { ...history, total: one.step }
    draw()
  }

  // The parts of the page, built once; draw() brings them up to date.
  const parts = {
    head: h('div.head'),
    waits: h('div.waits'),
    facts: h('dl.facts'),
    lifeline: h('div.lifeline', { role: 'group', 'aria-label': 'Time in each state' }),
    stepper: h('div.stepper'),
    tabs: h('div.segments.panels', { role: 'tablist', 'aria-label': 'What is shown' }),
    panel: h('div.panel', { id: 'panel' }),
  }

  function build() {
    fill(content, Object.values(parts))
    draw()
    reveal()
  }

  /** Brings the step into view, where its panel scrolls by itself: the page stays where its reader put it. */
  function reveal() {
    const current = parts.panel.querySelector('[aria-current="true"]')
    if (current === null) return
    const [box, panel] = [current.getBoundingClientRect(), parts.panel.getBoundingClientRect()]
    if (box.top < panel.top) parts.panel.scrollTop -= panel.top - box.top + 8
    else if (box.bottom > panel.bottom) parts.panel.scrollTop += box.bottom - panel.bottom + 8
  }

  const place = () => {
    const index = steps.findIndex((one) => one.id === selected)
    return selected === null || index === -1 ? steps.length - 1 : index
  }
  const isLatest = () => selected === null

  function select(index) {
    const one = steps[Math.min(Math.max(index, 0), steps.length - 1)]
    if (one === undefined) return
    const next = one === steps.at(-1) ? null : one.id
    if (next === selected) return
    selected = next
    goTo(selected)
    draw()
    reveal()
  }

  /** The first step that is kept, here or not. */
  async function selectFirst() {
    await loadUntil(0)
    if (!isStopped) select(0)
  }

  /** Goes so many steps forth, or back: before the first one that is here, too. */
  async function move(by) {
    const wanted = steps[place()]?.id
    if (wanted === undefined) return
    if (by < 0 && place() === 0) await loadUntil(wanted - 1)
    if (!isStopped) select(steps.findIndex((one) => one.id === wanted) + by)
  }

  function draw() {
    if (instance === null || !content.contains(parts.head)) return
    const current = steps[place()]
    const state = isLatest() ? instance.state : (current?.to ?? instance.state)
    light({ active: state, taken: current?.transition ?? null })
    const name = `${instance.namespace}.${instance.layer}.${instance.pipeline}`
    $('chart-title').textContent = isLatest() ? 'Now' : `After step ${current.step} of ${history.total}`
    $('caption').textContent = definition.states.find(({ path }) => path === state)?.description ?? ''
    drawHead(name)
    drawWaits()
    drawFacts()
    drawLifeline()
    drawStepper()
    drawTabs()
    if (tab === 'history') drawHistory()
    if (tab === 'data') drawData()
  }

  function drawHead(name) {
    redraw(
      parts.head,
      h('a.back', { href: back, data: { name: 'back' } }, '‹ All'),
      h(
        'div.title',
        {},
        h('h2', {}, name, ' ', instance.pipeline_deleted ? h('span.tag', {}, 'pipeline deleted') : null),
        h('p.sub', {}, instance.note, ' · ', h('code', { id: 'instance-id' }, instance.id)),
      ),
      h(
        'span.now',
        {},
        pill(machine, instance.state),
        instance.live && steps.length > 0 ? since(entered()) : null,
      ),
    )
  }

  /** When the state of now was entered, as far back as steps are here. */
  function entered() {
    let at = steps.at(-1)?.at ?? instance.created_at
    for (const one of steps.toReversed()) {
      if (one.to !== instance.state) break
      at = one.at
    }
    return at
  }

  function drawWaits() {
    const reasons = isLatest() ? instance.waits_for : []
    parts.waits.hidden = reasons.length === 0
    redraw(
      parts.waits,
      h('h3', {}, 'Waits for'),
      h(
        'ul',
        {},
        reasons.map(({ code, text, until, run_id }) =>
          h(
            'li',
            { data: { code } },
            text,
            until === null ? null : [' ', h('strong', {}, ago(until))],
            run_id === null
              ? null
              : [
                  ' ',
                  h('a', { href: `#/run/${run_id}`, data: { name: run_id } }, `run ${run_id.slice(0, 8)}…`),
                ],
          ),
        ),
      ),
    )
  }

  const drawFacts = () => redraw(parts.facts, factsOf(machine, instance, definition))

  /** One segment for each step, as wide as it took; the last of a live one grows. */
  function drawLifeline() {
    const spent = steps.map(
      (one) => one.duration_ms ?? (instance.live ? serverNow() - new Date(one.at).getTime() : 0),
    )
    const total = spent.reduce((sum, ms) => sum + ms, 0) || 1
    const selectedAt = place()
    // However many they are, all of them have a place.
    parts.lifeline.style.setProperty('--steps', String(steps.length))
    redraw(
      parts.lifeline,
      steps.map((one, index) => {
        if (spent[index] === 0 && !(index === steps.length - 1)) return null
        const segment = h('button', {
          type: 'button',
          title: `${one.to}: ${duration(spent[index])}`,
          'aria-label': `${one.to}, ${duration(spent[index])}`,
          'aria-pressed': String(index === selectedAt),
          data: { name: `time ${one.id}`, tone: toneOf(machine, one.to), odd: String(index % 2) },
          onclick: () => select(index),
        })
        segment.style.flexGrow = String(Math.max(spent[index] / total, 0.004))
        return segment
      }),
    )
  }

  function drawStepper() {
    const at = place()
    const current = steps[at]
    // Off without being disabled: at the end of the way, the focus stays where it is.
    const button = (label, symbol, isOff, onclick) =>
      h(
        'button.icon-button',
        {
          type: 'button',
          'aria-label': label,
          title: label,
          'aria-disabled': isOff ? 'true' : null,
          data: { name: label },
          onclick,
        },
        symbol,
      )
    const isFirst = at <= 0 && !hasEarlier()
    const isLast = at >= steps.length - 1
    redraw(
      parts.stepper,
      button('First step (Home)', '⇤', isFirst, selectFirst),
      button('Step back (←)', '←', isFirst, () => move(-1)),
      h(
        'span.position',
        { 'aria-live': 'polite' },
        current === undefined ? '' : [h('strong', {}, String(current.step)), ` of ${history.total}`],
      ),
      button('Step forth (→)', '→', isLast, () => move(1)),
      button('Latest step (End)', '⇥', isLast, () => select(steps.length - 1)),
      h(
        'span.taken-text',
        {},
        current === undefined
          ? ''
          : [
              h('code', {}, current.event),
              ' → ',
              pill(machine, current.to),
              current.cause ? h('span.sub', {}, ` by ${current.cause}`) : null,
            ],
      ),
      h(
        'span.exports',
        {},
        h(
          'button.icon-button',
          {
            type: 'button',
            id: 'export-json',
            data: { name: 'JSON' },
            onclick: () =>
              download(`inspector/${machine}/instances/${id}/export.json`, `${machine}-${id}.json`),
          },
          'JSON',
        ),
        h(
          'button.icon-button',
          {
            type: 'button',
            id: 'export-svg',
            data: { name: 'SVG' },
            onclick: () =>
              download(
                `inspector/${machine}/instances/${id}/export.svg${selected === null ? '' : `?step=${selected}`}`,
                `${machine}-${id}.svg`,
              ),
          },
          'SVG',
        ),
      ),
    )
  }

  function drawTabs() {
    const names = [['history', 'History'], ...(machine === 'run' ? [['log', 'Log']] : []), ['data', 'Data']]
    redraw(
      parts.tabs,
      names.map(([name, label]) =>
        h(
          'button',
          {
            type: 'button',
            role: 'tab',
            'aria-selected': String(name === tab),
            'aria-controls': 'panel',
            data: { name },
            onclick: () => openTab(name),
          },
          label,
        ),
      ),
    )
  }

  function openTab(name) {
    if (tab === name) return
    tab = name
    unlog?.()
    unlog = null
    if (tab === 'log') unlog = showLog(parts.panel, id)
    draw()
  }

  function drawHistory() {
    const at = place()
    const top = parts.panel.querySelector('.history') === null ? 0 : parts.panel.scrollTop
    const earlier = hasEarlier()
    redraw(
      parts.panel,
      earlier
        ? h(
            'button.more',
            { type: 'button', data: { name: 'earlier' }, onclick: () => loadUntil(0).then(draw) },
            `Show ${steps[0].step - 1} earlier steps`,
          )
        : null,
      !history.is_whole && !earlier
        ? h(
            'p.note',
            {},
            steps.length === 0
              ? 'Its history is not kept any more.'
              : 'Older steps have been removed by retention.',
          )
        : null,
      h(
        'ol.history',
        {},
        steps.map((one, index) => item(one, index, index === at)),
      ),
    )
    parts.panel.scrollTop = top
  }

  function item(one, index, isCurrent) {
    const previous = steps[index - 1]
    const after =
      previous === undefined ? '' : `+${duration(Math.max(0, new Date(one.at) - new Date(previous.at)))}`
    return h(
      'li',
      {
        'aria-current': isCurrent ? 'true' : null,
        data: { name: `item ${one.id}`, step: one.id, tone: toneOf(machine, one.to) },
      },
      h(
        'button.step',
        { type: 'button', data: { name: `step ${one.id}` }, onclick: () => select(index) },
        h('span.when', { title: `${absolute(one.at)} · ${one.at}` }, clock(one.at), h('span.sub', {}, after)),
        h(
          'span.what',
          {},
          h(
            'span.move',
            {},
            h('code.event-name', {}, one.event),
            h('span.arrow', {}, '→'),
            pill(machine, one.to),
          ),
          h(
            'span.sub',
            {},
            one.cause ? `by ${one.cause}` : '',
            one.effects.map((effect) => h('span.effect', {}, effect)),
            one.transition === null ? h('span.tag', {}, 'not in this version of the machine') : null,
          ),
        ),
        h(
          'span.spent',
          {},
          one.duration_ms === null
            ? instance.live && one === steps.at(-1)
              ? since(one.at)
              : ''
            : duration(one.duration_ms),
        ),
      ),
    )
  }

  function drawData() {
    const { history: _, ...shown } = instance
    redraw(parts.panel, h('pre.data', {}, JSON.stringify(shown, null, 2)))
  }

  function onKey(event) {
    if (
      /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) ||
      event.altKey ||
      event.ctrlKey ||
      event.metaKey
    )
      return
    const go = {
      ArrowLeft: () => move(-1),
      ArrowRight: () => move(1),
      Home: selectFirst,
      End: () => select(steps.length - 1),
    }[event.key]
    if (go !== undefined) {
      event.preventDefault()
      void go()
    }
    if (event.key === 'Escape') location.hash = back
  }
  document.addEventListener('keydown', onKey)

  return {
    /** The address names another step. */
    step(next) {
      if (next === selected) return
      selected = next
      void loadUntil(next ?? Number.POSITIVE_INFINITY).then(draw)
    },
    stop() {
      isStopped = true
      unfollow()
      unlog?.()
      document.removeEventListener('keydown', onKey)
    },
  }
}
