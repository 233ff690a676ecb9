// Keys of machines. They are known by their digests, all of which are compared with each key that is presented: how long that
// takes says neither which key was nearly right nor how many there are before the right one.
import { hash, timingSafeEqual } from 'node:crypto'
import type { ApiKey } from '../core/config.ts'

export interface ApiKeys {
  /** The name of the key, or null. */
  find(presented: string): string | null
}

export function makeApiKeys(keys: readonly ApiKey[]): ApiKeys {
  const known = keys.map(({ name, key }) => ({ name, digest: digest(key) }))
  return {
    find(presented) {
      const asked = digest(presented)
      let found: string | null = null
      for (const { name, digest } of known) if (timingSafeEqual(digest, asked)) found = name
      return found
    },
  }
}

const digest = (text: string) => hash('sha256', text, 'buffer')
