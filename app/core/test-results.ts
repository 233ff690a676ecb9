import { Type as t } from '@sinclair/typebox'
import { literals, nullable, TestName } from './names.ts'

export const Severity = literals(['error', 'warn'], {
  title: 'Severity',
  description: 'A failed test of severity `error` fails the run; with `warn`, it only adds a warning',
})

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
export const TestResults = t.Object(
  {
    results: t.Array(TestResult),
    passed: t.Integer(),
    failed: t.Integer(),
    total: t.Integer(),
  },
  { title: 'QualityTestResults' },
)
