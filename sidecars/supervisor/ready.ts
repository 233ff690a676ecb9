/** When the tree is ready is asked of the API process: it is the one that knows its dependencies. */
import { messageOf } from './refusal.ts'

const POLL_MS = 15
/** After this time we say what is missing. */
const PATIENCE_MS = 15_000

/** Resolves when `/health` and then `/health/ready` answer 200. Children are told nothing and need to tell us nothing. */
export async function untilReady(url: string, warn: (message: string) => void) {
  let isPatient = true
  const startedMs = performance.now()
  for (const path of ['/health', '/health/ready']) {
    for (;;) {
      const problem = await problemAt(`${url}${path}`)
      if (problem === undefined) break
      if (isPatient && performance.now() - startedMs > PATIENCE_MS) {
        isPatient = false
        warn(`still waiting for ${url}${path}: ${problem}`)
      }
      await Bun.sleep(POLL_MS)
    }
  }
}

async function problemAt(url: string): Promise<string | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(PATIENCE_MS) })
    const text = await response.text()
    return response.ok ? undefined : text
  } catch (error) {
    return messageOf(error)
  }
}
