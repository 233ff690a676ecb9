/** Pauses between retries of downloads. A temporary failure of a registry must not fail the tests. */
const PAUSES_MS = [2_000, 10_000, 30_000]

/** Retries `work` after each pause when it fails. Throws the error of the last attempt. */
export async function insisting<T>(what: string, work: () => Promise<T>): Promise<T> {
  for (const pauseMs of PAUSES_MS) {
    try {
      return await work()
    } catch (error) {
      console.log(`  ${what} failed, retry in ${pauseMs / 1_000} s: ${lastLineOf(error)}`)
      await Bun.sleep(pauseMs)
    }
  }
  return work()
}

const lastLineOf = (error: unknown) => String(error).trim().split('\n').at(-1)
