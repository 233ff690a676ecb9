// The functions that build the page. Text is always set as text, never as HTML.

/** @typedef {import('./types.js').Child} Child */
/** @typedef {Record<string, (event: Event) => unknown>} Handlers by event name */

/**
 * `h('a.name', { href }, 'text', child)`; attributes that are null, undefined or false are skipped.
 * @param {string} tag
 * @param {Record<string, any>} attributes
 * @param {Child[]} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const [name = tag, ...classes] = tag.split('.')
  const element = document.createElement(name)
  if (classes.length > 0) element.className = classes.join(' ')
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue
    if (key.startsWith('on')) listen(element, { [key.slice(2)]: value })
    else if (key === 'data') Object.assign(element.dataset, value)
    else element.setAttribute(key, value === true ? '' : value)
  }
  element.append(...present(children).filter((child) => child !== ''))
  return element
}

/** The handlers of each element by event name. A redraw of an element replaces its handlers. */
/** @type {WeakMap<EventTarget, Handlers>} */
const handlers = new WeakMap()
/** @param {Event} event */
const dispatch = (event) => event.currentTarget && handlers.get(event.currentTarget)?.[event.type]?.(event)

/**
 * @param {HTMLElement} element
 * @param {Handlers} added
 */
function listen(element, added) {
  handlers.set(element, { ...handlers.get(element), ...added })
  for (const type of Object.keys(added)) element.addEventListener(type, dispatch)
}

/**
 * Replaces the content of an element.
 * @param {HTMLElement} element
 * @param {Child[]} children
 */
export const fill = (element, ...children) => element.replaceChildren(...present(children))

/**
 * Updates the content of an element. Existing elements are reused, found by their `data-name` or else by their position. So a
 * pressed button is still there at its release, and the focused element keeps the focus.
 * @param {HTMLElement} element
 * @param {Child[]} children
 */
export function redraw(element, ...children) {
  const focused = element.contains(document.activeElement) ? document.activeElement : null
  align(element, present(children))
  const name = nameOf(focused)
  // The focused element may have lost the focus in a move.
  if (name !== undefined && document.activeElement !== focused)
    find(element, `[data-name="${CSS.escape(name)}"]`)?.focus({ preventScroll: true })
}

/**
 * Gives an element the attributes, handlers and content of another element, which is then discarded.
 * @param {HTMLElement} element
 * @param {HTMLElement} next
 */
export function become(element, next) {
  for (const { name } of [...element.attributes]) if (!next.hasAttribute(name)) element.removeAttribute(name)
  for (const { name, value } of next.attributes)
    if (element.getAttribute(name) !== value && name !== 'style') element.setAttribute(name, value)
  // The page's policy forbids styles as attribute text.
  if (element.style.cssText !== next.style.cssText) element.style.cssText = next.style.cssText
  handlers.delete(element)
  listen(element, handlers.get(next) ?? {})
  align(element, [...next.childNodes])
}

/** @param {Child[]} children */
const present = (children) => children.flat().filter((child) => child !== null && child !== undefined)
/** @param {Node | null} node */
const nameOf = (node) => (node instanceof HTMLElement ? node.dataset.name : undefined)

/**
 * @param {Element} parent
 * @param {(Node | string)[]} children
 */
function align(parent, children) {
  const nodes = children.map((child) => (child instanceof Node ? child : document.createTextNode(child)))
  const names = new Set(nodes.map(nameOf))
  /** @type {Map<string | undefined, Element>} */
  const byName = new Map()
  for (const child of [...parent.children]) {
    const name = nameOf(child)
    if (name === undefined) continue
    if (names.has(name)) byName.set(name, child)
    else child.remove()
  }
  let at = parent.firstChild
  for (const next of nodes) {
    const name = nameOf(next)
    const here = name === undefined ? at : (byName.get(name) ?? null)
    if (here === null || nameOf(here) !== name || here.nodeName !== next.nodeName) {
      parent.insertBefore(next, at)
      continue
    }
    byName.delete(name)
    while (at !== here && at !== null && nameOf(at) === undefined) at = withoutIt(at)
    if (at !== here) parent.insertBefore(here, at)
    if (here instanceof HTMLElement && next instanceof HTMLElement) become(here, next)
    else if (here.nodeValue !== next.nodeValue) here.nodeValue = next.nodeValue
    at = here.nextSibling
  }
  while (at !== null) at = withoutIt(at)
}

/**
 * Removes a node and returns its next sibling.
 * @param {ChildNode} node
 */
function withoutIt(node) {
  const { nextSibling } = node
  node.remove()
  return nextSibling
}

/**
 * @param {ParentNode} within
 * @param {string} selector
 * @returns {HTMLElement | null}
 */
const find = (within, selector) => within.querySelector(selector)

/**
 * An element that the page always contains.
 * @param {string} id
 * @returns {any} its type follows from the page
 */
export const $ = (id) => document.getElementById(id)

/** @type {Record<string, Record<string, string>>} */
const TONES = {
  run: { pending: 'wait', running: 'work', success: 'good', failed: 'bad', cancelled: 'idle' },
  draft: { unpublished: 'idle', clean: 'good', dirty: 'wait', deleted: 'idle' },
  trigger: { armed: 'good', cooling: 'wait', disabled: 'idle' },
}

/**
 * The meaning of a state for its owner, as a colour.
 * @param {string} machine
 * @param {string} state
 */
export const toneOf = (machine, state) => TONES[machine]?.[state.split('.')[0] ?? ''] ?? 'idle'

/**
 * `running.executing` for readers: the outer state in a weaker style, then the inner state.
 * @param {string} machine
 * @param {string} state
 */
export function pill(machine, state) {
  const [outer, inner] = state.split('.')
  return h(
    'span.pill',
    { data: { tone: toneOf(machine, state), state } },
    inner === undefined ? outer : [h('span.outer', {}, outer), ' ', inner],
  )
}

/** @param {import('./types.js').Counted} counted */
export const countText = ({ count, more }) => `${count.toLocaleString('en-US')}${more ? '+' : ''}`
