import { useVirtualizer } from '@tanstack/react-virtual'
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from 'react'
import { say } from './toasts.tsx'

const ROW_PX = 28
const HEAD_PX = 46
const NUMBER_PX = 64
const OVERSCAN = 6
/** The width of a column follows its name and first rows. */
const WIDTH = { min: 80, max: 360, perCharacter: 7.9, padding: 24 }
const MEASURED_ROWS = 50
/** Characters of a cell that the page shows; the clipboard gets all. */
const SHOWN_CHARACTERS = 300

const NUMERIC =
  /^(?:U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?|FLOAT|DOUBLE|REAL|DECIMAL|int|long|float|double|decimal)/i

export interface DataGridProps {
  label: string
  columns: readonly { name: string; type: string }[]
  rows: readonly (readonly unknown[])[]
  height?: string
  isSortable?: boolean
  rowTone?: (row: number) => 'added' | 'removed' | undefined
}

type Sort = { column: number; isDescending: boolean } | null

/** Rows and columns of any number: only visible cells exist in the page. Arrow keys move the cell, Ctrl C copies it. */
export function DataGrid({
  label,
  columns,
  rows,
  height = '420px',
  isSortable = false,
  rowTone,
}: DataGridProps) {
  const scroller = useRef<HTMLDivElement>(null)
  const [sort, setSort] = useState<Sort>(null)
  const [at, setAt] = useState({ row: 0, column: 0 })
  const order = useMemo(() => orderOf(rows, sort), [rows, sort])
  const widths = useMemo(() => columns.map((column, index) => widthOf(column, rows, index)), [columns, rows])
  const vertical = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
    scrollPaddingStart: HEAD_PX,
    paddingStart: 0,
  })
  const horizontal = useVirtualizer({
    horizontal: true,
    count: columns.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => widths[index] ?? WIDTH.min,
    overscan: 3,
    scrollPaddingStart: NUMBER_PX,
  })
  // The virtualizer keeps the widths of the columns before.
  useEffect(() => horizontal.measure(), [widths, horizontal])
  const cellAt = (row: number, column: number) => rows[order[row] ?? row]?.[column]
  const move = (row: number, column: number) => {
    const next = {
      row: Math.min(Math.max(0, row), rows.length - 1),
      column: Math.min(Math.max(0, column), columns.length - 1),
    }
    setAt(next)
    vertical.scrollToIndex(next.row)
    horizontal.scrollToIndex(next.column)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const step = STEPS[event.key]
    if (step !== undefined) {
      event.preventDefault()
      move(at.row + step.rows, at.column + step.columns)
    } else if (
      event.key.toLowerCase() === 'c' &&
      (event.ctrlKey || event.metaKey) &&
      getSelection()?.isCollapsed
    ) {
      void navigator.clipboard.writeText(textOf(cellAt(at.row, at.column))).then(() => say('Copied the cell'))
    }
  }
  const totalWidth = NUMBER_PX + horizontal.getTotalSize()
  return (
    <div
      ref={scroller}
      className="grid"
      role="grid"
      aria-label={label}
      aria-rowcount={rows.length + 1}
      aria-colcount={columns.length}
      tabIndex={0}
      style={{ height: `min(${height}, ${HEAD_PX + Math.max(1, rows.length) * ROW_PX + 18}px)` }}
      onKeyDown={onKeyDown}
    >
      <div className="grid-head" role="row" style={{ width: totalWidth }}>
        {horizontal.getVirtualItems().map(({ index, start, size }) => (
          <HeadCell
            key={index}
            column={columns[index]}
            style={{ left: NUMBER_PX + start, width: size }}
            sort={sort?.column === index ? sort : null}
            onSort={isSortable ? () => setSort(nextSort(sort, index)) : null}
          />
        ))}
      </div>
      <div
        role="rowgroup"
        style={{ position: 'relative', height: vertical.getTotalSize(), width: totalWidth }}
      >
        {vertical.getVirtualItems().map(({ index: row, start }) => (
          <div
            key={row}
            className="grid-row"
            role="row"
            aria-rowindex={row + 2}
            data-tone={rowTone?.(order[row] ?? row)}
            style={{ transform: `translateY(${start}px)`, width: totalWidth }}
          >
            <span className="grid-cell grid-number" role="rowheader" style={{ width: NUMBER_PX }}>
              {row + 1}
            </span>
            {horizontal.getVirtualItems().map(({ index: column, start, size }) => (
              <span
                key={column}
                className="grid-cell"
                role="gridcell"
                aria-colindex={column + 1}
                aria-selected={at.row === row && at.column === column}
                data-numeric={NUMERIC.test(columns[column]?.type ?? '')}
                style={{ left: NUMBER_PX + start, width: size }}
                onMouseDown={() => setAt({ row, column })}
              >
                <Cell value={cellAt(row, column)} />
              </span>
            ))}
          </div>
        ))}
      </div>
    </div>
  )
}

