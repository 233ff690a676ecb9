// The few words in which the page is built. Text is always set as text.

/** `h('a.name', { href }, 'text', child)`; attributes that are null, undefined or false are left out. */
export function h(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split('.')
  const element = document.createElement(name)
  if (classes.length > 0) element.className = classes.join(' ')
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value)
    else if (key === 'data') Object.assign(element.dataset, value)
    else element.setAttribute(key, value === true ? '' : value)
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ''))
  return element
}

/** Replaces what an element holds. What had the focus in it has it again, if something of the same `data-name` takes its place. */
export function fill(element, ...children) {
  const focused = element.contains(document.activeElement) ? document.activeElement.dataset.name : undefined
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined))
  if (focused !== undefined)
    element.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true })
}

export const $ = (id) => document.getElementById(id)

const TONES = {
  run: { pending: 'wait', running: 'work', success: 'good', failed: 'bad', cancelled: 'idle' },
  draft: { unpublished: 'idle', clean: 'good', dirty: 'wait', deleted: 'idle' },
  trigger: { armed: 'good', cooling: 'wait', disabled: 'idle' },
}

/** What a state means for its owner, as a colour. */
export const toneOf = (machine, state) => TONES[machine]?.[state.split('.')[0]] ?? 'idle'

/** `running.executing` as people read it: the inner state, and what it is part of. */
export function pill(machine, state) {
  const [outer, inner] = state.split('.')
  return h(
    'span.pill',
    { data: { tone: toneOf(machine, state), state } },
    inner === undefined ? outer : [h('span.outer', {}, outer), ' ', inner],
  )
}

export const countText = ({ count, more }) => `${count.toLocaleString('en-US')}${more ? '+' : ''}`
