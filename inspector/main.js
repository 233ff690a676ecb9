// Addresses: `#/run?state=failed&q=…` is a list, `#/run/<id>` a live instance, `#/run/<id>@<step>` one of its steps.
import { changeKey, getJson, hasKey } from './api.js'
import { startChart } from './chart.js'
import { $, countText, fill, h } from './elements.js'
import { InstancePage } from './instance.js'
import { ListPage, titleOf } from './list.js'

const MACHINES = ['run', 'draft', 'trigger']
const TABS_MS = 15_000
const FILTERS = ['namespace', 'layer', 'pipeline', 'state', 'q']

/** @typedef {import('./types.js').Filter} Filter */

/** @type {Map<string, import('./types.js').Definition>} */
let definitions = new Map()
/** @type {InstancePage | ListPage | null} */
let shown = null
/** @type {Map<string, string>} */
const lastList = new Map()

/**
 * @param {string} hash
 * @returns {{ machine: string, id: string, step: number | null } | { machine: string, id: null, filter: Filter }}
 */
function parse(hash) {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?')
  const [machine = '', instancePart] = path.split('/')
  const machineName = MACHINES.includes(machine) ? machine : 'run'
  if (instancePart) {
    const [id = instancePart, step = ''] = instancePart.split('@')
    return { machine: machineName, id, step: /^\d+$/.test(step) ? Number(step) : null }
  }
  const params = new URLSearchParams(query)
  const filter = Object.fromEntries(
    FILTERS.flatMap((name) => (params.get(name) ? [[name, params.get(name)]] : [])),
  )
  return { machine: machineName, id: null, filter }
}

/**
 * @param {string} machine
 * @param {Filter} filter
 */
function listHash(machine, filter) {
  const params = new URLSearchParams(Object.entries(filter).filter(([, value]) => value))
  const query = params.toString()
  return `#/${machine}${query === '' ? '' : `?${query}`}`
}

/**
 * Changes the address without a history entry for each letter or step.
 * @param {string} hash
 */
function replaceHash(hash) {
  history.replaceState(null, '', hash)
  route()
}

function route() {
  const to = parse(location.hash)
  const { machine } = to
  const definition = definitions.get(machine)
  if (definition === undefined) return
  markTab(machine)
  if (to.id !== null) {
    if (shown instanceof InstancePage && shown.machine === machine && shown.id === to.id)
      return void shown.step(to.step)
    closePage()
    const back = lastList.get(machine) ?? `#/${machine}`
    shown = new InstancePage({
      machine,
      definition,
      id: to.id,
      step: to.step,
      back,
      goTo: (step) =>
        history.replaceState(null, '', `#/${machine}/${to.id}${step === null ? '' : `@${step}`}`),
      onConnection,
    })
    document.title = `${titleOf(machine).slice(0, -1)} ${to.id.slice(0, 8)} · Sluice Inspector`
    return
  }
  lastList.set(machine, listHash(machine, to.filter))
  document.title = `${titleOf(machine)} · Sluice Inspector`
  if (shown instanceof ListPage && shown.machine === machine) return shown.update(to.filter)
  closePage()
  shown = new ListPage({
    machine,
    definition,
    filter: to.filter,
    navigate(filter, { replace = false } = {}) {
      const hash = listHash(machine, filter)
      if (replace) replaceHash(hash)
      else location.hash = hash
    },
    onConnection,
  })
}

function closePage() {
  shown?.stop()
  shown = null
}

/** @param {import('./types.js').Connection} state */
function onConnection(state) {
  const element = $('connection')
  element.dataset.state = state
  element.textContent = state
}

function buildTabs() {
  fill(
    $('tabs'),
    MACHINES.map((machine) =>
      h(
        'a',
        { href: `#/${machine}`, data: { machine } },
        titleOf(machine),
        h('span.count', { id: `tab-${machine}` }),
      ),
    ),
  )
}

/** @param {string} machine */
const markTab = (machine) => {
  for (const tab of $('tabs').children) {
    if (tab.dataset.machine === machine) tab.setAttribute('aria-current', 'page')
    else tab.removeAttribute('aria-current')
  }
}

/** Shows beside each machine the number of its live instances. */
async function countTabs() {
  for (const machine of MACHINES) {
    /** @type {import('./types.js').Instances | null} */
    const answer = await getJson(`inspector/${machine}/instances?limit=1`).catch(() => null)
    if (answer === null) continue
    const finals = new Set(
      definitions.get(machine)?.states.flatMap(({ path, kind }) => (kind === 'final' ? [path] : [])),
    )
    const live = Object.entries(answer.counts).filter(([state]) => !finals.has(state))
    const counted = live.reduce(
      (sum, [, entry]) => ({ count: sum.count + entry.count, more: sum.more || entry.more }),
      { count: 0, more: false },
    )
    const element = $(`tab-${machine}`)
    element.textContent = countText(counted)
    element.title = `${countText(counted)} not ended`
  }
}

async function start() {
  startChart()
  buildTabs()
  $('key').addEventListener('click', changeKey)
  $('key').hidden = !hasKey()
  try {
    /** @type {{ machines: import('./types.js').Definition[] }} */
    const { machines } = await getJson('inspector/machines')
    definitions = new Map(machines.map((definition) => [definition.machine, definition]))
  } catch (error) {
    fill(
      $('content'),
      h(
        'div.empty',
        {},
        h('h3', {}, 'The service does not answer'),
        h('p', {}, /** @type {Error} */ (error).message),
      ),
    )
    onConnection('ended')
    return
  }
  addEventListener('hashchange', route)
  route()
  void countTabs()
  setInterval(() => void countTabs(), TABS_MS)
}

void start()
