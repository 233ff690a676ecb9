// The log of one run, followed line by line.
import { download, follow } from './api.js'
import { fill, h } from './elements.js'
import { absolute, clock } from './moments.js'

const LINES_MAX = 2_000

/**
 * Fills a panel with a run's log, and follows the log to its end. Returns a function that stops this.
 * @param {HTMLElement} panel
 * @param {string} id
 */
export function showLog(panel, id) {
  const list = h('ol.log')
  const state = h('p.note', {}, 'Reading…')
  fill(
    panel,
    h(
      'p.note',
      {},
      h(
        'button.icon-button',
        {
          type: 'button',
          id: 'export-log',
          onclick: () => download(`runs/${id}/logs`, `run-${id}-log.json`),
        },
        'The log as JSON',
      ),
    ),
    list,
    state,
  )
  let count = 0
  return follow(`runs/${id}/logs`, {
    onEvent(event, data) {
      if (event === 'status' || event === 'error') {
        state.textContent = event === 'error' ? data.message : count === 0 ? 'The log is empty.' : ''
        return false
      }
      if (event !== 'log') return true
      state.textContent = 'Following…'
      count += 1
      if (list.childElementCount >= LINES_MAX) list.firstElementChild?.remove()
      const isAtEnd = panel.scrollTop + panel.clientHeight >= panel.scrollHeight - 40
      list.append(
        h(
          'li',
          { data: { level: data.level } },
          h('time', { title: absolute(data.timestamp) }, clock(data.timestamp)),
          h('span.level', {}, data.level),
          h('span', {}, data.message),
        ),
      )
      if (isAtEnd) panel.scrollTop = panel.scrollHeight
      return true
    },
  })
}
