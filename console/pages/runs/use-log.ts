import { useEffect, useState } from 'react'
import { type Connection, follow } from '../../api/events.ts'
import { logPathOf } from '../../api/runs.ts'

export const LEVELS = ['debug', 'info', 'warn', 'error'] as const
export type Level = (typeof LEVELS)[number]

export interface Line {
  timestamp: string
  level: Level
  message: string
}

export interface Log {
  lines: readonly Line[]
  state: Connection
}

/** Lines in the page. Older ones are in the API. */
const LINES_MAX = 5_000

const isLine = (data: unknown): data is Line => typeof data === 'object' && data !== null && 'message' in data

/** The lines of a run as they arrive. */
export function useLog(id: string): Log {
  const [lines, setLines] = useState<readonly Line[]>([])
  const [state, setState] = useState<Connection>('connecting')
  useEffect(() => {
    setLines([])
    let waiting: Line[] = []
    let frame = 0
    const show = () => {
      const arrived = waiting
      waiting = []
      frame = 0
      setLines((before) => [...before, ...arrived].slice(-LINES_MAX))
    }
    const stop = follow(logPathOf(id), {
      onState: setState,
      onEvent(name, data) {
        if (name === 'status') return false
        if (name === 'log' && isLine(data)) waiting.push(data)
        frame ||= requestAnimationFrame(show)
        return true
      },
    })
    return () => {
      stop()
      cancelAnimationFrame(frame)
    }
  }, [id])
  return { lines, state }
}
