import { setTimeout as wait } from 'node:timers/promises'

/** Waits. Rejects with the signal's reason when the signal is aborted, unlike Node's timer, whose AbortError hides the reason. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await wait(ms, undefined, { signal }).catch((error: unknown) => {
    signal?.throwIfAborted()
    throw error
  })
}
