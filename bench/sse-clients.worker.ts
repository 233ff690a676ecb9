// Thousands of subscribers of run logs on raw sockets. They have their own thread, apart from the thread that measures.
import type { Socket } from 'bun'
import type { SseResult, SseTask } from './sse-task.ts'

declare const self: Worker

/** Number of connections that are opened concurrently. */
const OPENING = 64

interface Subscriber {
  runId: string
  socket: Socket<Subscriber> | null
  /** Received text after the last complete event. */
  rest: string
  /** Number of the last received line; 0 before the first. */
  line: number
  eventId: string
  /** Time of the connection. Lines written before it are a replay, so their latency is not counted. */
  catchesUpFrom: number
  onOpen: () => void
}

self.onmessage = async ({ data }: MessageEvent<SseTask>) => self.postMessage(await follow(data))

async function follow(task: SseTask): Promise<SseResult> {
  const result: SseResult = {
    connectMs: 0,
    lines: 0,
    latencies: [],
    lost: 0,
    doubled: 0,
    reconnected: 0,
    silent: 0,
  }
  let isCounting = false
  const subscribers = Array.from(
    { length: task.subscribers },
    (_, n): Subscriber => ({
      runId: task.runIds[n % task.runIds.length] ?? '',
      socket: null,
      rest: '',
      line: 0,
      eventId: '',
      catchesUpFrom: 0,
      onOpen: () => {},
    }),
  )

  const open = (subscriber: Subscriber) =>
    new Promise<void>((resolve, reject) => {
      subscriber.rest = ''
      subscriber.catchesUpFrom = Date.now()
      subscriber.onOpen = resolve
      void Bun.connect<Subscriber>({
        hostname: task.host,
        port: task.port,
        data: subscriber,
        socket: {
          open(socket) {
            subscriber.socket = socket
            const resume = subscriber.eventId === '' ? '' : `last-event-id: ${subscriber.eventId}\r\n`
            socket.write(
              `GET /api/v1/runs/${subscriber.runId}/logs HTTP/1.1\r\nhost: ${task.host}:${task.port}\r\naccept: text/event-stream\r\n${resume}\r\n`,
            )
          },
          data: (_, bytes) => consume(subscriber, bytes),
          error: (_, error) => reject(error),
        },
      }).catch(reject)
    })

  function consume(subscriber: Subscriber, bytes: Uint8Array) {
    const events = (subscriber.rest + Buffer.from(bytes).toString('latin1')).split('\n\n')
    subscriber.rest = events.pop() ?? ''
    subscriber.onOpen()
    if (subscriber.rest.startsWith('HTTP') || events[0]?.startsWith('HTTP'))
      expectOk(events[0] ?? subscriber.rest)
    for (const event of events) {
      const found = /id: (\d+)\nevent: log\ndata: .*"message":"(\d+) (\d+)"/.exec(event)
      if (found === null) continue
      const line = Number(found[2])
      if (line <= subscriber.line) result.doubled += 1
      else result.lost += line - subscriber.line - 1
      subscriber.line = line
      subscriber.eventId = found[1] ?? ''
      if (!isCounting) continue
      result.lines += 1
      const writtenAt = Number(found[3])
      if (writtenAt > subscriber.catchesUpFrom) result.latencies.push(Date.now() - writtenAt)
    }
  }

  function expectOk(head: string) {
    if (!head.startsWith('HTTP/1.1 200')) throw new Error(`no stream: ${head.slice(0, 80)}`)
  }

  const began = performance.now()
  const queue = [...subscribers]
  await Promise.all(
    Array.from({ length: OPENING }, async () => {
      for (let next = queue.pop(); next !== undefined; next = queue.pop()) await open(next)
    }),
  )
  result.connectMs = performance.now() - began
  await Bun.sleep(2_000)
  isCounting = true
  const until = performance.now() + task.followMs
  const cut = async (subscriber: Subscriber | undefined) => {
    if (subscriber === undefined) return
    subscriber.socket?.terminate()
    await open(subscriber)
    result.reconnected += 1
  }
  const cuts: Promise<void>[] = []
  for (let n = 0; n < task.reconnects; n++) {
    cuts.push(cut(subscribers[Math.floor((n / task.reconnects) * subscribers.length)]))
    await Bun.sleep(Math.max(0, (until - performance.now()) / (task.reconnects - n)))
  }
  await Promise.all(cuts)
  await Bun.sleep(Math.max(0, until - performance.now()) + 1_500)
  const latest = new Map<string, number>()
  for (const { runId, line } of subscribers) latest.set(runId, Math.max(line, latest.get(runId) ?? 0))
  for (const { runId, line, socket } of subscribers) {
    if (line < (latest.get(runId) ?? 0) - 1) result.silent += 1
    socket?.terminate()
  }
  result.latencies.sort((a, b) => a - b)
  return result
}
