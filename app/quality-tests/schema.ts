import { Type as t } from '@sinclair/typebox'
import { limits } from '../core/limits.ts'
import { literals, nullable, PipelinePath, TestName } from '../core/names.ts'

const Severity = literals(['error', 'warn'], {
  title: 'Severity',
  description: '`error` fails the run, `warn` only warns',
})

export const QualityTest = t.Object(
  {
    name: TestName,
    sql: t.String({ description: 'Returns how many rows fail; 0 passes' }),
    severity: Severity,
    description: t.String(),
    published: t.Boolean({ description: 'Whether the last publish has pinned its file' }),
    tags: t.Array(t.String()),
    remediation: t.String(),
  },
  { title: 'QualityTest' },
)
export const QualityTestList = t.Object(
  { tests: t.Array(QualityTest), total: t.Integer() },
  { title: 'QualityTestList' },
)

export const CreateTest = t.Object(
  {
    name: TestName,
    sql: t.String({
      pattern: '\\S',
      description: 'One statement; a template like any pipeline',
      examples: ["select count(*) from {{ ref('silver.flights') }} where origin is null"],
    }),
    severity: Severity,
    description: t.Optional(
      t.String({
        pattern: '^[^\\r\\n]*$',
        description: 'One line',
        maxLength: limits.textCharacters,
        examples: ['Every flight has an origin'],
      }),
    ),
  },
  { title: 'CreateQualityTest' },
)
export type CreateTest = typeof CreateTest.static
export const TestCreated = t.Object(
  { name: TestName, severity: Severity, path: t.String() },
  { title: 'QualityTestCreated' },
)

export const TestPath = t.Composite([PipelinePath, t.Object({ testName: TestName })])

export const TestResult = t.Object(
  {
    name: TestName,
    status: literals(['passed', 'failed'], { title: 'QualityTestStatus' }),
    severity: Severity,
    value: t.Integer({ description: 'Failing rows' }),
    expected: t.Literal(0),
    duration_ms: t.Integer(),
    error: nullable(t.String({ description: 'Why the test itself could not be evaluated' })),
    samples: t.Array(t.String(), {
      description: 'The first rows of a failed test that selects rows, as text',
      examples: [['id=7, origin=NULL']],
    }),
  },
  { title: 'QualityTestResult' },
)
export const TestResults = t.Object(
  {
    results: t.Array(TestResult),
    passed: t.Integer(),
    failed: t.Integer(),
    total: t.Integer(),
  },
  { title: 'QualityTestResults' },
)
