// Finds the literal `ref('...')` and `landing_zone('...')` calls of a source. Lineage shows them, publish warns about them, and
// a run freezes their landing zones at its start.
//
// In SQL, a call counts when the template evaluates it, so inside `{{ }}` and `{% %}`. Text outside the delimiters is plain
// SQL. Calls in `{# #}` or in a raw block do not count. The template also evaluates a delimited call inside a SQL comment. A
// run then needs the named table or zone, but reads nothing from it: `isCommented`. In Python, a call counts in code and in the
// replacement fields of an f-string.

export interface Position {
  /** 1-based. */
  line: number
  /** 1-based. */
  column: number
}

export type ReferenceFunction = 'ref' | 'landing_zone'

export interface Call extends Position {
  function: ReferenceFunction
  argument: string
  /** The pattern of `landing_zone('...', pattern='...')`. */
  pattern?: string
  /** The path of the zone is changed, for example by a filter, so the call may select some of its files only. */
  isFiltered?: true
  /** The template evaluates the call inside a SQL comment, so the SQL does not read the named table or zone. */
  isCommented?: true
}

interface SqlReferences {
  calls: Call[]
  /** Evaluated calls whose argument is not a literal. Their names are known only after rendering. */
  dynamic: (Position & { function: ReferenceFunction })[]
  /** `ref(` or `landing_zone(` in plain SQL code, which the template does not evaluate. */
  bare: (Position & { function: ReferenceFunction })[]
}

/** Matches, at the scanner's position, a function with literals as its arguments: a name, and a pattern if any. */
const CALL =
  /(ref|landing_zone)\s*\(\s*(?:'([^'\\\n]*)'|"([^"\\\n]*)")\s*(?:,\s*pattern\s*=\s*(?:'([^'\\\n]*)'|"([^"\\\n]*)")\s*)?(?:,\s*)?\)/y
