// Quality tests: reads the header of a test file, and evaluates the test's result.
import { readAnnotations, splitList } from './annotations.ts'
import type { ConfigProblem, TextFile } from './config.ts'
import { shown } from './names.ts'

export type Severity = 'error' | 'warn'
type TestEngine = 'duckdb' | 'spark'

export interface QualityTest {
  /** The file's name without `.sql`. */
  name: string
  severity: Severity
  /** The engine that executes the test. */
  engine: TestEngine
  description: string
  tags: string[]
  remediation: string
}

interface ParsedTest {
  test: QualityTest
  errors: ConfigProblem[]
  warnings: ConfigProblem[]
}

const FOLDER = 'tests/quality/'
const TEST_NAME = /^[a-z0-9][a-z0-9-]{0,127}$/

/** The name of the quality test in a pipeline's file; undefined for any other file. */
export function testNameOf(path: string): string | undefined {
  const start = path.startsWith(FOLDER) ? 0 : path.indexOf(`/${FOLDER}`) + 1
  if (!path.startsWith(FOLDER, start) || !path.endsWith('.sql')) return undefined
  const name = path.slice(start + FOLDER.length, -'.sql'.length)
  return TEST_NAME.test(name) ? name : undefined
}

/** The path of a test's file, relative to the prefix of its pipeline. */
export const testPathOf = (name: string) => `${FOLDER}${name}.sql`

/** Reads the header of a test file. An unreadable severity counts as `error`, so the test still gates. Never throws. */
export function parseTest(name: string, { path, text }: TextFile): ParsedTest {
  const parsed: ParsedTest = {
    test: { name, severity: 'error', engine: 'duckdb', description: '', tags: [], remediation: '' },
    errors: [],
    warnings: [],
  }
  for (const { key, value, line } of readAnnotations(text, '--')) {
    if (key === 'description') parsed.test.description = value
    else if (key === 'remediation') parsed.test.remediation = value
    else if (key === 'tags') parsed.test.tags = splitList(value)
    else if (key === 'engine') {
      if (value === 'duckdb' || value === 'spark') parsed.test.engine = value
      else
        parsed.errors.push({
          file: path,
          line,
          key,
          message: `engine: must be duckdb or spark, not ${shown(value)}`,
        })
    } else if (key !== 'severity')
      parsed.warnings.push({ file: path, line, key, message: `unknown key ${shown(key)} is ignored` })
    else if (value === 'error' || value === 'warn') parsed.test.severity = value
    else
      parsed.errors.push({
        file: path,
        line,
        key,
        message: `severity: must be error or warn, not ${shown(value)}`,
      })
  }
  return parsed
}

/** A test's result, as the query protocol returns it. */
interface TestOutcome {
  /** The engine's type names. */
  columnTypes: readonly string[]
  rowCount: number
  /** The first column of the first row; undefined when there is no row. */
  first: unknown
}

const NUMERIC = /^(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)|BIGNUM)$/

/**
 * The number of failing rows; 0 passes. One row with one numeric column is that number. Any other result counts its rows. NULL,
 * NaN and infinities are not numbers, so they count as one failing row: a test whose `sum()` found no rows does not pass. A
 * fraction is rounded away from 0, so that 0.4 does not pass.
 */
export function testValue({ columnTypes, rowCount, first }: TestOutcome): number {
  const [type] = columnTypes
  if (rowCount !== 1 || columnTypes.length !== 1 || type === undefined || !NUMERIC.test(type)) return rowCount
  const number = typeof first === 'string' && first.trim() !== '' ? Number(first) : first
  if (typeof number !== 'number' || Number.isNaN(number)) return rowCount
  const failingRows = Math.sign(number) * Math.ceil(Math.abs(number))
  return Math.max(-Number.MAX_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, failingRows))
}
