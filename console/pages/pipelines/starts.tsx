import type { Named } from '../../api/pipelines.ts'
import { Schedules } from './schedules.tsx'
import { Triggers } from './triggers.tsx'

/** Schedules and triggers, which start runs of the pipeline. */
export function Starts({ at }: { at: Named }) {
  return (
    <div className="stack">
      <Schedules at={at} />
      <Triggers at={at} />
    </div>
  )
}
