/**
 * The literal `ref('...')` and `landing_zone('...')` calls of a source: what lineage shows, what publish warns about,
 * and which landing zones are frozen at a run's start.
 *
 * In SQL a call counts where the template evaluates it, so inside `{{ }}` and `{% %}`; text outside the delimiters is
 * plain SQL. A call in `{# #}` or in a raw block is no call; one in delimiters inside a SQL comment is evaluated by the
 * template, so a run needs what it names, but reads nothing of it: `isCommented`. In Python a call counts in code and in the replacement fields of an f-string.
 */

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
  /** Evaluated inside a SQL comment: the SQL does not read what it names. */
  isCommented?: true
}

export interface SqlReferences {
  calls: Call[]
  /** Calls the template evaluates whose argument is no literal: what they name shows when they are rendered. */
  dynamic: (Position & { function: ReferenceFunction })[]
  /** `ref(` or `landing_zone(` standing in plain SQL code, where nothing evaluates it. */
  bare: (Position & { function: ReferenceFunction })[]
}

/** At the scanner's position: the function and a literal as its only argument. */
const CALL = /(ref|landing_zone)\s*\(\s*(?:'([^'\\\n]*)'|"([^"\\\n]*)")\s*(?:,\s*)?\)/y
const BARE = /(ref|landing_zone)\s*\(/y
const SPACE = /\s/
const WORD = /[\p{L}\p{N}_]+/uy
const RAW = /\{%[-+]?\s*raw\s*[-+]?%\}/y
const TAG = /\{[{%#]/g
const END_RAW = /\{%[-+]?\s*endraw\s*[-+]?%\}/g
/** What a scanner of plain SQL stops at, outside and inside of its comments and quoted texts. */
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

/** Every call of a SQL template, in order. Never throws: what is unfinished ends with the text. */
export function sqlReferences(source: string): SqlReferences {
  const found: SqlReferences = { calls: [], dynamic: [], bare: [] }
  const positionOf = lineCounter(source)
  let inside: keyof typeof SQL_STOPS = 'code'
  /** Block comments nest. */
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
      at = templateTag(source, stop.index, ({ function: name, argument, at: index }) => {
        if (argument === null) found.dynamic.push({ function: name, ...positionOf(index) })
        else found.calls.push({ function: name, argument, ...positionOf(index), ...comment })
      })
    } else if (inside === 'block') {
      blocks += text === '/*' ? 1 : -1
      if (blocks === 0) inside = 'code'
    } else if (inside === 'dollar') {
      if (text === dollarTag) inside = 'code'
      // Its last $ may begin the tag that closes.
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

/** The pieces of a template that stand outside of its delimiters, in order: from `start` up to `end`. */
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

/** Every call of a Python source, in order. Never throws. */
export function pythonReferences(source: string): Call[] {
  const calls: Call[] = []
  const positionOf = lineCounter(source)
  pythonCode(source, 0, 0, ({ function: name, argument, at }) => {
    if (argument !== null) calls.push({ function: name, argument, ...positionOf(at) })
  })
  return calls
}

/** `argument`: null when it is no literal. */
type Report = (call: { function: ReferenceFunction; argument: string | null; at: number }) => void

/** Reads one `{{ }}`, `{% %}`, `{# #}` or raw block that starts at `start`; answers where it ends. */
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

/** Replacement fields nest f-strings; past this depth they are skipped. */
const PYTHON_DEPTH_LIMIT = 20
const PYTHON_PREFIX = /^[rbuft]{1,2}$/i

/** Reads Python code; at a depth above 0 until the `}` that closes the replacement field. Answers where it ends. */
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

/** Reads the format of a replacement field, text with fields in it; answers where its field ends. */
function formatOf(source: string, start: number, depth: number, report: Report): number {
  let at = start
  while (at < source.length && source[at] !== '}')
    at =
      source[at] === '{' && depth < PYTHON_DEPTH_LIMIT
        ? pythonCode(source, at + 1, depth + 1, report)
        : at + 1
  return at + 1
}

/** Reads one string literal whose quote stands at `start`; answers where it ends. */
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

/** Reads one word or one character of code, reporting the call it begins. */
function word(source: string, at: number, report: Report): number {
  const name = matchFrom(WORD, source, at)
  if (name === null) return at + 1
  const call = matchFrom(CALL, source, at)
  const other = call ?? matchFrom(BARE, source, at)
  if (other === null || followsDot(source, at)) return at + name[0].length
  report({ function: functionOf(other), argument: call && (call[2] ?? call[3] ?? ''), at })
  return at + other[0].length
}

/** A method or a filter of that name is another function. */
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

/** Positions of growing indexes in one pass over the text, however many are asked for in one line. */
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