const STEPS: Record<string, { rows: number; columns: number }> = {
  ArrowDown: { rows: 1, columns: 0 },
  ArrowUp: { rows: -1, columns: 0 },
  ArrowLeft: { rows: 0, columns: -1 },
  ArrowRight: { rows: 0, columns: 1 },
  PageDown: { rows: 15, columns: 0 },
  PageUp: { rows: -15, columns: 0 },
  Home: { rows: Number.NEGATIVE_INFINITY, columns: 0 },
  End: { rows: Number.POSITIVE_INFINITY, columns: 0 },
}

function HeadCell({
  column,
  style,
  sort,
  onSort,
}: {
  column: DataGridProps['columns'][number] | undefined
  style: React.CSSProperties
  sort: Sort
  onSort: (() => void) | null
}) {
  const order = sort === null ? undefined : sort.isDescending ? 'descending' : 'ascending'
  const content = (
    <>
      {column?.name}
      {order && (order === 'ascending' ? ' ↑' : ' ↓')}
      <small>{column?.type}</small>
    </>
  )
  return (
    <span role="columnheader" aria-sort={order} className="grid-name" style={{ ...style, padding: 0 }}>
      {onSort === null ? (
        <span className="grid-name" style={{ inset: 0 }}>
          {content}
        </span>
      ) : (
        <button type="button" className="grid-name" style={{ inset: 0, width: '100%' }} onClick={onSort}>
          {content}
        </button>
      )}
    </span>
  )
}

function Cell({ value }: { value: unknown }) {
  if (value === null || value === undefined) return <i>NULL</i>
  const text = textOf(value)
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text
}

const textOf = (value: unknown): string =>
  value === null || value === undefined
    ? ''
    : typeof value === 'object'
      ? JSON.stringify(value)
      : String(value)

function widthOf(column: { name: string; type: string }, rows: DataGridProps['rows'], index: number): number {
  let characters = Math.max(column.name.length + 2, column.type.length)
  for (const row of rows.slice(0, MEASURED_ROWS)) characters = Math.max(characters, textOf(row[index]).length)
  return Math.min(WIDTH.max, Math.max(WIDTH.min, characters * WIDTH.perCharacter + WIDTH.padding))
}

/** Ascending, then descending, then as it came. */
const nextSort = (sort: Sort, column: number): Sort =>
  sort?.column !== column
    ? { column, isDescending: false }
    : sort.isDescending
      ? null
      : { column, isDescending: true }

const WHOLE = /^-?\d+$/

/** Numbers by value, also whole numbers above 2^53, which the API writes as texts; other cells by text. */
function compareCells(a: unknown, b: unknown): number {
  const [first, second] = [textOf(a), textOf(b)]
  if (WHOLE.test(first) && WHOLE.test(second)) {
    const [x, y] = [BigInt(first), BigInt(second)]
    return x < y ? -1 : x > y ? 1 : 0
  }
  const [x, y] = [Number(a), Number(b)]
  const isNumeric = !Number.isNaN(x) && !Number.isNaN(y) && a !== '' && b !== ''
  return isNumeric ? x - y : first.localeCompare(second)
}

/** The positions of the rows in the order of a column. NULL comes last. */
function orderOf(rows: DataGridProps['rows'], sort: Sort): number[] {
  const order = rows.map((_, index) => index)
  if (sort === null) return order
  const { column, isDescending } = sort
  const compare = (a: unknown, b: unknown): number => {
    if (a === null || a === undefined) return b === null || b === undefined ? 0 : 1
    if (b === null || b === undefined) return -1
    const found = compareCells(a, b)
    return isDescending ? -found : found
  }
  return order.sort((a, b) => compare(rows[a]?.[column], rows[b]?.[column]) || a - b)
}
