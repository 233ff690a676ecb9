import { useEffect } from 'react'
import { follow } from './events.ts'
import { queryClient } from './queries.ts'

/** A burst of transitions refreshes a page once in this time. */
const REFRESH_MS = 1_000

/** The queries of all lists of runs. */
export const LISTS = [['runs', 'list']] as const

/**
 * Reads the lists of runs again when any run moves, at once and at most once in a second. `keys` are the queries that it reads.
 * Polling continues for the time without a stream.
 */
export function useLiveRuns(keys: readonly (readonly string[])[] = LISTS): void {
  const key = JSON.stringify(keys)
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    let isMissed = false
    const refresh = () => {
      isMissed = false
      timer = setTimeout(rest, REFRESH_MS)
      for (const queryKey of JSON.parse(key)) void queryClient.invalidateQueries({ queryKey })
    }
    const rest = () => {
      timer = undefined
      if (isMissed) refresh()
    }
    const stop = follow('inspector/run/events', {
      onEvent() {
        if (timer === undefined) refresh()
        else isMissed = true
        return true
      },
    })
    return () => {
      stop()
      clearTimeout(timer)
    }
  }, [key])
}
