/** What comes over the network and may not come at once: a registry that stumbles must not refuse a change. */
const PAUSES_MS = [2_000, 10_000, 30_000]

/** Does it, and again after a pause when it fails; throws what the last attempt threw. */
export async function insisting<T>(what: string, work: () => Promise<T>): Promise<T> {
  for (const pauseMs of PAUSES_MS) {
    try {
      return await work()
    } catch (error) {
      console.log(`  ${what} failed, once more in ${pauseMs / 1_000} s: ${lastLineOf(error)}`)
      await Bun.sleep(pauseMs)
    }
  }
  return work()
}

const lastLineOf = (error: unknown) => String(error).trim().split('\n').at(-1)
