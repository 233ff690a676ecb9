import { useEffect, useMemo, useRef, useState } from 'react'
import { type Connection, follow } from '../../api/events.ts'
import { SearchField, Select } from '../../design/controls.tsx'
import { absolute } from '../../design/format.ts'
import { Card, Empty } from '../../design/surfaces.tsx'

const LEVELS = ['debug', 'info', 'warn', 'error'] as const
type Level = (typeof LEVELS)[number]

interface Line {
  timestamp: string
  level: Level
  message: string
}

/** Lines in the page. Older ones are in the API. */
const LINES_MAX = 5_000

const isLine = (data: unknown): data is Line => typeof data === 'object' && data !== null && 'message' in data

/** The lines of a run as they arrive. */
function useLog(id: string): { lines: readonly Line[]; state: Connection } {
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
    const stop = follow(`runs/${encodeURIComponent(id)}/logs`, {
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

/** The live log with a search. It follows the end until the person scrolls up. */
export function RunLog({ id }: { id: string }) {
  const { lines, state } = useLog(id)
  const [text, setText] = useState('')
  const [level, setLevel] = useState<Level>('debug')
  const scroller = useRef<HTMLDivElement>(null)
  const isAtEnd = useRef(true)
  const shown = useMemo(
    () =>
      lines.filter(
        (line) =>
          LEVELS.indexOf(line.level) >= LEVELS.indexOf(level) &&
          line.message.toLowerCase().includes(text.toLowerCase()),
      ),
    [lines, level, text],
  )
  useEffect(() => {
    const box = scroller.current
    if (box !== null && shown.length > 0 && isAtEnd.current) box.scrollTop = box.scrollHeight
  }, [shown])
  return (
    <Card
      title="Log"
      isFlush
      actions={
        <>
          <span className="muted" role="status">
            {state === 'live' ? 'live' : state === 'connecting' ? 'connecting…' : `${lines.length} lines`}
          </span>
          <SearchField label="Search the log" value={text} onChange={setText} />
          <Select
            label="Level"
            isLabelShown={false}
            value={level}
            choices={LEVELS.map((each) => ({
              value: each,
              label: each === 'debug' ? 'all levels' : `from ${each}`,
            }))}
            onChange={(value) => setLevel(value as Level)}
          />
        </>
      }
    >
      {shown.length === 0 ? (
        <Empty icon="audit" title={lines.length === 0 ? 'No line yet' : 'No line has this text'} />
      ) : (
        <div
          ref={scroller}
          className="log"
          role="log"
          aria-label="Log of the run"
          tabIndex={0}
          onScroll={({ currentTarget: box }) => {
            isAtEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < 24
          }}
        >
          {shown.map((line, index) => (
            <p key={`${line.timestamp} ${index}`} data-level={line.level}>
              <time dateTime={line.timestamp} title={absolute(new Date(line.timestamp))}>
                {line.timestamp.slice(11, 23)}
              </time>
              <b>{line.level}</b>
              <span>{line.message}</span>
            </p>
          ))}
        </div>
      )}
    </Card>
  )
}
