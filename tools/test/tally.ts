/** What passed and what failed, over all kinds of tests, told while it happens and again at the end. */

export type Failure = { title: string; detail: string }

export class Tally {
  passed = 0
  readonly failures: Failure[] = []
  readonly #unsteady: Failure[] = []
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

  /**
   * What failed and, tried again in CI, passed. It counts as passed, since a busy machine should not refuse a change; it is told
   * with its failure at the end, since somebody must look into it.
   */
  passSecondTime(failure: Failure) {
    this.passed++
    this.#unsteady.push(failure)
  }

  /** Printed before the failures, to help with them. */
  note(text: string) {
    this.#notes.push(text)
  }

  /** One check of one thing: `detail` undefined means that it holds. */
  async check(title: string, verify: () => Promise<string | undefined>) {
    const startedMs = performance.now()
    const detail = await verify().catch((error: unknown) => String(error))
    const seconds = ((performance.now() - startedMs) / 1000).toFixed(1)
    console.log(`  ${detail === undefined ? 'ok    ' : 'FAILED'} ${title} (${seconds} s)`)
    if (detail === undefined) this.pass()
    else this.fail(title, detail)
  }

  /** Prints each failure with its detail and, as the last line, the sum. Returns the exit code. */
  conclude(): number {
    for (const note of this.#notes) console.log(`\n${note}`)
    for (const { title, detail } of this.#unsteady)
      console.log(`\nUNSTEADY ${title}: it passed only when it was tried again\n${indent(detail)}`)
    for (const { title, detail } of this.failures) console.log(`\nFAILED ${title}\n${indent(detail)}`)
    console.log(`\n${this.passed} passed, ${this.failures.length} failed`)
    return this.failures.length === 0 && this.passed > 0 ? 0 : 1
  }
}

/** A failure that carries a whole log must not bury the others. */
const DETAIL_LINES = 60

function indent(text: string) {
  const lines = text.trim().split('\n')
  const left = lines.length - DETAIL_LINES
  const shown = left > 0 ? [...lines.slice(0, DETAIL_LINES), `... and ${left} lines more`] : lines
  return shown.map((line) => `    ${line}`).join('\n')
}
