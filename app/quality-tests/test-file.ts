import { readAnnotations } from '../../lake/pipeline/annotations.ts'
import { parseTest, type QualityTest, type Severity } from '../../lake/pipeline/quality.ts'

// A test is one file: annotations in its header, then its SQL.

interface TestToWrite {
  sql: string
  severity: Severity
  description?: string
}

/** The given fields replace the same annotations in the header of the SQL. */
export function testFile({ sql, severity, description }: TestToWrite): string {
  const header = [`-- @severity: ${severity}`, ...(description ? [`-- @description: ${description}`] : [])]
  const replaced = new Set(['severity', ...(description ? ['description'] : [])])
  return `${header.join('\n')}\n${withoutAnnotations(sql, (key) => replaced.has(key))}`
}

/** Parses a test file. `sql` is the SQL without the annotations that the answer shows as fields. */
export function readTestFile(
  name: string,
  file: { path: string; text: string },
): Omit<QualityTest, 'engine'> & { sql: string } {
  const { engine: _, ...test } = parseTest(name, file).test
  return { ...test, sql: withoutAnnotations(file.text, (key) => OF_A_TEST.has(key)) }
}

const OF_A_TEST = new Set(['severity', 'description', 'tags', 'remediation'])

function withoutAnnotations(text: string, isDropped: (key: string) => boolean): string {
  const dropped = new Set(
    readAnnotations(text, '--')
      .filter(({ key }) => isDropped(key))
      .map(({ line }) => line),
  )
  return dropped.size === 0
    ? text
    : text
        .split('\n')
        .filter((_, index) => !dropped.has(index + 1))
        .join('\n')
}
