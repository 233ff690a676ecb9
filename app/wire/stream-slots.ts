// Limits open event streams per process and per client, so that one client cannot use all slots.
import assert from 'node:assert/strict'

interface StreamLimits {
  streamsPerProcess: number
  streamsPerClient: number
}

export interface StreamSlots {
  /** Acquires a slot and returns a function that releases it once. Null: no slot is free. An unknown client is ''. */
  acquire(client: string): (() => void) | null
}

export function makeStreamSlots({ streamsPerProcess, streamsPerClient }: StreamLimits): StreamSlots {
  const openByClient = new Map<string, number>()
  let open = 0

  return {
    acquire(client) {
      const ofClient = openByClient.get(client) ?? 0
      if (open >= streamsPerProcess || (client !== '' && ofClient >= streamsPerClient)) return null
      open += 1
      openByClient.set(client, ofClient + 1)
      let isHeld = true
      return () => {
        if (!isHeld) return
        isHeld = false
        open -= 1
        const held = openByClient.get(client)
        assert(held !== undefined, 'released a stream slot that no client holds')
        if (held > 1) openByClient.set(client, held - 1)
        else openByClient.delete(client)
      }
    },
  }
}
