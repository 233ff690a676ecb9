/**
 * The convention between a supervisor and what it starts: `SUPERVISED=1` in the environment says that stdin is a pipe
 * held by the parent. It ends when the parent ends, however it ends (kill -9 too), and then the child must end as well.
 */
import process from 'node:process'
import { setTimeout } from 'node:timers'

/** A child that is still busy ending after this time is ended the hard way; a supervisor gives none of them longer. */
const FAREWELL_MS = 8_000

type Env = Record<string, string | undefined>

/** Ends the process once, and in order: when a signal asks for it, or when the parent is gone. */
export function endInOrder(env: Env, stop: () => Promise<void>) {
  let isEnding = false
  const end = () => {
    if (isEnding) return
    isEnding = true
    void stop().then(() => process.exit(0))
  }
  process.on('SIGTERM', end)
  process.on('SIGINT', end)
  endWithParent(env, end)
}

/** Calls `onEnd` once when the parent is gone; the process then exits soon, whatever that does. Does nothing when not supervised. */
export function endWithParent({ SUPERVISED }: Env, onEnd: () => void) {
  if (SUPERVISED !== '1') return
  process.stdin.once('end', () => {
    setTimeout(() => process.exit(1), FAREWELL_MS).unref()
    onEnd()
  })
  process.stdin.resume()
}
