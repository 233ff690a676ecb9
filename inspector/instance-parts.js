// The parts of an instance's page. Each function builds the content of one part from the current state of the page.
import { download } from './api.js'
import { h, pill, toneOf } from './elements.js'
import { absolute, ago, clock, duration, serverNow, since } from './moments.js'

/** @typedef {import('./instance.js').InstancePage} InstancePage */
/** @typedef {import('./types.js').Step} Step */

/** @param {InstancePage} page */
export function headOf({ back, instance, machine, steps }) {
  const name = `${instance.namespace}.${instance.layer}.${instance.pipeline}`
  return [
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
      instance.live && steps.length > 0 ? since(enteredAt(instance, steps)) : null,
    ),
  ]
}

/**
 * The time at which the current state was entered, as far back as steps are loaded.
 * @param {InstancePage['instance']} instance
 * @param {Step[]} steps
 */
function enteredAt(instance, steps) {
  let at = steps.at(-1)?.at ?? instance.created_at
  for (const step of steps.toReversed()) {
    if (step.to !== instance.state) break
    at = step.at
  }
  return at
}

/** @param {InstancePage['instance']['waits_for']} reasons */
export const waitsOf = (reasons) => [
  h('h3', {}, 'Reasons for waiting'),
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
          : [' ', h('a', { href: `#/run/${run_id}`, data: { name: run_id } }, `run ${run_id.slice(0, 8)}…`)],
      ),
    ),
  ),
]

/**
 * One segment per step, whose width shows the duration. The last segment of a live instance grows.
 * @param {InstancePage} page
 */
export function lifelineOf(page) {
  const { steps, instance, machine } = page
  const spent = steps.map(
    (step) => step.duration_ms ?? (instance.live ? serverNow() - new Date(step.at).getTime() : 0),
  )
  const total = spent.reduce((sum, ms) => sum + ms, 0) || 1
  const selectedAt = page.selectedIndex()
  return steps.map((step, index) => {
    const ms = spent[index] ?? 0
    if (ms === 0 && index !== steps.length - 1) return null
    const segment = h('button', {
      type: 'button',
      title: `${step.to}: ${duration(ms)}`,
      'aria-label': `${step.to}, ${duration(ms)}`,
      'aria-pressed': String(index === selectedAt),
      data: { name: `time ${step.id}`, tone: toneOf(machine, step.to), odd: String(index % 2) },
      onclick: () => page.select(index),
    })
    segment.style.flexGrow = String(Math.max(ms / total, 0.004))
    return segment
  })
}

/** @param {InstancePage} page */
export function stepperOf(page) {
  const { steps, history, machine } = page
  const at = page.selectedIndex()
  const current = steps[at]
  const isFirst = at <= 0 && !page.hasEarlier()
  const isLast = at >= steps.length - 1
  return [
    stepButton('First step (Home)', '⇤', isFirst, () => page.selectFirst()),
    stepButton('Step back (←)', '←', isFirst, () => page.move(-1)),
    h(
      'span.position',
      { 'aria-live': 'polite' },
      current === undefined ? '' : [h('strong', {}, String(current.step)), ` of ${history.total}`],
    ),
    stepButton('Step forward (→)', '→', isLast, () => page.move(1)),
    stepButton('Latest step (End)', '⇥', isLast, () => page.select(steps.length - 1)),
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
    exportsOf(page),
  ]
}

/**
 * A button that is off but not `disabled`, so that the focus stays at the first or last step.
 * @param {string} label
 * @param {string} symbol
 * @param {boolean} isOff
 * @param {() => void} onclick
 */
const stepButton = (label, symbol, isOff, onclick) =>
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

/** @param {InstancePage} page */
function exportsOf({ machine, id, selected }) {
  const path = `inspector/${machine}/instances/${id}`
  const step = selected === null ? '' : `?step=${selected}`
  /** @type {[string, string, string][]} */
  const files = [
    ['JSON', 'json', `${path}/export.json`],
    ['SVG', 'svg', `${path}/export.svg${step}`],
  ]
  return h(
    'span.exports',
    {},
    files.map(([label, kind, address]) =>
      h(
        'button.icon-button',
        {
          type: 'button',
          id: `export-${kind}`,
          data: { name: label },
          onclick: () => download(address, `${machine}-${id}.${kind}`),
        },
        label,
      ),
    ),
  )
}

/** @param {InstancePage} page */
export function tabsOf(page) {
  /** @type {[string, string][]} */
  const names = [
    ['history', 'History'],
    ...(page.machine === 'run' ? [/** @type {[string, string]} */ (['log', 'Log'])] : []),
    ['data', 'Data'],
  ]
  return names.map(([name, label]) =>
    h(
      'button',
      {
        type: 'button',
        role: 'tab',
        'aria-selected': String(name === page.tab),
        'aria-controls': 'panel',
        data: { name },
        onclick: () => page.openTab(name),
      },
      label,
    ),
  )
}

/** @param {InstancePage} page */
export function historyOf(page) {
  const { steps, history } = page
  const [first] = steps
  const at = page.selectedIndex()
  const hasEarlier = page.hasEarlier()
  return [
    hasEarlier && first !== undefined
      ? h(
          'button.more',
          { type: 'button', data: { name: 'earlier' }, onclick: () => page.showEarlier() },
          `Show ${first.step - 1} earlier steps`,
        )
      : null,
    !history.is_whole && !hasEarlier
      ? h(
          'p.note',
          {},
          steps.length === 0 ? 'Retention has removed the history.' : 'Retention has removed older steps.',
        )
      : null,
    h(
      'ol.history',
      {},
      steps.map((step, index) => itemOf(page, step, index, index === at)),
    ),
  ]
}

/**
 * @param {InstancePage} page
 * @param {Step} step
 * @param {number} index
 * @param {boolean} isCurrent
 */
function itemOf(page, step, index, isCurrent) {
  const { steps, machine, instance } = page
  const previous = steps[index - 1]
  const after = previous === undefined ? '' : `+${duration(Math.max(0, msBetween(previous.at, step.at)))}`
  const isLive = instance.live && step === steps.at(-1)
  return h(
    'li',
    {
      'aria-current': isCurrent ? 'true' : null,
      data: { name: `item ${step.id}`, step: step.id, tone: toneOf(machine, step.to) },
    },
    h(
      'button.step',
      { type: 'button', data: { name: `step ${step.id}` }, onclick: () => page.select(index) },
      h(
        'span.when',
        { title: `${absolute(step.at)} · ${step.at}` },
        clock(step.at),
        h('span.sub', {}, after),
      ),
      h(
        'span.what',
        {},
        h(
          'span.move',
          {},
          h('code.event-name', {}, step.event),
          h('span.arrow', {}, '→'),
          pill(machine, step.to),
        ),
        h(
          'span.sub',
          {},
          step.cause ? `by ${step.cause}` : '',
          step.effects.map((effect) => h('span.effect', {}, effect)),
          step.transition === null ? h('span.tag', {}, 'not in this version of the machine') : null,
        ),
      ),
      h(
        'span.spent',
        {},
        step.duration_ms === null ? (isLive ? since(step.at) : '') : duration(step.duration_ms),
      ),
    ),
  )
}

/**
 * @param {string} from
 * @param {string} to
 */
export const msBetween = (from, to) => new Date(to).getTime() - new Date(from).getTime()
