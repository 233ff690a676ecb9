/** Counts passed and failed tests of all kinds. Prints results as they arrive, and all failures at the end. */

type Failure = { title: string; detail: string }

export class Tally {
  passed = 0
  readonly failures: Failure[] = []
  readonly #notes: string[] = []

  heading(text: string) {
    console.log(`\n${text}`)
  }

  pass(count = 1) {
    this.passed += count
  }

  fail(title: string, detail: string) {
    this.failures.push({ title, detail })
  }

  /** Adds a text that is printed before the failures and helps to explain them. */
  note(text: string) {
    this.#notes.push(text)
  }

  /** Runs one check. It passes when `verify` resolves with undefined; any other text is the detail of the failure. */
  async check(title: string, verify: () => Promise<string | undefined>) {
    const startedMs = performance.now()
    const detail = await verify().catch((error: unknown) => String(error))
    const seconds = ((performance.now() - startedMs) / 1000).toFixed(1)
    console.log(`  ${detail === undefined ? 'ok    ' : 'FAILED'} ${title} (${seconds} s)`)
    if (detail === undefined) return this.pass()
    console.log(indent(detail))
    this.fail(title, detail)
  }

  /** Prints each failure with its detail. The last line holds the totals. Returns the exit code. */
  conclude(): number {
    for (const note of this.#notes) console.log(`\n${note}`)
    for (const { title, detail } of this.failures) console.log(`\nFAILED ${title}\n${indent(detail)}`)
    console.log(`\n${this.passed} passed, ${this.failures.length} failed`)
    return this.failures.length === 0 && this.passed > 0 ? 0 : 1
  }
}

/** Limits the detail of a failure, so that a long log does not hide other failures. */
const DETAIL_LINES = 60

function indent(text: string) {
  const lines = text.trim().split('\n')
  const hidden = lines.length - DETAIL_LINES
  const shown = hidden > 0 ? [...lines.slice(0, DETAIL_LINES), `... and ${hidden} more lines`] : lines
  return shown.map((line) => `    ${line}`).join('\n')
}
