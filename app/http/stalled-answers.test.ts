import { expect, test } from 'bun:test'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { closeStalledAnswers } from './stalled-answers.ts'

const IDLE_MS = 400
const PIECE = Buffer.alloc(65_536)
const PIECES = 500

/** Writes chunks as fast as the client reads them. */
function answerLong(answer: ServerResponse) {
  let left = PIECES
  const more = () => {
    while (left-- > 0) if (!answer.write(PIECE)) return void answer.once('drain', more)
    answer.end()
  }
  more()
}

test('closes only the connection of a client that stops reading', async () => {
  const stalled = closeStalledAnswers(IDLE_MS)
  const closed: string[] = []
  const server = createServer((request, answer) => {
    stalled.add(answer)
    answer.on('close', () => {
      stalled.delete(answer)
      closed.push(`${request.url} ${answer.writableFinished}`)
    })
    if (request.url === '/quiet') answer.write('an event')
    else answerLong(answer)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const open = (path: string) => {
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
    return socket
  }
  try {
    const quiet = open('/quiet').resume()
    const reader = open('/read').resume()
    const began = performance.now()
    const gone = Promise.withResolvers<void>()
    const unread = open('/unread').pause()
    const poll = setInterval(() => closed.length === 2 && gone.resolve(), 10)
    await gone.promise
    clearInterval(poll)
    expect(closed.toSorted()).toEqual(['/read true', '/unread false'])
    expect(performance.now() - began).toBeGreaterThan(IDLE_MS)
    expect(quiet.destroyed).toBe(false)
    for (const socket of [quiet, reader, unread]) socket.destroy()
  } finally {
    stalled.stop()
    server.closeAllConnections()
    server.close()
  }
})
