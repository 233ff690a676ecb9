import { useSearch } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { offsetIn, PAGE_ROWS } from '../api/paging.ts'
import { Pager } from '../design/table.tsx'
import { useChange } from './filters.ts'

/** The buttons to other pages of a list. The offset of the shown page is in the address. */
export function usePager(rows = PAGE_ROWS): (total: number) => ReactNode {
  const { offset } = useSearch({ strict: false })
  const change = useChange()
  return (total) => (
    <Pager
      offset={offsetIn(offset)}
      limit={rows}
      total={total}
      onOffset={(next) => change({ offset: next === 0 ? '' : String(next) })}
    />
  )
}
