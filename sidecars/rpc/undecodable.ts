import type { Log } from '../core/log.ts'

/** How Bun words it. It throws outside of every callback, and closes the channel of that process. */
const UNDECODABLE = 'Unable to deserialize data.'

/**
 * Keeps this process alive when an engine process writes a message to its channel that cannot be decoded: EngineProcess ends
 * an engine whose channel is closed. Any other uncaught error ends this process, as without this.
 */
export function surviveUndecodableMessages(log: Log): void {
  process.on('uncaughtException', (error) => {
    if (error instanceof TypeError && error.message === UNDECODABLE) {
      log.error('an engine process wrote a message that cannot be decoded')
      return
    }
    process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`)
    process.exit(1)
  })
}
