/** Shorter than the time limit of a test, so that the error names the condition that did not become true. */
const GIVE_UP_MS = 45_000
const POLL_MS = 5
/** Limit of characters for each part of the error: the functions and the last result. */
const SHOWN_CHARACTERS = 1_000

/**
 * Polls `ask` until `holds` accepts its result, and returns this result. On timeout, throws an error that contains both
 * functions and the last result.
 */
export async function until<T>(
  ask: () => T | Promise<T>,
  holds: (answer: T) => unknown = Boolean,
  limitMs = GIVE_UP_MS,
): Promise<T> {
  const giveUpAt = performance.now() + limitMs
  for (;;) {
    const answer = await ask()
    if (holds(answer)) return answer
    if (performance.now() > giveUpAt) throw new Error(missing(ask, holds, answer, limitMs))
    await Bun.sleep(POLL_MS)
  }
}

const missing = (ask: unknown, holds: unknown, answer: unknown, limitMs: number) =>
  [
    `condition not met within ${limitMs / 1_000} s`,
    `  polled: ${String(ask).slice(0, SHOWN_CHARACTERS)}`,
    ...(holds === Boolean ? [] : [`  until: ${String(holds).slice(0, SHOWN_CHARACTERS)}`]),
    `  last result: ${Bun.inspect(answer).slice(0, SHOWN_CHARACTERS)}`,
  ].join('\n')
