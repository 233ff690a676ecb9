import { Code, ConnectError } from '@connectrpc/connect'
import { AuthorError } from '../../lake/pipeline/author-error.ts'

// Failures of a Spark Connect server.

/** The server refused a statement, or it failed there. The message is for the author. */
export class SparkFault extends AuthorError {}

/** The server does not answer any more. The statement may have been executed. */
export class SparkLost extends Error {}

/** Codes of a server or a connection that has gone. */
const GONE: readonly Code[] = [Code.Unavailable, Code.DeadlineExceeded, Code.Aborted, Code.Canceled]
/** Errors of a server that has restarted, and forgot its sessions and executions. */
const FORGOTTEN = /INVALID_HANDLE\.|operation not found|session not found/i

/** The failure of a call, for the author or as a loss. */
export function failureOf(error: unknown): Error {
  const { code, rawMessage } = ConnectError.from(error)
  const message = rawMessage.trim()
  if (code === Code.Unimplemented)
    return new SparkFault(`the server does not speak this version of Spark Connect: ${message}`)
  if (code === Code.Unauthenticated || code === Code.PermissionDenied)
    return new SparkFault(`the server refuses the session: ${message}`)
  if (GONE.includes(code) || FORGOTTEN.test(message))
    return new SparkLost(`the engine does not answer: ${message}`)
  return new SparkFault(message)
}
