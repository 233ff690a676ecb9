import { readAnnotations } from '../../lake/pipeline/annotations.ts'
import { parseTest, type QualityTest, type Severity } from '../../lake/pipeline/quality.ts'

// A test is one file: what it says about itself as annotations of its header, then its SQL.

export interface TestToWrite {
  sql: string
  severity: Severity
  description?: string
}

/** What is given beside the SQL replaces what the SQL's own header says of it. */
export function testFile({ sql, severity, description }: TestToWrite): string {
  const given = [`-- @severity: ${severity}`, ...(description ? [`-- @description: ${description}`] : [])]
  const replaced = new Set(['severity', ...(description ? ['description'] : [])])
  return `${given.join('\n')}\n${withoutAnnotations(sql, (key) => replaced.has(key))}`
}

/** The test that a file holds, with the SQL that was given. */
export function readTestFile(
  name: string,
  file: { path: string; text: string },
): QualityTest & { sql: string } {
  const { test } = parseTest(name, file)
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
