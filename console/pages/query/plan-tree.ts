/** One operator of a plan that DuckDB draws as text. */
export interface PlanNode {
  name: string
  details: string[]
  /** Estimated or measured rows, as DuckDB writes them. */
  rows: string | null
  /** Time of EXPLAIN ANALYZE. */
  time: string | null
  children: PlanNode[]
}

const BOX_TOP = /┌─+┴?─*┐/g
const RULE = /^─+$/

/**
 * Reads the tree of boxes. Rows of boxes follow each other; a box belongs to the nearest box of the row above that does not lie to
 * its right. Returns null for a text of another form.
 */
export function planOf(text: string): PlanNode | null {
  const lines = text.split('\n')
  // EXPLAIN ANALYZE begins with boxes inside boxes and the statement.
  const start = lines.findLastIndex((line) => line.startsWith('││'))
  let above: { column: number; node: PlanNode }[] = []
  let root: PlanNode | null = null
  for (let top = start < 0 ? 0 : start + 3; top < lines.length; top += 1) {
    const boxes = [...(lines[top] ?? '').matchAll(BOX_TOP)]
    if (boxes.length === 0) continue
    const length = lines.slice(top).findIndex((line) => line.includes('└'))
    if (length < 0) return null
    const inside = lines.slice(top + 1, top + length)
    const row = boxes.map(({ index: column, 0: { length: width } }) => ({
      column,
      node: nodeOf(inside.map((line) => line.slice(column + 1, column + width - 1).trim())),
    }))
    for (const { column, node } of row) {
      const parent = above.findLast((other) => other.column <= column)
      if (parent !== undefined) parent.node.children.push(node)
      else if (root === null) root = node
      else return null
    }
    above = row
    top += length
  }
  return root
}

const ROWS = /^~?[\d,.]+ rows?$/
const TIME = /^[\d.]+s$/

function nodeOf(lines: readonly string[]): PlanNode {
  const [name = '', ...rest] = lines.filter((line) => line !== '' && !RULE.test(line))
  return {
    name,
    details: rest.filter((line) => !ROWS.test(line) && !TIME.test(line)),
    rows: rest.find((line) => ROWS.test(line)) ?? null,
    time: rest.find((line) => TIME.test(line)) ?? null,
    children: [],
  }
}
