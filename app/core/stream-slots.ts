// Limits open event streams per process and per client, so that one client cannot use all slots.
import assert from 'node:assert/strict'

export interface StreamLimits {
  streamsPerProcess: number
  streamsPerClient: number
}

export interface StreamSlots {
  /** Acquires a slot and returns a function that releases it once. Null: no slot is free. An unknown client is ''. */
  take(client: string): (() => void) | null
}

export function makeStreamSlots({ streamsPerProcess, streamsPerClient }: StreamLimits): StreamSlots {
  const takenBy = new Map<string, number>()
  let taken = 0

  return {
    take(client) {
      const ofClient = takenBy.get(client) ?? 0
      if (taken >= streamsPerProcess || (client !== '' && ofClient >= streamsPerClient)) return null
      taken += 1
      takenBy.set(client, ofClient + 1)
      let isTaken = true
      return () => {
        if (!isTaken) return
        isTaken = false
        taken -= 1
        const left = takenBy.get(client)
        assert(left !== undefined, 'a place is given back that nobody has taken')
        if (left > 1) takenBy.set(client, left - 1)
        else takenBy.delete(client)
      }
    },
  }
}
