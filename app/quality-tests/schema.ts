import { Type as t } from '@sinclair/typebox'
import { limits } from '../core/limits.ts'
import { literals, nullable, PipelinePath, TestName } from '../core/names.ts'

const Severity = literals(['error', 'warn'], {
  title: 'Severity',
  description: 'A failed test of severity `error` fails the run; with `warn`, it only adds a warning',
})

export const QualityTest = t.Object(
  {
    name: TestName,
    sql: t.String({
      description: 'Query that returns the number of failing rows, or the failing rows; zero or no rows pass',
    }),
    severity: Severity,
    description: t.String(),
    published: t.Boolean({ description: 'Whether the last publish pinned the file of the test' }),
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
      description: 'One SQL statement, as a template with the functions of pipelines',
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
    value: t.Integer({ description: 'Number of failing rows' }),
    expected: t.Literal(0),
    duration_ms: t.Integer(),
    error: nullable(t.String({ description: 'Reason why the test could not be evaluated' })),
    samples: t.Array(t.String(), {
      description: 'First failing rows as text, if the test selects rows',
      examples: [['id=7, origin=NULL']],
    }),
  },
  { title: 'QualityTestResult' },
)
/** A result of the gate of a merge. */
export const GateResult = t.Composite(
  [t.Object({ table: t.String({ examples: ['default.gold.route_delays'] }) }), TestResult],
  { title: 'GateResult' },
)
export type GateResult = typeof GateResult.static
export const TestResults = t.Object(
  {
    results: t.Array(TestResult),
    passed: t.Integer(),
    failed: t.Integer(),
    total: t.Integer(),
  },
  { title: 'QualityTestResults' },
)
