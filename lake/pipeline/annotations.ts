// Header annotations: `-- @key: value` (SQL) and `# @key: value` (Python), only in the leading comment block. Blank lines do
// not end the block. The first line that is neither blank nor a comment ends it.

interface Annotation {
  key: string
  value: string
  /** 1-based. */
  line: number
}

type CommentMark = '--' | '#'

/** Headers are written by hand, so later lines do not belong to a header. */
const HEADER_LINES_LIMIT = 200

const ANNOTATION = /^@([A-Za-z_][A-Za-z0-9_-]*)\s*:(.*)$/

/** The comment mark of a source file, chosen by its name. */
export const commentMarkOf = (path: string): CommentMark => (path.endsWith('.py') ? '#' : '--')

/** Returns every annotation of the header, in order. A key written twice appears twice. Keys are lower case. */
export function readAnnotations(source: string, mark: CommentMark): Annotation[] {
  const annotations: Annotation[] = []
  let line = 0
  for (const text of headerLines(source)) {
    line += 1
    if (text === '') continue
    if (!text.startsWith(mark)) break
    const match = ANNOTATION.exec(text.slice(mark.length).trim())
    if (match?.[1] === undefined) continue
    annotations.push({ key: match[1].toLowerCase(), value: (match[2] ?? '').trim(), line })
  }
  return annotations
}

/** Yields the first lines, trimmed, one at a time: a source can be much larger than its header. */
function* headerLines(source: string): Generator<string> {
  let start = source.startsWith('\uFEFF') ? 1 : 0
  for (let line = 0; line < HEADER_LINES_LIMIT && start < source.length; line += 1) {
    const end = source.indexOf('\n', start)
    yield source.slice(start, end === -1 ? undefined : end).trim()
    if (end === -1) return
    start = end + 1
  }
}

/** Splits a comma-separated list and drops empty parts. */
export const splitList = (text: string): string[] =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
