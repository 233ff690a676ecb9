import type { Line } from './use-log.ts'

// The API gives the results of a run's tests and its cost as lines of the log. The runner writes them in this form.

export interface TestOutcome {
  name: string
  isPassed: boolean
  /** For example `with value 1 (severity error) in 3 ms`. */
  detail: string
  /** Failing rows. */
  samples: readonly string[]
}

export interface Outcome {
  tests: readonly TestOutcome[]
  /** For example `0.01 CPU s, 1.3 kB read`. */
  cost: string | null
}

const ATTEMPT = /^attempt \d+: /
const RESULT = /^test (\S+): (passed|failed) (.*)$/s
const SAMPLE = /^test (\S+): (.*)$/s
const COST = /^cost: (.*)$/s

/** The tests and the cost of the latest attempt. */
export function outcomeOf(lines: readonly Line[]): Outcome {
  let tests = new Map<string, TestOutcome>()
  let cost: string | null = null
  for (const { message } of lines) {
    if (ATTEMPT.test(message)) {
      tests = new Map()
      cost = null
    }
    cost = COST.exec(message)?.[1] ?? cost
    const [, name = '', result, detail = ''] = RESULT.exec(message) ?? []
    if (result !== undefined) {
      tests.set(name, { name, isPassed: result === 'passed', detail, samples: [] })
      continue
    }
    const [, of = '', sample = ''] = SAMPLE.exec(message) ?? []
    const test = tests.get(of)
    if (test !== undefined) tests.set(of, { ...test, samples: [...test.samples, sample] })
  }
  return { tests: [...tests.values()], cost }
}
