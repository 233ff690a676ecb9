import type { Key, ReactNode } from 'react'
import { Button } from './controls.tsx'
import { count } from './format.ts'

export interface Column<Row> {
  name: string
  isNumeric?: boolean
  cell: (row: Row) => ReactNode
}

/** A table of some rows. Use `VirtualTable` for a long list. `label` names the table. */
export function Table<Row>({
  label,
  columns,
  rows,
  keyOf,
}: {
  label: string
  columns: readonly Column<Row>[]
  rows: readonly Row[]
  keyOf: (row: Row) => Key
}) {
  return (
    <section className="table-scroll" tabIndex={0} aria-label={label}>
      <table className="table">
        <thead>
          <tr>
            {columns.map(({ name, isNumeric }) => (
              <th key={name} scope="col" className={isNumeric ? 'numeric' : undefined}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map(({ name, isNumeric, cell }) => (
                <td key={name} className={isNumeric ? 'numeric' : undefined}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

/** The controls below one page of a list. */
export function Pager({
  offset,
  limit,
  total,
  onOffset,
}: {
  offset: number
  limit: number
  total: number
  onOffset: (offset: number) => void
}) {
  if (total <= limit && offset === 0) return null
  const last = Math.min(offset + limit, total)
  const lastPage = Math.max(0, Math.ceil(total / limit) - 1) * limit
  return (
    <nav className="pager" aria-label="Pages">
      <span>
        {offset < total
          ? `${count(offset + 1)} to ${count(last)} of ${count(total)}`
          : `nothing here: the list has ${count(total)}`}
      </span>
      <span className="row">
        <Button
          size="small"
          disabled={offset === 0}
          onClick={() => onOffset(Math.min(Math.max(0, offset - limit), lastPage))}
        >
          Previous
        </Button>
        <Button size="small" disabled={last >= total} onClick={() => onOffset(offset + limit)}>
          Next
        </Button>
      </span>
    </nav>
  )
}
