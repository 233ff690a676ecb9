/**
 * Where a piece of rendered SQL stands in its template. Every literal piece of the template is rendered a second time behind
 * a mark, so that loops, branches and inserted text are followed exactly.
 */
import assert from 'node:assert/strict'
import { lineCounter, literalsOf, type Position } from './references.ts'

/** The place in the template of an offset in the rendered text; null: nobody can say. */
export type SourceMap = (offset: number) => Position | null

/** Marks are characters for private use, one per literal. A template that holds such a character itself is not followed. */
const FIRST_MARK = 0xf0000
const MARKS_MAX = 0xfffd
const MARK = /[\u{f0000}-\u{ffffd}]/gu
const MARK_LENGTH = 2

interface Piece {
  /** Offsets in the rendered text and in the template, and how far the two run in step. */
  rendered: number
  source: number
  length: number
}

/** `render` is what has made `rendered` of the template, and makes a text of one with marks. */
export function sourceMapOf(
  template: string,
  rendered: string,
  render: (template: string) => string,
): SourceMap {
  const pieces = piecesOf(template, rendered, render)
  if (pieces === null) return () => null
  return (offset) => {
    const piece = pieces.findLast((known) => known.rendered <= offset)
    // Text that an expression has inserted stands where the expression does.
    const at = piece === undefined ? 0 : piece.source + Math.min(offset - piece.rendered, piece.length)
    return lineCounter(template)(at)
  }
}

function piecesOf(template: string, rendered: string, render: (template: string) => string): Piece[] | null {
  if (template === rendered) return [{ rendered: 0, source: 0, length: template.length }]
  // Blanks at the beginning may be trimmed: the mark stands behind them.
  const literals = literalsOf(template).flatMap(({ start, end }) => {
    const text = template.slice(start, end)
    const blank = text.length - text.trimStart().length
    return blank === text.length ? [] : [{ source: start + blank, length: text.length - blank }]
  })
  if (literals.length > MARKS_MAX || template.search(MARK) >= 0) return null
  let marked = ''
  let copied = 0
  for (const [index, { source }] of literals.entries()) {
    marked += template.slice(copied, source) + String.fromCodePoint(FIRST_MARK + index)
    copied = source
  }
  const again = renderedOrNull(marked + template.slice(copied), render)
  // A template that looks at its own text can make another one of it.
  if (again === null || again.replaceAll(MARK, '') !== rendered) return null
  return Array.from(again.matchAll(MARK), (match, count) => {
    const literal = literals[Number(match[0].codePointAt(0)) - FIRST_MARK]
    assert(literal !== undefined, 'a rendered text holds a mark of no literal')
    return { rendered: match.index - MARK_LENGTH * count, ...literal }
  })
}

function renderedOrNull(template: string, render: (template: string) => string): string | null {
  try {
    return render(template)
  } catch {
    // Marks take room: a template near its limits is not followed.
    return null
  }
}
