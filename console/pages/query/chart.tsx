import { useEffect, useMemo, useRef, useState } from 'react'
import uPlot from 'uplot'
import { Segments, Select } from '../../design/controls.tsx'
import { Notice } from '../../design/surfaces.tsx'
import { useIsDark } from '../../shell/theme.ts'

type Columns = readonly { name: string; type: string }[]
type Rows = readonly (readonly unknown[])[]

const HEIGHT = 360
/** Points that are drawn. More points than pixels say nothing. */
const POINTS_MAX = 20_000

const TIME = /^(DATE|TIMESTAMP)/i
/** A date or a time without a zone is drawn as it is, in no zone. */
const ZONED = /^TIMESTAMP WITH TIME ZONE|^TIMESTAMPTZ/i
const isNumber = (value: unknown) => value !== null && value !== '' && !Number.isNaN(Number(value))

/** A chart of two columns. Times and numbers lie on a scale; other values count as their place in the result. */
export default function Chart({ columns, rows }: { columns: Columns; rows: Rows }) {
  const numeric = columns.map((_, index) =>
    rows.slice(0, 50).every((row) => row[index] === null || isNumber(row[index])),
  )
  const firstValue = Math.max(0, numeric.indexOf(true, columns.length > 1 ? 1 : 0))
  const [x, setX] = useState(0)
  const [y, setY] = useState(firstValue)
  const [kind, setKind] = useState<'line' | 'bars'>('bars')
  const choices = columns.map(({ name }, index) => ({ value: String(index), label: name }))
  const isTime = TIME.test(columns[x]?.type ?? '')
  const isZoned = ZONED.test(columns[x]?.type ?? '')
  const data = useMemo(() => pointsOf(rows, x, y, isTime), [rows, x, y, isTime])
  return (
    <div className="stack">
      <div className="row">
        <Select
          label="Across"
          value={String(x)}
          choices={choices}
          onChange={(value) => setX(Number(value))}
        />
        <Select label="Up" value={String(y)} choices={choices} onChange={(value) => setY(Number(value))} />
        <Segments
          label="Kind of chart"
          value={kind}
          choices={[
            { value: 'bars', label: 'Bars' },
            { value: 'line', label: 'Line' },
          ]}
          onChange={setKind}
        />
      </div>
      {!numeric[y] && (
        <Notice tone="warn">The column {columns[y]?.name} has values that are no numbers.</Notice>
      )}
      <Plot
        data={data}
        kind={kind}
        isTime={isTime}
        isZoned={isZoned}
        label={`${columns[y]?.name} by ${columns[x]?.name}`}
      />
    </div>
  )
}

interface Points {
  xs: number[]
  ys: (number | null)[]
  /** The texts of values that have no scale. */
  names: string[] | null
}

/** A text without a zone is read as UTC. */
const secondsOf = (text: string) =>
  Date.parse(/T.*(Z|[+-]\d\d:?\d\d)$/.test(text) || !text.includes('T') ? text : `${text}Z`) / 1_000

function pointsOf(rows: Rows, x: number, y: number, isTime: boolean): Points {
  const some = rows.slice(0, POINTS_MAX)
  const ys = some.map((row) => (isNumber(row[y]) ? Number(row[y]) : null))
  if (isTime) {
    const order = some.map((row, index) => ({ at: secondsOf(String(row[x])), y: ys[index] ?? null }))
    const sorted = order.filter(({ at }) => !Number.isNaN(at)).sort((a, b) => a.at - b.at)
    return { xs: sorted.map(({ at }) => at), ys: sorted.map((point) => point.y), names: null }
  }
  if (some.every((row) => isNumber(row[x]))) {
    const sorted = some
      .map((row, index) => ({ at: Number(row[x]), y: ys[index] ?? null }))
      .sort((a, b) => a.at - b.at)
    return { xs: sorted.map(({ at }) => at), ys: sorted.map((point) => point.y), names: null }
  }
  return { xs: some.map((_, index) => index), ys, names: some.map((row) => String(row[x] ?? 'NULL')) }
}

function Plot({
  data,
  kind,
  isTime,
  isZoned,
  label,
}: {
  data: Points
  kind: 'line' | 'bars'
  isTime: boolean
  isZoned: boolean
  label: string
}) {
  const host = useRef<HTMLDivElement>(null)
  const isDark = useIsDark()
  useEffect(() => {
    const box = host.current
    if (box === null) return
    const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()
    const axis = {
      stroke: colour('--muted'),
      grid: { stroke: colour('--line') },
      ticks: { stroke: colour('--line') },
    }
    const { names } = data
    const bars = uPlot.paths.bars?.({ size: [0.7, 60] })
    const made = new uPlot(
      {
        width: box.clientWidth,
        height: HEIGHT,
        scales: {
          // Half of a bar stands at each side of its value.
          x: { time: isTime, ...(kind === 'bars' && { range: paddedRange }) },
          y: { range: (_, low, high) => [Math.min(0, low), high === low ? low + 1 : high] },
        },
        axes: [
          names === null
            ? axis
            : { ...axis, values: (_, ticks) => ticks.map((tick) => names[tick]?.slice(0, 14) ?? '') },
          {
            ...axis,
            size: (_, labels) =>
              labels === null ? 50 : 24 + 8 * Math.max(...labels.map(({ length }) => length)),
          },
        ],
        ...(!isZoned && { tzDate: (seconds: number) => uPlot.tzDate(new Date(seconds * 1_000), 'Etc/UTC') }),
        series: [
          {},
          {
            label,
            stroke: colour('--accent'),
            fill: kind === 'bars' ? colour('--accent') : colour('--accent-soft'),
            width: 2,
            ...(kind === 'bars' && bars && { paths: bars }),
          },
        ],
        legend: { show: false },
      },
      [data.xs, data.ys],
      box,
    )
    const resized = new ResizeObserver(() => made.setSize({ width: box.clientWidth, height: HEIGHT }))
    resized.observe(box)
    return () => {
      resized.disconnect()
      made.destroy()
    }
  }, [data, kind, isTime, isZoned, label, isDark])
  return <div ref={host} className="plot" role="img" aria-label={`Chart: ${label}`} />
}

function paddedRange({ data: [xs] }: uPlot, low: number, high: number): [number, number] {
  const half = (high - low) / Math.max(1, xs.length - 1) / 2
  return half === 0 ? [low - 1, high + 1] : [low - half, high + half]
}
