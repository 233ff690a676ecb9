/** Rows of one page of a list. */
export const PAGE_ROWS = 50

/** The first row of a page, from the text in an address. */
export function offsetIn(text: string | undefined): number {
  const asked = Number(text ?? 0)
  return Number.isSafeInteger(asked) ? Math.max(0, asked) : 0
}

/** The part of a list that a request asks for. */
export const boundsOf = (offset: string | undefined, rows = PAGE_ROWS) => ({
  limit: String(rows),
  offset: String(offsetIn(offset)),
})
