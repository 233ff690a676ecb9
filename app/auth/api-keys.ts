// Keys of machines, stored as digests. Each presented key is compared with all digests in constant time. The duration therefore
// reveals neither a nearly correct key nor the position of the correct key.
import { hash, timingSafeEqual } from 'node:crypto'
import type { ApiKey } from '../config/access-settings.ts'

export interface ApiKeys {
  /** The name of the key, or null. */
  find(presented: string): string | null
}

export function makeApiKeys(keys: readonly ApiKey[]): ApiKeys {
  const digests = keys.map(({ name, key }) => ({ name, digest: digest(key) }))
  return {
    find(presented) {
      const presentedDigest = digest(presented)
      let found: string | null = null
      for (const { name, digest } of digests) if (timingSafeEqual(digest, presentedDigest)) found = name
      return found
    },
  }
}

const digest = (text: string) => hash('sha256', text, 'buffer')
