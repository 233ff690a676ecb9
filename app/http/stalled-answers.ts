import type { ServerResponse } from 'node:http'

// A client that stops reading its answer holds the answer's memory. `server.timeout` of node:http does not help: on Bun
// it counts what a client sends and not what it reads, so it would end every event stream.

/** Looks at an answer per idle time: a connection is closed at most this part of the time too late. */
const LOOKS = 4

export interface StalledAnswers {
  add(answer: ServerResponse): void
  delete(answer: ServerResponse): void
  stop(): void
}

/** Closes the connection of each answer of which the client has read nothing for `idleMs`, while more of it waits. */
export function closeStalledAnswers(idleMs: number): StalledAnswers {
  const open = new Map<ServerResponse, { progress: string; looks: number }>()
  const timer = setInterval(look, idleMs / LOOKS)
  timer.unref()
  return {
    add: (answer) => void open.set(answer, { progress: '', looks: 0 }),
    delete: (answer) => void open.delete(answer),
    stop: () => clearInterval(timer),
  }

  function look() {
    for (const [answer, seen] of open) {
      // Behind another answer on its connection it has no socket yet.
      const { socket } = answer
      // Nobody may be called back for an answer whose client has gone.
      if (answer.writableFinished || answer.destroyed || socket?.destroyed) {
        open.delete(answer)
        continue
      }
      const progress = `${socket?.bytesWritten} ${answer.writableLength}`
      const isStalled = socket !== null && answer.writableNeedDrain && progress === seen.progress
      seen.looks = isStalled ? seen.looks + 1 : 0
      seen.progress = progress
      if (seen.looks >= LOOKS) socket?.destroy()
    }
  }
}
