import { invalid } from '../core/errors.ts'

const COLUMN = /^[^\s:,()]+$/
/** For example `VARCHAR`, `DECIMAL(14,2)`, `TIMESTAMP WITH TIME ZONE`, `INTEGER[]`. */
const TYPE = /^[A-Za-z_][A-Za-z0-9_ ]*(\(\s*\d+\s*(,\s*\d+\s*)?\))?(\[\d*\])*$/

/** Throws 400 unless the text has the form `col:type,col:type`. A type may contain commas in parentheses. */
export function checkExpectedSchema(text: string): void {
  const names = new Set<string>()
  for (const column of columnsOf(text)) {
    const [name = '', type = '', ...rest] = column.split(':').map((part) => part.trim())
    if (rest.length > 0 || !COLUMN.test(name) || !TYPE.test(type))
      throw invalid('expected_schema', `'${column.trim().slice(0, 80)}' does not have the form col:type`)
    if (names.has(name)) throw invalid('expected_schema', `contains the column ${name} more than once`)
    names.add(name)
  }
}

/** Splits at commas outside parentheses, in one pass. */
function columnsOf(text: string): string[] {
  const columns: string[] = []
  let from = 0
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    const character = text[at]
    if (character === '(') depth++
    else if (character === ')') depth = Math.max(0, depth - 1)
    else if (character === ',' && depth === 0) {
      columns.push(text.slice(from, at))
      from = at + 1
    }
  }
  return [...columns, text.slice(from)]
}
