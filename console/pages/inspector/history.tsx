import { type CSSProperties, memo, useEffect, useRef } from 'react'
import type { History, Instance, MachineName, Step } from '../../api/inspector.ts'
import { Since, useNow } from '../../design/clock.tsx'
import { Button } from '../../design/controls.tsx'
import { absolute, count, duration, timeOfDay } from '../../design/format.ts'
import { Tag } from '../../design/status.tsx'
import { StatePill, toneOf } from './state.tsx'

/** A shorter share of the time could not be seen. */
const SHARE_MIN = 0.004
/** Free space above and below the current step, after the list has scrolled to it. */
const REVEAL_PX = 8

const msBetween = (from: string, to: string) => Math.max(0, Date.parse(to) - Date.parse(from))

/** One segment per step, as wide as its duration. The last segment of a live instance grows. */
export function Lifeline({
  machine,
  steps,
  isLive,
  index,
  onSelect,
}: {
  machine: MachineName
  steps: readonly Step[]
  isLive: boolean
  index: number
  onSelect: (id: number) => void
}) {
  const present = useNow()
  const spent = steps.map(
    ({ at, duration_ms }) => duration_ms ?? (isLive ? Math.max(0, present.getTime() - Date.parse(at)) : 0),
  )
  const total = spent.reduce((sum, ms) => sum + ms, 0) || 1
  return (
    <div
      className="lifeline"
      role="group"
      aria-label="Time in each state"
      // The style divides the width by the number of steps, so that every step fits.
      style={{ '--steps': steps.length } as CSSProperties}
    >
      {steps.map((step, at) => {
        const ms = spent[at] ?? 0
        if (ms === 0 && at !== steps.length - 1) return null
        return (
          <button
            type="button"
            key={step.id}
            // The list of steps does the same for the keyboard: hundreds of thin segments are no stops.
            tabIndex={-1}
            title={`${step.to}: ${duration(ms)}`}
            aria-label={`${step.to}, ${duration(ms)}`}
            aria-pressed={at === index}
            data-tone={toneOf(machine, step.to)}
            data-odd={at % 2 === 1}
            style={{ flexGrow: Math.max(ms / total, SHARE_MIN) }}
            onClick={() => onSelect(step.id)}
          />
        )
      })}
    </div>
  )
}

export function Stepper({
  machine,
  step,
  total,
  isFirst,
  isLast,
  first,
  last,
  move,
}: {
  machine: MachineName
  step: Step | undefined
  total: number
  isFirst: boolean
  isLast: boolean
  first: () => unknown
  last: () => unknown
  move: (by: number) => unknown
}) {
  return (
    <div className="stepper">
      <StepButton label="First step (Home)" symbol="⇤" isOff={isFirst} onClick={first} />
      <StepButton label="Step back (←)" symbol="←" isOff={isFirst} onClick={() => move(-1)} />
      <span className="step-position" aria-live="polite">
        {step && (
          <>
            <strong>{count(step.step)}</strong> of {count(total)}
          </>
        )}
      </span>
      <StepButton label="Step forward (→)" symbol="→" isOff={isLast} onClick={() => move(1)} />
      <StepButton label="Latest step (End)" symbol="⇥" isOff={isLast} onClick={last} />
      {step && (
        <span className="row grow">
          <code>{step.event}</code> → <StatePill machine={machine} path={step.to} />
          {step.cause && <span className="muted">by {step.cause}</span>}
        </span>
      )}
    </div>
  )
}

/** A button that is off but not `disabled`, so that the focus stays at the first or last step. */
const StepButton = ({
  label,
  symbol,
  isOff,
  onClick,
}: {
  label: string
  symbol: string
  isOff: boolean
  onClick: () => unknown
}) => (
  <Button
    size="small"
    aria-label={label}
    title={label}
    aria-disabled={isOff || undefined}
    onClick={() => void onClick()}
  >
    {symbol}
  </Button>
)

/** The steps, oldest first. The list scrolls to the selected step; the page stays. */
export function Steps({
  history,
  instance,
  index,
  onSelect,
}: {
  history: History
  instance: Instance
  index: number
  onSelect: (id: number) => void
}) {
  const { steps, isWhole, hasEarlier, loadUntil } = history
  const box = useRef<HTMLDivElement>(null)
  const selected = steps[index]?.id
  useEffect(() => {
    if (selected !== undefined) reveal(box.current)
  }, [selected])
  // A new function would draw every step again.
  const latest = useRef(onSelect)
  latest.current = onSelect
  const select = useRef((id: number) => latest.current(id))
  const [first] = steps
  return (
    <section ref={box} className="history" tabIndex={0} aria-label="History">
      {hasEarlier && first !== undefined && (
        <Button size="small" onClick={() => void loadUntil(0)}>
          Show {count(first.step - 1)} earlier steps
        </Button>
      )}
      {!isWhole && !hasEarlier && (
        <p className="muted">
          {steps.length === 0 ? 'Retention has removed the history.' : 'Retention has removed older steps.'}
        </p>
      )}
      <ol>
        {steps.map((step, at) => (
          <StepItem
            key={step.id}
            step={step}
            machine={instance.machine}
            after={at === 0 ? null : msBetween(steps[at - 1]?.at ?? step.at, step.at)}
            isCurrent={at === index}
            isLive={instance.live && at === steps.length - 1}
            onSelect={select.current}
          />
        ))}
      </ol>
    </section>
  )
}

const StepItem = memo(function StepItem({
  step,
  machine,
  after,
  isCurrent,
  isLive,
  onSelect,
}: {
  step: Step
  machine: MachineName
  /** Milliseconds after the step before. */
  after: number | null
  isCurrent: boolean
  isLive: boolean
  onSelect: (id: number) => void
}) {
  const { id, at, event, to, cause, effects, transition, duration_ms } = step
  return (
    <li aria-current={isCurrent || undefined} data-step={id} data-tone={toneOf(machine, to)}>
      <button type="button" onClick={() => onSelect(id)}>
        <span className="step-time mono" title={`${absolute(new Date(at))} · ${at}`}>
          {timeOfDay(new Date(at))}
          {after !== null && <span className="muted">+{duration(after)}</span>}
        </span>
        <span className="step-move">
          <span className="row">
            <code className="step-event">{event}</code> <span className="muted">→</span>
            <StatePill machine={machine} path={to} />
          </span>
          <span className="row">
            {cause && <span className="muted">by {cause}</span>}
            {effects.map((effect) => (
              <code className="tag effect" key={effect}>
                {effect}
              </code>
            ))}
            {transition === null && <Tag>not in this version of the machine</Tag>}
          </span>
        </span>
        <span className="step-spent">
          {duration_ms !== null ? duration(duration_ms) : isLive && <Since at={at} />}
        </span>
      </button>
    </li>
  )
})

/** Scrolls the box, but never the page, until the current step is visible. */
function reveal(box: HTMLElement | null): void {
  const current = box?.querySelector('[aria-current]')?.getBoundingClientRect()
  if (!box || current === undefined) return
  const frame = box.getBoundingClientRect()
  if (current.top < frame.top) box.scrollTop -= frame.top - current.top + REVEAL_PX
  else if (current.bottom > frame.bottom) box.scrollTop += current.bottom - frame.bottom + REVEAL_PX
}
