/**
 * The protocol between a supervisor and its children. `SUPERVISED=1` means that stdin is a pipe held by the parent. The pipe
 * ends with the parent, even after kill -9, and then the child must end as well.
 */
import process from 'node:process'
import { setTimeout } from 'node:timers'

/** A child exits after this time even if its shutdown is unfinished. Supervisors wait no longer. */
const FAREWELL_MS = 8_000

type Env = Record<string, string | undefined>

/** Shuts the process down once, in order, after a signal or the end of the parent. */
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

/** Calls `onEnd` once after the end of the parent. The process exits soon afterwards. Without a supervisor, does nothing. */
export function endWithParent({ SUPERVISED }: Env, onEnd: () => void) {
  if (SUPERVISED !== '1') return
  process.stdin.once('end', () => {
    setTimeout(() => process.exit(1), FAREWELL_MS).unref()
    onEnd()
  })
  process.stdin.resume()
}
