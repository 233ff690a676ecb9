import { useCallback, useState } from 'react'

/**
 * The pages of a long list that are in sight, by their numbers. A list with another key begins at its first row. Pass `onVisible`
 * to the table.
 */
export function useSight(listKey: string, pageRows: number) {
  const [sight, setSight] = useState({ listKey, first: 0, last: 0 })
  const { first, last } = sight.listKey === listKey ? sight : { first: 0, last: 0 }
  const onVisible = useCallback(
    (firstRow: number, lastRow: number) => {
      const next = {
        listKey,
        first: Math.floor(firstRow / pageRows),
        last: Math.floor(lastRow / pageRows),
      }
      const isSame = (before: typeof next) =>
        before.listKey === listKey && before.first === next.first && before.last === next.last
      setSight((before) => (isSame(before) ? before : next))
    },
    [listKey, pageRows],
  )
  const pages = Array.from({ length: last - first + 1 }, (_, index) => first + index)
  return { pages, onVisible }
}
