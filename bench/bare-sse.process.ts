// The limit of event streams on this machine: a bare server that writes the same lines to as many streams, from memory.
import { LINE_MS } from './sse-task.ts'

const groups = new Map<string, Set<ReadableStreamDefaultController<Uint8Array>>>()
const encoder = new TextEncoder()

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  fetch(request) {
    const run = new URL(request.url).pathname
    let leave = () => {}
    const stream = new ReadableStream<Uint8Array>({
      start(controller) {
        const group = groups.get(run) ?? startGroup(run)
        group.add(controller)
        leave = () => void group.delete(controller)
        controller.enqueue(encoder.encode('retry: 2000\n\n'))
      },
      cancel: () => leave(),
    })
    return new Response(stream, { headers: { 'content-type': 'text/event-stream' } })
  },
})

function startGroup(run: string) {
  const group = new Set<ReadableStreamDefaultController<Uint8Array>>()
  groups.set(run, group)
  let line = 0
  setTimeout(
    () =>
      setInterval(() => {
        line += 1
        const data = JSON.stringify({
          timestamp: new Date(),
          level: 'info',
          message: `${line} ${Date.now()}`,
        })
        const bytes = encoder.encode(`id: ${line}\nevent: log\ndata: ${data}\n\n`)
        for (const controller of group) controller.enqueue(bytes)
      }, LINE_MS),
    Math.random() * LINE_MS,
  )
  return group
}

console.log(server.url.href)
