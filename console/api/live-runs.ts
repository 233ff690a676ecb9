import type { QueryKey } from '@tanstack/react-query'
import { useEffect } from 'react'
import { follow } from './events.ts'
import { refresh } from './queries.ts'

/** A burst of transitions refreshes a page once in this time. */
const REFRESH_MS = 1_000

/** The key of all lists of runs. */
export const RUN_LISTS = ['runs', 'list']
const LISTS_ONLY: readonly QueryKey[] = [RUN_LISTS]

/**
 * Reads the lists of runs again when any run moves, at once and at most once in a second. `keys` are the queries that it reads.
 * Polling continues for the time without a stream.
 */
export function useLiveRuns(keys: readonly QueryKey[] = LISTS_ONLY): void {
  const text = JSON.stringify(keys)
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    let isMissed = false
    const again = () => {
      isMissed = false
      timer = setTimeout(rest, REFRESH_MS)
      void refresh(...JSON.parse(text))
    }
    const rest = () => {
      timer = undefined
      if (isMissed) again()
    }
    const stop = follow('inspector/run/events', {
      onEvent() {
        if (timer === undefined) again()
        else isMissed = true
        return true
      },
    })
    return () => {
      stop()
      clearTimeout(timer)
    }
  }, [text])
}
