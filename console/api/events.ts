// Event streams of the service. `fetch` reads them, because EventSource cannot send headers.
import { ApiError } from './errors.ts'
import { API, accepted, authorizedFetch } from './request.ts'

const RETRY_MS = [500, 1_000, 2_000, 5_000, 10_000]
/** A connection that lasted this long was a good one, so the next retry is quick again. */
const STEADY_MS = 5_000

export type Connection = 'connecting' | 'live' | 'ended'

interface Following {
  /** False ends the stream. */
  onEvent(name: string, data: unknown, id: string | null): boolean | undefined
  onState?(state: Connection): void
  lastEventId?: string | null
}

/**
 * Follows an event stream and reconnects at the last position. Returns a function that stops it. A hidden tab holds no
 * connection, because a browser opens only six to a host.
 */
export function follow(path: string, { onEvent, onState = () => {}, lastEventId = null }: Following) {
  const stopped = new AbortController()
  let connection = new AbortController()
  let position = lastEventId
  let isOver = false
  const onVisibility = () => document.hidden && connection.abort()
  document.addEventListener('visibilitychange', onVisibility, { signal: stopped.signal })

  async function connect(): Promise<void> {
    const headers: Record<string, string> = { accept: 'text/event-stream' }
    if (position !== null) headers['last-event-id'] = position
    connection = new AbortController()
    const signal = AbortSignal.any([stopped.signal, connection.signal])
    const response = await accepted(await authorizedFetch(new URL(path, API), { headers, signal }))
    onState('live')
    for await (const block of blocksOf(response)) {
      const { name, data, id } = parsed(block)
      if (id !== null) position = id
      if (data === null) continue
      if (onEvent(name, JSON.parse(data), id) === false) {
        isOver = true
        stopped.abort()
        return
      }
    }
  }

  async function run(): Promise<void> {
    for (let tries = 0; !stopped.signal.aborted; ) {
      await untilVisible(stopped.signal)
      if (stopped.signal.aborted) break
      const began = performance.now()
      try {
        await connect()
      } catch (error) {
        if (error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429)
          break
      }
      if (stopped.signal.aborted) break
      onState('connecting')
      tries = performance.now() - began > STEADY_MS ? 0 : tries + 1
      const pauseMs = RETRY_MS[Math.min(tries, RETRY_MS.length - 1)]
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
    }
    if (isOver || !stopped.signal.aborted) onState('ended')
  }
  void run()
  return () => stopped.abort()
}

/** Resolves when the tab is visible, or the signal is aborted. */
const untilVisible = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (!document.hidden) return resolve()
    document.addEventListener('visibilitychange', () => resolve(), { once: true, signal })
    signal.addEventListener('abort', () => resolve(), { once: true })
  })

async function* blocksOf(response: Response): AsyncGenerator<string> {
  if (response.body === null) return
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const blocks = (text + value).split('\n\n')
    text = blocks.pop() ?? ''
    yield* blocks
  }
}

function parsed(block: string): { name: string; data: string | null; id: string | null } {
  const fields: { name: string; data: string | null; id: string | null } = {
    name: 'message',
    data: null,
    id: null,
  }
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':')
    if (colon <= 0) continue
    const value = line.slice(colon + 1).replace(/^ /, '')
    const field = line.slice(0, colon)
    if (field === 'data') fields.data = fields.data === null ? value : `${fields.data}\n${value}`
    else if (field === 'event') fields.name = value
    else if (field === 'id') fields.id = value
  }
  return fields
}
