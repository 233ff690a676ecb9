import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { api, ok } from '../../api/client.ts'
import { LIVE_MS } from '../../api/queries.ts'
import { API, accepted, authorizedFetch } from '../../api/request.ts'
import { duration } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'

/** The states that the run went through, with their times, and its statechart with the present state. */
export function Timeline({ id, isOver }: { id: string; isOver: boolean }) {
  const query = useQuery({
    queryKey: ['runs', id, 'steps', isOver],
    queryFn: () => ok(api.inspector({ machine: 'run' }).instances({ id }).get({ query: {} })),
    refetchInterval: isOver ? false : LIVE_MS / 2,
  })
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

/** The drawing of the machine. An image cannot send the credential, so the drawing is fetched. */
function Statechart({ active }: { active: string }) {
  const [address, setAddress] = useState<string | null>(null)
  useEffect(() => {
    let made: string | null = null
    const left = new AbortController()
    const path = `inspector/machines/run.svg?detail=states&active=${encodeURIComponent(active)}`
    const load = async () => {
      const response = await accepted(await authorizedFetch(new URL(path, API), { signal: left.signal }))
      made = URL.createObjectURL(await response.blob())
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
