import { problemText } from '../../lake/pipeline/config.ts'
import { parseTest, testValue } from '../../lake/pipeline/quality.ts'
import {
  type Asked,
  collectTemplate,
  renderTemplate,
  type TemplateResolver,
  type TemplateVariables,
} from '../../lake/pipeline/template.ts'
import type { Level } from './attempt-log.ts'
import type { TestResult } from './attempts.ts'
import { EngineFault } from './engine-messages.ts'
import type { EngineLease } from './engine-pool.ts'
import { limits } from './limits.ts'
import type { NamedTest } from './pipeline-files.ts'
import { counted, reasonOf, since } from './wording.ts'

// Quality tests judge data before any reader can see it. A test that cannot be evaluated has failed, with its own
// severity; only a lost engine or a cancel ends them all.

export type WriteLog = (level: Level, message: string) => void

/** What the tests' templates ask for. A template that cannot be rendered asks for nothing, and fails when it is run. */
export function askedByTests(tests: readonly NamedTest[], variables: TemplateVariables): Asked[] {
  return tests.flatMap((test) => {
    try {
      return [collectTemplate(templateOf(test), variables)]
    } catch (error) {
      if (reasonOf(error) === null) throw error
      return []
    }
  })
}

export interface TestRun {
  tests: readonly NamedTest[]
  variables: TemplateVariables
  resolver: TemplateResolver
  engine: EngineLease
  /** An open instance in which every table the tests read can be found. */
  instance: number
  signal: AbortSignal
  write: WriteLog
}

/** Runs the tests one after the other. Throws EngineEnded, and the signal's reason. */
export async function runTests({ tests, ...context }: TestRun): Promise<TestResult[]> {
  const results: TestResult[] = []
  for (const test of tests) results.push(await runTest(test, context))
  return results
}

async function runTest(named: NamedTest, context: Omit<TestRun, 'tests'>): Promise<TestResult> {
  const { variables, resolver, engine, instance, signal, write } = context
  const started = performance.now()
  const { test, errors, warnings } = parseTest(named.name, named.file)
  for (const problem of [...errors, ...warnings]) write('warn', problemText(problem))
  const { severity, name } = test
  const ended = () => ({ name, severity, durationMs: Math.round(performance.now() - started) })
  const template = templateOf(named)
  let sql = ''
  try {
    sql = renderTemplate(template, variables, resolver)
    const sampleRows = limits.sampleRows
    const outcome = await engine.call({ kind: 'judge', number: instance, sql, sampleRows }, signal)
    const value = testValue({ ...outcome, first: outcome.first ?? undefined })
    const passed = value === 0
    if (passed) write('info', `test ${name}: passed in ${since(started)}`)
    else {
      write(
        severity === 'error' ? 'error' : 'warn',
        `test ${name}: failed with ${value} (severity ${severity}) in ${since(started)}`,
      )
      const isCount = outcome.rowCount === 1 && outcome.columnTypes.length === 1
      for (const sample of isCount ? [] : outcome.samples) write('info', `test ${name}: ${sample}`)
    }
    return { ...ended(), passed, value: BigInt(value), error: '' }
  } catch (error) {
    signal.throwIfAborted()
    const isOwnFault =
      error instanceof EngineFault || (error instanceof Error && error.name === 'TemplateError')
    const reason = isOwnFault ? reasonOf(error, { ...template, sql }) : null
    if (reason === null) throw error
    write(
      severity === 'error' ? 'error' : 'warn',
      `test ${name}: failed, it has an error (severity ${severity}): ${reason}`,
    )
    return { ...ended(), passed: false, value: 0n, error: reason }
  }
}

/** `3 tests passed, 1 failed`. */
export function tally(results: readonly TestResult[]): string {
  const failed = results.filter(({ passed }) => !passed).length
  return `${counted(results.length - failed, 'test')} passed, ${failed} failed`
}

const templateOf = ({ file }: NamedTest) => ({ file: file.path, source: file.text })
