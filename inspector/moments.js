// Times and durations. Ages use the server's clock, because the reader's clock may be wrong.
import { h } from './elements.js'

let offsetMs = 0

/**
 * Sets the clock from the time in a server's answer.
 * @param {string} now
 */
export function setClock(now) {
  offsetMs = new Date(now).getTime() - Date.now()
}

export const serverNow = () => Date.now() + offsetMs

/**
 * `412 ms`, `3.2 s`, `4 m 10 s`, `2 h 5 m`, `3 d 4 h`.
 * @param {number} ms
 */
export function duration(ms) {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 10_000) return `${(ms / 1_000).toFixed(1)} s`
  const seconds = Math.floor(ms / 1_000)
  if (seconds < 60) return `${seconds} s`
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} m ${seconds % 60} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 1_440) return `${Math.floor(minutes / 60)} h ${minutes % 60} m`
  return `${Math.floor(minutes / 1_440)} d ${Math.floor((minutes % 1_440) / 60)} h`
}

/**
 * `now`, `12 s ago`, `in 40 s`: one unit is enough in a list.
 * @param {string} at
 */
export function relative(at) {
  const ms = serverNow() - new Date(at).getTime()
  const seconds = Math.round(Math.abs(ms) / 1_000)
  if (seconds < 2) return 'now'
  const [amount, unit] =
    seconds < 90
      ? [seconds, 's']
      : seconds < 5_400
        ? [Math.round(seconds / 60), 'min']
        : seconds < 129_600
          ? [Math.round(seconds / 3_600), 'h']
          : [Math.round(seconds / 86_400), 'd']
  return ms < 0 ? `in ${amount} ${unit}` : `${amount} ${unit} ago`
}

/** @param {number} number */
const two = (number) => String(number).padStart(2, '0')

/**
 * `2026-11-21 18:42:58.821`, in the reader's time zone.
 * @param {string} at
 */
export function absolute(at) {
  const date = new Date(at)
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
  return `${day} ${clock(at)}`
}

/**
 * `18:42:58.821`
 * @param {string} at
 */
export function clock(at) {
  const date = new Date(at)
  const ms = String(date.getMilliseconds()).padStart(3, '0')
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${ms}`
}

/**
 * An age that updates itself, with the exact time as its title.
 * @param {string} at
 */
export const ago = (at) =>
  h('time', { datetime: at, title: `${absolute(at)} · ${at}`, data: { ago: at } }, relative(at))

/**
 * A growing duration since a time.
 * @param {string} at
 */
export const since = (at) =>
  h(
    'time',
    { datetime: at, title: `since ${absolute(at)}`, data: { since: at } },
    duration(serverNow() - new Date(at).getTime()),
  )

/**
 * @param {string} name of the data attribute
 * @returns {Iterable<any>}
 */
const timesWith = (name) => document.querySelectorAll(`time[data-${name}]`)

setInterval(() => {
  for (const element of timesWith('ago')) {
    const text = relative(element.dataset.ago)
    if (element.textContent !== text) element.textContent = text
  }
  for (const element of timesWith('since')) {
    const text = duration(Math.max(0, serverNow() - new Date(element.dataset.since).getTime()))
    if (element.textContent !== text) element.textContent = text
  }
}, 1_000)
