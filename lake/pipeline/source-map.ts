// Maps offsets in rendered SQL to positions in the template. The template is rendered again with a mark before each literal
// piece. So loops, branches and inserted text are mapped exactly.
import assert from 'node:assert/strict'
import { lineCounter, literalsOf, type Position } from './references.ts'

/** Returns the position in the template for an offset in the rendered text; null when the position is unknown. */
export type SourceMap = (offset: number) => Position | null

/** Marks are private-use characters, one per literal. A template that already contains such a character is not mapped. */
const FIRST_MARK = 0xf0000
const MARKS_MAX = 0xfffd
const MARK = /[\u{f0000}-\u{ffffd}]/gu
const MARK_LENGTH = 2

interface Piece {
  /** Offsets in the rendered text and in the template, and the length of their common text. */
  rendered: number
  source: number
  length: number
}

/** `render` is the function that rendered the template. It also renders the template with marks. */
export async function sourceMapOf(
  template: string,
  rendered: string,
  render: (template: string) => Promise<string>,
): Promise<SourceMap> {
  const pieces = await piecesOf(template, rendered, render)
  if (pieces === null) return () => null
  return (offset) => {
    const piece = pieces.findLast((candidate) => candidate.rendered <= offset)
    // Text from an expression maps to the position of the expression.
    const at = piece === undefined ? 0 : piece.source + Math.min(offset - piece.rendered, piece.length)
    return lineCounter(template)(at)
  }
}

async function piecesOf(
  template: string,
  rendered: string,
  render: (template: string) => Promise<string>,
): Promise<Piece[] | null> {
  if (template === rendered) return [{ rendered: 0, source: 0, length: template.length }]
  // Leading blanks may be trimmed, so the mark follows them.
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
  const markedText = await renderedOrNull(marked + template.slice(copied), render)
  // A template that depends on its own text can render differently with marks.
  if (markedText === null || markedText.replaceAll(MARK, '') !== rendered) return null
  return Array.from(markedText.matchAll(MARK), (match, count) => {
    const literal = literals[Number(match[0].codePointAt(0)) - FIRST_MARK]
    assert(literal !== undefined, 'the rendered text contains an unknown source mark')
    return { rendered: match.index - MARK_LENGTH * count, ...literal }
  })
}

async function renderedOrNull(
  template: string,
  render: (template: string) => Promise<string>,
): Promise<string | null> {
  try {
    return await render(template)
  } catch {
    // Marks make the text longer, so a template near its limits is not mapped.
    return null
  }
}
