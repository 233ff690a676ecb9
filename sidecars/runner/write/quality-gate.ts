import { setImmediate as nextTurn } from 'node:timers/promises'
import type { TableName } from '../../../ground/names.ts'
import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import { problemText } from '../../../lake/pipeline/config.ts'
import { parseTest, testValue } from '../../../lake/pipeline/quality.ts'
import { TemplateError } from '../../../lake/pipeline/template.ts'
import { counted, since } from '../../core/amounts.ts'
import type { SparkSession } from '../../spark/session.ts'
import { explained, type ParsedIn } from '../author/slips.ts'
import { reasonOf } from '../author/wording.ts'
import { limits } from '../core/limits.ts'
import { EngineFault } from '../engine/engine-messages.ts'
import type { Dialect } from '../engine/sql-names.ts'
import type { Level } from '../session/attempt-log.ts'
import type { Draft, Inputs } from '../session/inputs.ts'
import { lookedAt } from '../session/look.ts'
import type { NamedTest } from '../session/pipeline-files.ts'
import { judgeQuery } from '../session/spark-sql.ts'

// Quality tests judge data before any reader can see it. A test that cannot be evaluated fails with its own severity. Only a
// lost engine or a cancel ends all tests.

type WriteLog = (level: Level, message: string) => void

/** A test with its draft, or with the error of its template. */
export interface DraftedTest {
  test: NamedTest
  draft: Draft | TemplateError
}

/** Renders each test in a turn of its own. `spark` is the dialect of tests in Spark SQL. */
export async function draftTests(
  tests: readonly NamedTest[],
  inputs: Inputs,
  spark: Dialect,
): Promise<DraftedTest[]> {
  const drafted: DraftedTest[] = []
  for (const test of tests) {
    await nextTurn()
    drafted.push({ test, draft: await draftTest(test, inputs, spark) })
  }
  return drafted
}

async function draftTest(
  { name, file }: NamedTest,
  inputs: Inputs,
  spark: Dialect,
): Promise<Draft | TemplateError> {
  const { engine } = parseTest(name, file).test
  try {
    const template = { file: file.path, source: file.text }
    return await inputs.draft(template, engine === 'spark' ? { dialect: spark } : {})
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error
    return error
  }
}

/** The drafts of all tests whose templates are valid. */
export const draftsOf = (tests: readonly DraftedTest[]): Draft[] =>
  tests.flatMap(({ draft }) => (draft instanceof TemplateError ? [] : [draft]))

/** The drafts of the tests that DuckDB executes. */
export const ofDuckdb = (tests: readonly DraftedTest[]): Draft[] =>
  draftsOf(tests).filter(({ dialect }) => dialect.engine === 'duckdb')

/** An open instance that shows every table that the tests read. */
interface Bench extends ParsedIn {
  inputs: Inputs
  /** The table that is tested. */
  own: TableName
  write: WriteLog
  /** The session for tests in Spark SQL. */
  spark(): Promise<SparkSession>
}

/** Runs the tests one after the other. Throws EngineEnded, and the signal's reason. */
export async function runTests(tests: readonly DraftedTest[], bench: Bench): Promise<TestResult[]> {
  const results: TestResult[] = []
  for (const test of tests) results.push(await runTest(test, bench))
  return results
}

/** Throws EngineEnded, and the signal's reason. */
export async function runTest(
  { test: { name, file }, draft }: DraftedTest,
  bench: Bench,
): Promise<TestResult> {
  const { engine, instance, signal, write } = bench
  const started = performance.now()
  const { test, errors, warnings } = parseTest(name, file)
  const { severity } = test
  const failing: Level = severity === 'error' ? 'error' : 'warn'
  for (const problem of [...errors, ...warnings]) write('warn', problemText(problem))
  const ended = () => ({ name, severity, durationMs: Math.round(performance.now() - started) })
  try {
    if (draft instanceof TemplateError) throw draft
    const sql = await bench.inputs.sqlOf(draft)
    const sampleRows = limits.sampleRows
    const outcome =
      draft.dialect.engine === 'spark'
        ? await judgeQuery(await bench.spark(), sql)
        : await engine.call(
            {
              kind: 'judge',
              number: instance,
              sql: draft.zones.length === 0 ? sql : await lookedAt(sql, bench),
              sampleRows,
            },
            signal,
          )
    const value = testValue({ ...outcome, first: outcome.first ?? undefined })
    const isCount = outcome.rowCount === 1 && outcome.columnTypes.length === 1
    const samples = value === 0 || isCount ? [] : outcome.samples
    if (value === 0) write('info', `test ${name}: passed in ${since(started)}`)
    else {
      write(failing, `test ${name}: failed with value ${value} (severity ${severity}) in ${since(started)}`)
      for (const sample of samples) write('info', `test ${name}: ${sample}`)
    }
    return { ...ended(), passed: value === 0, value: BigInt(value), error: '', samples }
  } catch (error) {
    signal.throwIfAborted()
    const reason = faultOf(
      draft instanceof TemplateError
        ? error
        : await explained(error, await bench.inputs.textOf(draft, bench.own), bench),
      draft,
    )
    if (reason === null) throw error
    write(failing, `test ${name}: failed with an error (severity ${severity}): ${reason}`)
    return { ...ended(), passed: false, value: 0n, error: reason, samples: [] }
  }
}

/** The result of a test that could not be evaluated. */
export const failedTest = ({ name, file }: NamedTest, error: string): TestResult => ({
  name,
  severity: parseTest(name, file).test.severity,
  durationMs: 0,
  passed: false,
  value: 0n,
  error,
  samples: [],
})

/** The message of an error in the test itself; null: the error has another cause. */
function faultOf(error: unknown, draft: Draft | TemplateError): string | null {
  if (error instanceof TemplateError) return error.message
  const isOfTest = error instanceof EngineFault || error instanceof AuthorError
  if (!isOfTest || draft instanceof TemplateError) return null
  return reasonOf(error, { ...draft.template, sql: draft.sql })
}

/** For example `3 tests passed, 1 failed`. */
export function tally(results: readonly TestResult[]): string {
  const failed = results.filter(({ passed }) => !passed).length
  return `${counted(results.length - failed, 'test')} passed, ${failed} failed`
}

export interface TestResult {
  name: string
  severity: 'error' | 'warn'
  passed: boolean
  value: bigint
  durationMs: number
  /** Empty unless the test itself could not be evaluated. */
  error: string
  /** The first rows of a failed test that selects rows, shown to people. */
  samples: string[]
}
