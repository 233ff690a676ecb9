import { Type as t } from '@sinclair/typebox'
import { limits } from '../core/limits.ts'
import { PipelinePath, TestName } from '../core/names.ts'
import { Severity, TestResult } from '../core/test-results.ts'

const QualityTest = t.Object(
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

/** A result of the gate of a merge. */
export const GateResult = t.Composite(
  [t.Object({ table: t.String({ examples: ['default.gold.route_delays'] }) }), TestResult],
  { title: 'GateResult' },
)
export type GateResult = typeof GateResult.static
