import { useVirtualizer } from '@tanstack/react-virtual'
import { useEffect, useMemo, useRef, useState } from 'react'
import { logPathOf } from '../../api/runs.ts'
import { Button, SearchField, Select } from '../../design/controls.tsx'
import { absolute, timeOfDay } from '../../design/format.ts'
import { Card, Empty } from '../../design/surfaces.tsx'
import { saveAnswer } from '../../shell/save.ts'
import { LEVELS, type Level, type Line, type Log } from './use-log.ts'

/** The height of a line that is not wrapped. A wrapped line is measured when it is first shown. */
const LINE_PX = 20
const OVERSCAN = 20

/** The live log with a search. It follows the end until the person scrolls up. */
export function RunLog({ id, log: { lines, state } }: { id: string; log: Log }) {
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
  const virtualizer = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE_PX,
    overscan: OVERSCAN,
  })
  const height = virtualizer.getTotalSize()
  useEffect(() => {
    const box = scroller.current
    if (box !== null && height > 0 && isAtEnd.current) box.scrollTop = box.scrollHeight
  }, [height])
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
          <Button
            id="export-log"
            size="small"
            icon="download"
            title="Save the log"
            onClick={() => void saveAnswer(logPathOf(id), `run-${id}-log.json`)}
          >
            JSON
          </Button>
        </>
      }
    >
      {shown.length === 0 ? (
        <Empty icon="audit" title={lines.length === 0 ? 'No line yet' : 'No line has this text and level'} />
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
          <div className="log-lines" style={{ height }}>
            {virtualizer.getVirtualItems().map(({ index, start }) => (
              <LogLine
                key={index}
                line={shown[index]}
                index={index}
                start={start}
                measure={virtualizer.measureElement}
              />
            ))}
          </div>
        </div>
      )}
    </Card>
  )
}

function LogLine({
  line,
  index,
  start,
  measure,
}: {
  line: Line | undefined
  index: number
  start: number
  measure: (element: Element | null) => void
}) {
  if (line === undefined) return null
  return (
    <p
      ref={measure}
      data-index={index}
      data-level={line.level}
      style={{ transform: `translateY(${start}px)` }}
    >
      <time dateTime={line.timestamp} title={absolute(new Date(line.timestamp))}>
        {timeOfDay(new Date(line.timestamp))}
      </time>
      <b>{line.level}</b>
      <span>{line.message}</span>
    </p>
  )
}
