import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { readStatechart, runStepsQuery } from '../../api/runs.ts'
import { duration } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'

/** The states that the run went through, with their times, and its statechart with the present state. */
export function Timeline({ id, isOver }: { id: string; isOver: boolean }) {
  const query = useQuery(runStepsQuery(id, isOver))
  return (
    <Loaded query={query}>
      {({ history, state }) => (
        <div className="stack">
          <ol className="timeline">
            {history.steps.map((step) => (
              <li key={step.id}>
                <span className="mono">{step.to}</span>
                <span className="muted">{step.event}</span>
                <span className="numeric">{step.duration_ms === null ? '' : duration(step.duration_ms)}</span>
              </li>
            ))}
          </ol>
          <Statechart active={state} />
        </div>
      )}
    </Loaded>
  )
}

/** The drawing of the machine. */
function Statechart({ active }: { active: string }) {
  const [address, setAddress] = useState<string | null>(null)
  useEffect(() => {
    let made: string | null = null
    const left = new AbortController()
    const load = async () => {
      made = URL.createObjectURL(await readStatechart(active, left.signal))
      setAddress(made)
    }
    // The timeline above says the same, so a missing drawing is no fault of the page.
    load().catch(() => {})
    return () => {
      left.abort()
      if (made !== null) URL.revokeObjectURL(made)
    }
  }, [active])
  if (address === null) return null
  return <img className="statechart" src={address} alt={`Statechart of the run, now in ${active}`} />
}
