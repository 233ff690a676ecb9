// Addresses: `#/run?state=failed&q=…` is a list, `#/run/<id>` an instance followed live, `#/run/<id>@<step>` one of its steps.
import { changeKey, getJson, hasKey } from './api.js'
import { startChart } from './chart.js'
import { $, countText, fill, h } from './elements.js'
import { showInstance } from './instance.js'
import { showList, TITLES } from './list.js'

const MACHINES = ['run', 'draft', 'trigger']
const TABS_MS = 15_000
const FILTERS = ['namespace', 'layer', 'pipeline', 'state', 'q']

let definitions = new Map()
let shown = null
const lastList = new Map()

function parse(hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?')
  const [machine, rest] = path.split('/')
  const known = MACHINES.includes(machine) ? machine : 'run'
  if (rest) {
    const [id, step] = rest.split('@')
    return { machine: known, id, step: /^\d+$/.test(step ?? '') ? Number(step) : null }
  }
  const params = new URLSearchParams(query)
  const filter = Object.fromEntries(
    FILTERS.flatMap((name) => (params.get(name) ? [[name, params.get(name)]] : [])),
  )
  return { machine: known, id: null, filter }
}

function listHash(machine, filter) {
  const params = new URLSearchParams(Object.entries(filter).filter(([, value]) => value))
  const query = params.toString()
  return `#/${machine}${query === '' ? '' : `?${query}`}`
}

/** Changes the address without leaving a way back for each letter or step. */
function replaceHash(hash) {
  history.replaceState(null, '', hash)
  route()
}

function route() {
  const to = parse(location.hash)
  const definition = definitions.get(to.machine)
  markTab(to.machine)
  if (to.id !== null) {
    if (shown?.kind === 'instance' && shown.machine === to.machine && shown.id === to.id)
      return shown.view.step(to.step)
    leave()
    const back = lastList.get(to.machine) ?? `#/${to.machine}`
    const view = showInstance({
      machine: to.machine,
      definition,
      id: to.id,
      step: to.step,
      back,
      goTo: (step) =>
        history.replaceState(null, '', `#/${to.machine}/${to.id}${step === null ? '' : `@${step}`}`),
      onConnection,
    })
    shown = { kind: 'instance', machine: to.machine, id: to.id, view }
    document.title = `${TITLES[to.machine].slice(0, -1)} ${to.id.slice(0, 8)} · Sluice Inspector`
    return
  }
  lastList.set(to.machine, listHash(to.machine, to.filter))
  document.title = `${TITLES[to.machine]} · Sluice Inspector`
  if (shown?.kind === 'list' && shown.machine === to.machine) return shown.view.update(to.filter)
  leave()
  const navigate = (filter, { replace = false } = {}) => {
    const hash = listHash(to.machine, filter)
    if (replace) replaceHash(hash)
    else location.hash = hash
  }
  shown = {
    kind: 'list',
    machine: to.machine,
    view: showList({ machine: to.machine, definition, filter: to.filter, navigate, onConnection }),
  }
}

function leave() {
  shown?.view.stop()
  shown = null
}

const CONNECTION = { live: 'live', connecting: 'connecting', ended: 'ended' }

function onConnection(state) {
  const element = $('connection')
  element.dataset.state = state
  element.textContent = CONNECTION[state]
}

function buildTabs() {
  fill(
    $('tabs'),
    MACHINES.map((machine) =>
      h(
        'a',
        { href: `#/${machine}`, data: { machine } },
        TITLES[machine],
        h('span.count', { id: `tab-${machine}` }),
      ),
    ),
  )
}

const markTab = (machine) => {
  for (const tab of $('tabs').children) {
    if (tab.dataset.machine === machine) tab.setAttribute('aria-current', 'page')
    else tab.removeAttribute('aria-current')
  }
}

/** Beside each machine: how many instances have not ended. */
async function countTabs() {
  for (const machine of MACHINES) {
    const answer = await getJson(`inspector/${machine}/instances?limit=1`).catch(() => null)
    if (answer === null) continue
    const finals = new Set(
      definitions.get(machine).states.flatMap(({ path, kind }) => (kind === 'final' ? [path] : [])),
    )
    const live = Object.entries(answer.counts).filter(([state]) => !finals.has(state))
    const counted = live.reduce(
      (sum, [, one]) => ({ count: sum.count + one.count, more: sum.more || one.more }),
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
    const { machines } = await getJson('inspector/machines')
    definitions = new Map(machines.map((definition) => [definition.machine, definition]))
  } catch (error) {
    fill(
      $('content'),
      h('div.empty', {}, h('h3', {}, 'The service does not answer'), h('p', {}, error.message)),
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
