// Requests to the service of this page, with the key or access token if there is one. `fetch` reads the event streams, because
// EventSource cannot send headers.
import { $ } from './elements.js'

const API = new URL('api/v1/', new URL('.', document.baseURI))
const KEY = 'sluice-api-key'
const RETRY_MS = [500, 1_000, 2_000, 5_000, 10_000]

export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} message
   */
  constructor(status, message) {
    super(message)
    this.status = status
  }
}

/** Three parts. The first part is a JSON object in base64url. */
const TOKEN = /^eyJ[\w-]*\.[\w-]+\.[\w-]+$/

/** @param {HeadersInit} [more] */
const headers = (more = {}) => {
  const key = sessionStorage.getItem(KEY)
  if (key === null) return more
  return TOKEN.test(key) ? { ...more, authorization: `Bearer ${key}` } : { ...more, 'x-api-key': key }
}

/**
 * The response. The reader is asked for a key until the service accepts the key.
 * @param {string} path
 * @param {RequestInit} options
 */
async function request(path, options = {}) {
  for (;;) {
    const response = await fetch(new URL(path, API), { ...options, headers: headers(options.headers) })
    if (response.ok) return response
    const body = await response.json().catch(() => null)
    if (response.status !== 401)
      throw new ApiError(response.status, body?.error?.message ?? response.statusText)
    await askForKey(sessionStorage.getItem(KEY) === null ? '' : 'The service refused this key or token.')
  }
}

/** @type {(path: string, signal?: AbortSignal) => Promise<any>} */
export const getJson = async (path, signal) => (await request(path, { signal })).json()
/** @type {(path: string, signal?: AbortSignal) => Promise<string>} */
export const getText = async (path, signal) => (await request(path, { signal })).text()

/**
 * Saves a response as a file. A plain link could not send the key.
 * @param {string} path
 * @param {string} name
 */
export async function download(path, name) {
  const blob = await (await request(path)).blob()
  save(blob, name)
}

/**
 * @param {Blob} blob
 * @param {string} name
 */
export function save(blob, name) {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(blob)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}

/** @type {Promise<void> | null} */
let asking = null

/** @param {string} problem */
function askForKey(problem) {
  asking ??= new Promise((/** @type {() => void} */ resolve) => {
    const dialog = $('ask-key')
    const input = $('key-input')
    $('key-problem').textContent = problem
    input.value = ''
    $('key').hidden = false
    dialog.addEventListener(
      'close',
      () => {
        asking = null
        const entered = input.value.trim().replace(/^bearer /i, '')
        if (entered !== '') sessionStorage.setItem(KEY, entered)
        resolve()
      },
      { once: true },
    )
    if (!dialog.open) dialog.showModal()
    input.focus()
  })
  return asking
}

export function changeKey() {
  sessionStorage.removeItem(KEY)
  location.reload()
}

export const hasKey = () => sessionStorage.getItem(KEY) !== null

/**
 * Follows an event stream, and reconnects at the last position. `onEvent` gets name and data; the result false ends the stream.
 * `onState` gets `live`, `connecting` and `ended`. Returns a function that stops the stream.
 * @param {string} path
 * @param {{ onEvent: (event: string, data: any) => unknown, onState?: (state: import('./types.js').Connection) => void, lastEventId?: number | string | null }} options
 */
export function follow(path, { onEvent, onState = () => {}, lastEventId = null }) {
  const stopped = new AbortController()
  let position = lastEventId
  let isOver = false

  async function connect() {
    /** @type {Record<string, string>} */
    const more = { accept: 'text/event-stream' }
    if (position !== null) more['last-event-id'] = String(position)
    const response = await request(path, { headers: more, signal: stopped.signal })
    onState('live')
    if (response.body === null) return
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
    let text = ''
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const blocks = (text + value).split('\n\n')
      text = blocks.pop() ?? ''
      for (const block of blocks) {
        const { event, data, id } = parsed(block)
        if (id !== null) position = id
        if (data !== null && onEvent(event, JSON.parse(data)) === false) {
          isOver = true
          stopped.abort()
          return
        }
      }
    }
  }

  async function run() {
    for (let tries = 0; !isOver && !stopped.signal.aborted; ) {
      const began = performance.now()
      try {
        await connect()
      } catch (error) {
        if (error instanceof ApiError && error.status < 500 && error.status !== 429) break
      }
      if (isOver || stopped.signal.aborted) break
      onState('connecting')
      tries = performance.now() - began > 5_000 ? 0 : tries + 1
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS[Math.min(tries, RETRY_MS.length - 1)]))
    }
    if (!stopped.signal.aborted || isOver) onState('ended')
  }
  void run()
  return () => stopped.abort()
}

/** @param {string} block */
function parsed(block) {
  /** @type {{ event: string, data: string | null, id: string | null }} */
  const fields = { event: 'message', data: null, id: null }
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':')
    if (colon <= 0) continue
    const value = line.slice(colon + 1).replace(/^ /, '')
    const name = line.slice(0, colon)
    if (name === 'data') fields.data = fields.data === null ? value : `${fields.data}\n${value}`
    else if (name === 'event' || name === 'id') fields[name] = value
  }
  return fields
}