const BARE = /(ref|landing_zone)\s*\(/y
/** Matches, after a call, the beginning of an operation on its text. */
const CHANGED = /\s*[|[.~+]/y
const SPACE = /\s/
const WORD = /[\p{L}\p{N}_]+/uy
const RAW = /\{%[-+]?\s*raw\s*[-+]?%\}/y
const TAG = /\{[{%#]/g
const END_RAW = /\{%[-+]?\s*endraw\s*[-+]?%\}/g
/** The texts at which the scanner of plain SQL stops, outside and inside comments and quoted texts. */
const SQL_STOPS = {
  code: /\{[{%#]|--|\/\*|[eE]'|['"]|\$(?:[\p{L}_][\p{L}\p{N}_]*)?\$|[\p{L}_][\p{L}\p{N}_$]*|\p{N}+/gu,
  line: /\{[{%#]|[\n\r]/g,
  block: /\{[{%#]|\/\*|\*\//g,
  "'": /\{[{%#]|'/g,
  /** E'it\'s' */
  escaped: /\{[{%#]|\\['\\]|'/g,
  '"': /\{[{%#]|"/g,
  /** $tag$ it's $tag$ */
  dollar: /\{[{%#]|\$(?:[\p{L}_][\p{L}\p{N}_]*)?\$/gu,
} as const

/** Returns every call of a SQL template, in order. Never throws: an unfinished construct ends with the text. */
export function sqlReferences(source: string): SqlReferences {
  const found: SqlReferences = { calls: [], dynamic: [], bare: [] }
  const positionOf = lineCounter(source)
  let inside: keyof typeof SQL_STOPS = 'code'
  // Block comments nest.
  let blocks = 0
  let dollarTag = ''
  let at = 0
  for (;;) {
    const stop = matchFrom(SQL_STOPS[inside], source, at)
    if (stop === null) return found
    const [text] = stop
    at = stop.index + text.length
    if (text === '{{' || text === '{%' || text === '{#') {
      const comment = inside === 'line' || inside === 'block' ? { isCommented: true as const } : {}
      at = templateTag(source, stop.index, ({ at: index, argument, ...call }) => {
        if (argument === null) found.dynamic.push({ function: call.function, ...positionOf(index) })
        else found.calls.push({ ...call, argument, ...positionOf(index), ...comment })
      })
    } else if (inside === 'block') {
      blocks += text === '/*' ? 1 : -1
      if (blocks === 0) inside = 'code'
    } else if (inside === 'dollar') {
      if (text === dollarTag) inside = 'code'
      // The last $ may begin the closing tag.
      else at -= 1
    } else if (inside !== 'code') {
      if (!text.startsWith('\\')) inside = 'code'
    } else if (text === '--') inside = 'line'
    else if (text === '/*') {
      inside = 'block'
      blocks = 1
    } else if (text === "'" || text === '"') inside = text
    else if (text.endsWith("'")) inside = 'escaped'
    else if (text.startsWith('$')) {
      inside = 'dollar'
      dollarTag = text
    } else {
      const bare = matchFrom(BARE, source, stop.index)
      if (bare !== null && !followsDot(source, stop.index))
        found.bare.push({ function: functionOf(bare), ...positionOf(stop.index) })
    }
  }
}

/** The pieces of a template outside its delimiters, in order. Each piece goes from `start` up to `end`. */
export function literalsOf(source: string): { start: number; end: number }[] {
  const literals: { start: number; end: number }[] = []
  let start = 0
  for (;;) {
    const tag = matchFrom(TAG, source, start)
    const end = tag?.index ?? source.length
    if (end > start) literals.push({ start, end })
    if (tag === null) return literals
    start = templateTag(source, tag.index, () => {})
  }
}

/** Returns every call of a Python source, in order. Never throws. */
export function pythonReferences(source: string): Call[] {
  const calls: Call[] = []
  const positionOf = lineCounter(source)
  pythonCode(source, 0, 0, ({ at, argument, ...call }) => {
    if (argument !== null) calls.push({ ...call, argument, ...positionOf(at) })
  })
  return calls
}

/** `argument` is null when it is not a literal. */
type Report = (call: {
  function: ReferenceFunction
  argument: string | null
  pattern?: string
  isFiltered?: true
  at: number
}) => void

/** Reads one `{{ }}`, `{% %}`, `{# #}` or raw block that starts at `start`. Returns the offset after it. */
function templateTag(source: string, start: number, report: Report): number {
  if (source.startsWith('{#', start)) return endOf(source, '#}', start + 2)
  const raw = matchFrom(RAW, source, start)
  if (raw !== null) {
    const end = matchFrom(END_RAW, source, start + raw[0].length)
    return end === null ? source.length : end.index + end[0].length
  }
  const closing = source.startsWith('{{', start) ? '}}' : '%}'
  let at = start + 2
  while (at < source.length) {
    if (source.startsWith(closing, at)) return at + 2
    const character = source[at]
    if (character === "'" || character === '"') at = quoted(source, at + 1, character)
    else at = word(source, at, report)
  }
  return at
}

/** Replacement fields can contain f-strings. Below this depth, fields are skipped. */
const PYTHON_DEPTH_LIMIT = 20
const PYTHON_PREFIX = /^[rbuft]{1,2}$/i

/** Reads Python code. At a depth above 0, it stops after the `}` of the replacement field. Returns the end offset. */
function pythonCode(source: string, start: number, depth: number, report: Report): number {
  let brackets = 0
  let at = start
  while (at < source.length) {
    const character = source.charAt(at)
    if (character === '#') at = endOf(source, '\n', at)
    else if (character === "'" || character === '"') at = pythonText(source, at, '', depth, report)
    else if ('([{'.includes(character)) {
      brackets += 1
      at += 1
    } else if (character === '}' && brackets === 0 && depth > 0) return at + 1
    else if (')]}'.includes(character)) {
      brackets = Math.max(0, brackets - 1)
      at += 1
    } else if (character === ':' && brackets === 0 && depth > 0) {
      return formatOf(source, at + 1, depth, report)
    } else {
      const name = matchFrom(WORD, source, at)?.[0] ?? ''
      const quote = source[at + name.length]
      at =
        PYTHON_PREFIX.test(name) && (quote === "'" || quote === '"')
          ? pythonText(source, at + name.length, name.toLowerCase(), depth, report)
          : word(source, at, report)
    }
  }
  return at
}

/** Reads the format of a replacement field, which is text with nested fields. Returns the offset after the field. */
function formatOf(source: string, start: number, depth: number, report: Report): number {
  let at = start
  while (at < source.length && source[at] !== '}')
    at =
      source[at] === '{' && depth < PYTHON_DEPTH_LIMIT
        ? pythonCode(source, at + 1, depth + 1, report)
        : at + 1
  return at + 1
}

/** Reads one string literal whose quote is at `start`. Returns the offset after the literal. */
function pythonText(source: string, start: number, prefix: string, depth: number, report: Report): number {
  const quote = source.charAt(start)
  const isTriple = source.startsWith(quote.repeat(3), start)
  const closing = isTriple ? quote.repeat(3) : quote
  const hasFields = /[ft]/.test(prefix) && depth < PYTHON_DEPTH_LIMIT
  let at = start + closing.length
  while (at < source.length) {
    if (source.startsWith(closing, at)) return at + closing.length
    const character = source[at]
    if (character === '\\') at += 2
    else if (character === '\n' && !isTriple) return at
    else if (hasFields && source.startsWith('{{', at)) at += 2
    else if (hasFields && character === '{') at = pythonCode(source, at + 1, depth + 1, report)
    else at += 1
  }
  return at
}

/** Reads one word or one character of code, and reports a call that begins there. */
function word(source: string, at: number, report: Report): number {
  const name = matchFrom(WORD, source, at)
  if (name === null) return at + 1
  const call = matchFrom(CALL, source, at)
  const other = call ?? matchFrom(BARE, source, at)
  if (other === null || followsDot(source, at)) return at + name[0].length
  const pattern = call?.[4] ?? call?.[5]
  report({
    function: functionOf(other),
    argument: call && (call[2] ?? call[3] ?? ''),
    ...(pattern !== undefined && { pattern }),
    ...(functionOf(other) === 'landing_zone' &&
      matchFrom(CHANGED, source, at + other[0].length) !== null && { isFiltered: true as const }),
    at,
  })
  return at + other[0].length
}

/** A method or a filter with that name is a different function. */
function followsDot(source: string, at: number): boolean {
  let before = at - 1
  while (before >= 0 && SPACE.test(source.charAt(before))) before -= 1
  return source[before] === '.' || source[before] === '|'
}

const functionOf = (match: RegExpExecArray): ReferenceFunction =>
  match[1] === 'landing_zone' ? 'landing_zone' : 'ref'

function quoted(source: string, start: number, quote: string): number {
  let at = start
  while (at < source.length && source[at] !== quote) at += source[at] === '\\' ? 2 : 1
  return at + 1
}

function endOf(source: string, closing: string, from: number): number {
  const index = source.indexOf(closing, from)
  return index === -1 ? source.length : index + closing.length
}

function matchFrom(pattern: RegExp, source: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at
  return pattern.exec(source)
}

/** Converts increasing indexes to positions in one pass over the text, even for many indexes in one line. */
export function lineCounter(source: string): (index: number) => Position {
  let line = 1
  let lineStart = 0
  let lineEnd = endOf(source, '\n', 0)
  return (index) => {
    while (lineEnd <= index && lineEnd < source.length) {
      line += 1
      lineStart = lineEnd
      lineEnd = endOf(source, '\n', lineStart)
    }
    return { line, column: index - lineStart + 1 }
  }
}
