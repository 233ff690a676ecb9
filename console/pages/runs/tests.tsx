import { useQuery } from '@tanstack/react-query'
import { type Run, runTestsQuery } from '../../api/runs.ts'
import { counted, duration } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Pill, Status } from '../../design/status.tsx'
import { Card } from '../../design/surfaces.tsx'

/** The quality tests of a run, failed ones first, with their failing rows. */
export function RunTests({ run }: { run: Pick<Run, 'id' | 'status' | 'phase' | 'attempt'> }) {
  const query = useQuery(runTestsQuery(run.id, run.status, run.phase, run.attempt))
  if (query.data?.total === 0) return null
  return (
    <Card title="Tests" isFlush>
      <Loaded query={query}>
        {({ results }) => (
          <ul className="run-tests">
            {results
              .toSorted((a, b) => Number(a.status === 'passed') - Number(b.status === 'passed'))
              .map(({ name, status, severity, value, duration_ms: ms, error, samples }) => (
                <li key={name}>
                  <Status status={status} />
                  <span className="row">
                    <b>{name}</b>
                    {severity === 'warn' && <Pill tone="warn">only warns</Pill>}
                    <span className="muted">
                      {status === 'failed' && error === null && `${counted(value, 'failing row')}, `}
                      {duration(ms)}
                    </span>
                  </span>
                  {error !== null && <span>{error}</span>}
                  {samples.map((sample, index) => (
                    <span className="mono" key={`${index} ${sample}`}>
                      {sample}
                    </span>
                  ))}
                </li>
              ))}
          </ul>
        )}
      </Loaded>
    </Card>
  )
}
