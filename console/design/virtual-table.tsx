import { useVirtualizer } from '@tanstack/react-virtual'
import { type ReactNode, type Ref, useEffect, useImperativeHandle, useRef } from 'react'

export interface VirtualColumn<Row> {
  name: string
  /** The width, as CSS grid writes it: `90px`, `minmax(120px, 1fr)`. */
  width: string
  cell: (row: Row) => ReactNode
}

const ROW_PX = 40
/** The head of the table, and a scroll bar below the rows. */
const HEAD_PX = 34 + 18
/** Rows rendered beyond the visible ones. */
const OVERSCAN = 8

export interface RowFocus {
  /** Scrolls to a row and focuses its link, when the row is loaded. */
  focusRow: (index: number) => void
  /** The row that contains the focus; -1: none. */
  focusedRow: () => number
}

/**
 * A list of any length: only visible rows exist in the page. `rowAt` returns undefined for a row that is not loaded yet;
 * `onVisible` says which rows are needed.
 */
export function VirtualTable<Row>({
  label,
  columns,
  total,
  rowAt,
  onVisible,
  ref,
}: {
  label: string
  columns: readonly VirtualColumn<Row>[]
  total: number
  rowAt: (index: number) => Row | undefined
  onVisible?: (first: number, last: number) => void
  ref?: Ref<RowFocus>
}) {
  const scroller = useRef<HTMLDivElement>(null)
  const virtualizer = useVirtualizer({
    count: total,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
  })
  const items = virtualizer.getVirtualItems()
  const first = items[0]?.index ?? 0
  const last = items.at(-1)?.index ?? 0
  useEffect(() => onVisible?.(first, last), [onVisible, first, last])
  const wanted = useRef<number | null>(null)
  const rowElement = (index: number) => scroller.current?.querySelector(`[aria-rowindex="${index + 2}"]`)
  const focusWanted = () => {
    const link = wanted.current === null ? null : rowElement(wanted.current)?.querySelector('a')
    if (!link) return
    wanted.current = null
    link.focus()
  }
  useImperativeHandle(ref, () => ({
    focusRow(index) {
      wanted.current = index
      virtualizer.scrollToIndex(index)
      focusWanted()
    },
    focusedRow() {
      const row = document.activeElement?.closest('[aria-rowindex]')
      return row && scroller.current?.contains(row) ? Number(row.ariaRowIndex) - 2 : -1
    },
  }))
  // The row may come with a later drawing, or with its data.
  useEffect(focusWanted)
  const style = {
    '--columns': columns.map(({ width }) => width).join(' '),
    '--full-height': `${HEAD_PX + total * ROW_PX}px`,
  } as React.CSSProperties
  return (
    <div
      ref={scroller}
      className="virtual"
      style={style}
      role="table"
      aria-label={label}
      aria-rowcount={total + 1}
      tabIndex={0}
    >
      <div className="virtual-head" role="row" aria-rowindex={1}>
        {columns.map(({ name }) => (
          <span role="columnheader" key={name}>
            {name}
          </span>
        ))}
      </div>
      <div role="rowgroup" style={{ height: virtualizer.getTotalSize(), position: 'relative' }}>
        {items.map(({ index, start }) => {
          const row = rowAt(index)
          return (
            <div
              className="virtual-row"
              role="row"
              aria-rowindex={index + 2}
              key={index}
              style={{ position: 'absolute', top: 0, left: 0, right: 0, transform: `translateY(${start}px)` }}
            >
              {columns.map(({ name, cell }) => {
                const content = row === undefined ? '…' : cell(row)
                return (
                  <span role="cell" key={name} title={typeof content === 'string' ? content : undefined}>
                    {content}
                  </span>
                )
              })}
            </div>
          )
        })}
      </div>
    </div>
  )
}
