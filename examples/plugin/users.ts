import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

interface User {
  id: string
  name: string
  roles: string[]
}

export interface Users {
  /** The user with this token, or null. */
  withToken(token: string): User | null
  has(id: string): boolean
}

/**
 * Reads users and the digests of their tokens. A real plugin would query a directory. Tokens must be long and random, because
 * the digests have no salt.
 */
export function readUsers(file: string): Users {
  const listed: (User & { token_sha256: string })[] = JSON.parse(readFileSync(file, 'utf8'))
  const byDigest = new Map(listed.map(({ token_sha256, ...user }) => [token_sha256, user]))
  const ids = new Set(listed.map(({ id }) => id))
  return {
    withToken: (token) => byDigest.get(createHash('sha256').update(token).digest('hex')) ?? null,
    has: (id) => ids.has(id),
  }
}
