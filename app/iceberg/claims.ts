import type { TableName } from '../../ground/names.ts'
import type { Reader } from '../access/code-visibility.ts'

/** Reads its branch and its inputs. Writes its target table while the branch is open. */
export type AttemptClaims = {
  kind: 'attempt'
  branch: string
  runId: string
  attempt: number
  target: TableName
  /** Milliseconds since 1970. */
  expiresAt: number
}

/**
 * Reads main up to a commit, and one branch over main at that commit. A preview also reads the current landing files of one namespace. With a `reader`, the token sees
 * only what that caller may see.
 */
export type ReadClaims = {
  kind: 'read'
  commit: number
  branch?: string
  landing?: string
  reader?: Reader
  expiresAt: number
}

export type Claims = AttemptClaims | ReadClaims
