import type { ServerResponse } from 'node:http'

// A client that stops reading its response holds the memory of that response. `server.timeout` of node:http does not help: on
// Bun it counts the bytes that a client sends, not those that it reads. It would end every event stream.

/** Checks per idle time. A stalled connection is closed late by at most one interval between checks. */
const CHECKS = 4

interface StalledAnswers {
  add(answer: ServerResponse): void
  delete(answer: ServerResponse): void
  stop(): void
}

/** Closes a connection whose client has read nothing for `idleMs` while more of the response waits. */
export function closeStalledAnswers(idleMs: number): StalledAnswers {
  const open = new Map<ServerResponse, { progress: string; stalledChecks: number }>()
  const timer = setInterval(checkAll, idleMs / CHECKS)
  timer.unref()
  return {
    add: (answer) => void open.set(answer, { progress: '', stalledChecks: 0 }),
    delete: (answer) => void open.delete(answer),
    stop: () => clearInterval(timer),
  }

  function checkAll() {
    for (const [answer, state] of open) {
      // A response behind another response on its connection has no socket yet.
      const { socket } = answer
      // The close callback may never run for a response whose client has disconnected.
      if (answer.writableFinished || answer.destroyed || socket?.destroyed) {
        open.delete(answer)
        continue
      }
      const progress = `${socket?.bytesWritten} ${answer.writableLength}`
      const isStalled = socket !== null && answer.writableNeedDrain && progress === state.progress
      state.stalledChecks = isStalled ? state.stalledChecks + 1 : 0
      state.progress = progress
      if (state.stalledChecks >= CHECKS) socket?.destroy()
    }
  }
}
