import { Status } from '../../design/status.tsx'
import { Card } from '../../design/surfaces.tsx'
import type { TestOutcome } from './outcome.ts'

/** The quality tests of a run, failed ones first, with their failing rows. */
export function RunTests({ tests }: { tests: readonly TestOutcome[] }) {
  if (tests.length === 0) return null
  return (
    <Card title="Tests" isFlush>
      <ul className="run-tests">
        {tests
          .toSorted((a, b) => Number(a.isPassed) - Number(b.isPassed))
          .map(({ name, isPassed, detail, samples }) => (
            <li key={name}>
              <Status status={isPassed ? 'passed' : 'failed'} />
              <span>
                <b>{name}</b> <span className="muted">{detail}</span>
              </span>
              {samples.map((sample, index) => (
                <span className="mono" key={`${index} ${sample}`}>
                  {sample}
                </span>
              ))}
            </li>
          ))}
      </ul>
    </Card>
  )
}
