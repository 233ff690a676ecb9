import type { Log } from '../core/log.ts'

/** The message of the error in Bun. Bun throws it outside of every callback and closes the channel of the sending process. */
const UNDECODABLE = 'Unable to deserialize data.'

/**
 * Keeps this process alive when an engine process writes a message that cannot be decoded. `EngineProcess` ends an engine whose
 * channel is closed. Any other uncaught error ends this process, as without this handler.
 */
export function surviveUndecodableMessages(log: Log): void {
  process.on('uncaughtException', (error) => {
    if (error instanceof TypeError && error.message === UNDECODABLE) {
      log.error('undecodable message from an engine process: the process is ended')
      return
    }
    process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`)
    process.exit(1)
  })
}
