import { Link } from '@tanstack/react-router'
import { now } from '../../api/clock.ts'
import type { ListedRun } from '../../api/runs.ts'
import { absolute, count, counted, hourOf } from '../../design/format.ts'
import { Status } from '../../design/status.tsx'

const HOURS = 24
const HOUR_MS = 3_600_000
const WIDTH = 720
const HEIGHT = 120
const KINDS = ['success', 'failed', 'other'] as const

const kindOf = ({ status }: ListedRun) => (status === 'success' || status === 'failed' ? status : 'other')

/** The runs of the last day by hour and end, and the newest of them. */
export function Day({ runs, total, failed }: { runs: readonly ListedRun[]; total: number; failed: number }) {
  const begin = Math.floor(now().getTime() / HOUR_MS) - HOURS + 1
  const hours = Array.from({ length: HOURS }, (_, hour) => {
    const own = runs.filter((run) => Math.floor(Date.parse(run.created_at) / HOUR_MS) - begin === hour)
    return { hour, counts: KINDS.map((kind) => own.filter((run) => kindOf(run) === kind).length) }
  })
  const most = Math.max(1, ...hours.map(({ counts }) => counts.reduce((sum, each) => sum + each, 0)))
  const bar = WIDTH / HOURS
  return (
    <div className="stack">
      <p className="muted">
        {counted(total, 'run')}, {count(failed)} failed; at most {counted(most, 'run')} in an hour
        {total > runs.length && `; the newest ${runs.length} are drawn`}
      </p>
      <svg
        className="day"
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${total} runs in the last 24 hours, ${failed} failed; most in one hour: ${most}`}
      >
        {hours.map(({ hour, counts }) => {
          let top = HEIGHT
          return counts.map((value, kind) => {
            const height = (value / most) * (HEIGHT - 8)
            top -= height
            return value === 0 ? null : (
              <rect
                key={`${hour} ${KINDS[kind]}`}
                data-kind={KINDS[kind]}
                x={hour * bar + 2}
                y={top}
                width={bar - 4}
                height={height}
              />
            )
          })
        })}
        <line x1="0" x2={WIDTH} y1={HEIGHT} y2={HEIGHT} />
      </svg>
      <p className="day-hours" aria-hidden="true">
        {[0, HOURS / 4, HOURS / 2, (3 * HOURS) / 4, HOURS - 1].map((hour) => (
          <span key={hour}>{hourOf(new Date((begin + hour) * HOUR_MS))}</span>
        ))}
      </p>
      <HourTable begin={begin} hours={hours} />
      <ul className="attention">
        {runs.slice(0, 8).map((run) => (
          <li key={run.id}>
            <Status status={run.status} phase={run.phase} />
            <Link to="/runs/$id" params={{ id: run.id }}>
              {run.namespace}.{run.layer}.{run.pipeline}
            </Link>
            <span className="grow muted">{run.trigger}</span>
          </li>
        ))}
      </ul>
    </div>
  )
}

interface Hour {
  hour: number
  counts: readonly number[]
}

/** The drawing as a table, for everyone who does not see it. */
function HourTable({ begin, hours }: { begin: number; hours: readonly Hour[] }) {
  return (
    <div className="visually-hidden">
      <table>
        <caption>Runs by hour</caption>
        <thead>
          <tr>
            <th scope="col">Hour</th>
            {KINDS.map((kind) => (
              <th scope="col" key={kind}>
                {kind}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {hours
            .filter(({ counts }) => counts.some((value) => value > 0))
            .map(({ hour, counts }) => (
              <tr key={hour}>
                <th scope="row">{absolute(new Date((begin + hour) * HOUR_MS))}</th>
                {KINDS.map((kind, index) => (
                  <td key={kind}>{counts[index]}</td>
                ))}
              </tr>
            ))}
        </tbody>
      </table>
    </div>
  )
}
