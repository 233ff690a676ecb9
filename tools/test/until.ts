/** Less than a test may take: then it is this that fails, and says what did not come. */
const GIVE_UP_MS = 45_000
const POLL_MS = 5
/** Of the last answer and of what was asked, each. */
const SHOWN_CHARACTERS = 1_000

/** Waits for a fact instead of sleeping, asking again and again; what was asked and its last answer are in the error. */
export async function until<T>(
  ask: () => T | Promise<T>,
  holds: (answer: T) => unknown = Boolean,
): Promise<T> {
  const giveUpAt = performance.now() + GIVE_UP_MS
  for (;;) {
    const answer = await ask()
    if (holds(answer)) return answer
    if (performance.now() > giveUpAt) throw new Error(missing(ask, holds, answer))
    await Bun.sleep(POLL_MS)
  }
}

const missing = (ask: unknown, holds: unknown, answer: unknown) =>
  [
    `it did not come to pass in ${GIVE_UP_MS / 1_000} s`,
    `  asked: ${String(ask).slice(0, SHOWN_CHARACTERS)}`,
    ...(holds === Boolean ? [] : [`  until: ${String(holds).slice(0, SHOWN_CHARACTERS)}`]),
    `  last answer: ${Bun.inspect(answer).slice(0, SHOWN_CHARACTERS)}`,
  ].join('\n')
