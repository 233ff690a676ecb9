import { useEffect, useState, useSyncExternalStore } from 'react'
import { now } from '../api/clock.ts'
import { absolute, duration, relative } from './format.ts'

const TICK_MS = 5_000
const listeners = new Set<() => void>()
let current = now()
let timer: ReturnType<typeof setInterval> | undefined

function subscribe(listener: () => void) {
  // No timer runs while no time is shown, so the present time may be old.
  if (listeners.size === 0) current = now()
  listeners.add(listener)
  timer ??= setInterval(() => {
    current = now()
    for (const each of listeners) each()
  }, TICK_MS)
  return () => {
    listeners.delete(listener)
    if (listeners.size > 0) return
    clearInterval(timer)
    timer = undefined
  }
}

/** The present time, renewed every 5 seconds. */
export const useNow = (): Date => useSyncExternalStore(subscribe, () => current)

/** A time as people read it, with the exact time in its title. */
export function Time({ at, exact = false }: { at: string | null | undefined; exact?: boolean }) {
  const present = useNow()
  if (!at) return <span className="muted">–</span>
  const date = new Date(at)
  const text = exact
    ? absolute(date)
    : relative(date, date > present && date.getTime() - present.getTime() < TICK_MS ? date : present)
  return (
    <time dateTime={at} title={absolute(date)}>
      {text}
    </time>
  )
}

const SECOND_MS = 1_000

/** A growing duration since a time, renewed every second. */
export function Since({ at }: { at: string }) {
  const [present, setPresent] = useState(now)
  useEffect(() => {
    setPresent(now())
    const timer = setInterval(() => setPresent(now()), SECOND_MS)
    return () => clearInterval(timer)
  }, [at])
  return (
    <time dateTime={at} title={`since ${absolute(new Date(at))}`}>
      {duration(present.getTime() - Date.parse(at))}
    </time>
  )
}
