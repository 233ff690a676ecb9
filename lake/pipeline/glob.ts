// Globs on file names: `*` matches any characters, `?` one character, `[a-z]` one character of a set. `[!a-z]` matches one
// character outside the set. `\` makes the next character literal. Matching takes at most name x pattern steps, because it
// never backtracks further than the last `*`.

/** An invalid glob; the message names the reason. */
export class BadGlob extends Error {}

/** Maximum length of a pattern in characters: enough for the longest file name. */
export const GLOB_LENGTH_MAX = 512

type CharacterMatcher =
  | { kind: 'any' }
  | { kind: 'is'; character: string }
  | { kind: 'in'; set: CharacterSet }
interface CharacterSet {
  isNegated: boolean
  /** True for `[[:alpha:]`, `[[=a=]` and `[[.a.]`. Shells read these as classes; here they are single characters. */
  looksLikeClass: boolean
  ranges: { from: number; to: number }[]
}
type Part = CharacterMatcher | { kind: 'many' }

/** Parsed patterns in the cache. Triggers share a few patterns. */
const CACHE_MAX = 1_000
const cachedParts = new Map<string, readonly Part[]>()

/** Throws BadGlob, which names the reason. */
export function checkGlob(pattern: string): void {
  if (parse(pattern).some((part) => part.kind === 'in' && part.set.looksLikeClass))
    throw new BadGlob(
      'contains a character class such as [:alpha:], which is not supported: use a range such as [a-zA-Z]',
    )
}

/** Whether the pattern matches the whole name. Matching is case-sensitive. Throws BadGlob. */
export function matchesGlob(pattern: string, name: string): boolean {
  const parts = parse(pattern)
  const characters = Array.from(name)
  let at = 0
  let part = 0
  /** The latest `*` of the pattern, and the position in the name behind the characters that this `*` matches. */
  let many: { part: number; at: number } | null = null
  for (let character = characters[at]; character !== undefined; character = characters[at]) {
    const next = parts[part]
    if (next?.kind === 'many') {
      many = { part, at }
      part++
    } else if (next !== undefined && fits(next, character)) {
      at++
      part++
    } else if (many !== null) {
      many.at++
      at = many.at
      part = many.part + 1
    } else return false
  }
  // `parse` merges adjacent `*`, so at most one is left at the end.
  return part === parts.length || (part === parts.length - 1 && parts[part]?.kind === 'many')
}

/** Whether a name exists that both patterns match. Takes at most pattern x pattern steps. Throws BadGlob. */
export function overlapGlobs(one: string, other: string): boolean {
  const [first, second] = [parse(one), parse(other)]
  // The places in the second pattern that some name reaches together with the present place in the first.
  let places = passMany(new Set([0]), second)
  for (const part of first) {
    const next = new Set<number>()
    for (const place of places) {
      const matcher = second[place]
      if (part.kind === 'many') {
        // The `*` may match whatever the rest of the second pattern matches.
        for (let at = place; at <= second.length; at++) next.add(at)
      } else if (matcher?.kind === 'many') next.add(place)
      else if (matcher !== undefined && haveCommon(part, matcher)) next.add(place + 1)
    }
    places = passMany(next, second)
  }
  return places.has(second.length)
}

/** Adds the places behind each `*`, which matches nothing too. */
function passMany(places: Set<number>, parts: readonly Part[]): Set<number> {
  for (const place of places) if (parts[place]?.kind === 'many') places.add(place + 1)
  return places
}

/** Whether a character fits both. Two sets that exclude characters always have one in common. */
function haveCommon(one: CharacterMatcher, other: CharacterMatcher): boolean {
  if (one.kind === 'any' || other.kind === 'any') return true
  if (one.kind === 'is') return fits(other, one.character)
  if (other.kind === 'is') return fits(one, other.character)
  if (one.set.isNegated && other.set.isNegated) return true
  const [positive, set] = one.set.isNegated ? [other.set, one.set] : [one.set, other.set]
  // A common range begins where a range of one of them begins, or directly behind an excluded range.
  const begins = [...positive.ranges, ...set.ranges].flatMap(({ from, to }) => [from, to + 1])
  return begins.some((code) => isIn(positive, code) && isIn(set, code))
}

const isIn = ({ ranges, isNegated }: CharacterSet, code: number): boolean =>
  ranges.some(({ from, to }) => from <= code && code <= to) !== isNegated

function fits(part: CharacterMatcher, character: string): boolean {
  switch (part.kind) {
    case 'any':
      return true
    case 'is':
      return part.character === character
    case 'in':
      return isIn(part.set, codeOf(character))
  }
}

function parse(pattern: string): readonly Part[] {
  const cached = cachedParts.get(pattern)
  if (cached !== undefined) return cached
  const characters = Array.from(pattern)
  if (characters.length === 0) throw new BadGlob('is empty')
  if (characters.length > GLOB_LENGTH_MAX) throw new BadGlob(`is longer than ${GLOB_LENGTH_MAX} characters`)
  const parts: Part[] = []
  for (let at = 0; at < characters.length; at++) {
    const character = characters[at]
    if (character === '*') {
      if (parts.at(-1)?.kind !== 'many') parts.push({ kind: 'many' })
    } else if (character === '?') parts.push({ kind: 'any' })
    else if (character === '[') {
      const { set, end } = setAt(characters, at)
      parts.push({ kind: 'in', set })
      at = end
    } else {
      if (character === '\\') at++
      parts.push({ kind: 'is', character: literalAt(characters, at) })
    }
  }
  if (cachedParts.size >= CACHE_MAX) cachedParts.clear()
  cachedParts.set(pattern, parts)
  return parts
}

/** The set that opens at `open`, and the position of its closing bracket. */
function setAt(characters: readonly string[], open: number): { set: CharacterSet; end: number } {
  const isNegated = characters[open + 1] === '!' || characters[open + 1] === '^'
  const ranges: CharacterSet['ranges'] = []
  let at = open + (isNegated ? 2 : 1)
  let classAt: number | null = null
  while (characters[at] !== ']') {
    if (characters[at] === '[' && ':=.'.includes(characters[at + 1] ?? ' ')) classAt ??= at + 1
    if (at >= characters.length) throw new BadGlob(`'[' at character ${open + 1} is never closed`)
    const from = memberAt(characters, at)
    at = from.end + 1
    let to = from
    // A hyphen directly before `]` is a literal hyphen.
    if (characters[at] === '-' && at + 1 < characters.length && characters[at + 1] !== ']') {
      to = memberAt(characters, at + 1)
      at = to.end + 1
    }
    if (codeOf(from.character) > codeOf(to.character))
      throw new BadGlob(`range ${from.character}-${to.character} ends before it starts: swap its ends`)
    ranges.push({ from: codeOf(from.character), to: codeOf(to.character) })
  }
  if (ranges.length === 0) throw new BadGlob(`the set at character ${open + 1} is empty`)
  const looksLikeClass = classAt !== null && classAt < at - 1 && characters[classAt] === characters[at - 1]
  return { set: { isNegated, looksLikeClass, ranges }, end: at }
}

function memberAt(characters: readonly string[], at: number): { character: string; end: number } {
  const end = characters[at] === '\\' ? at + 1 : at
  return { character: literalAt(characters, end), end }
}

function literalAt(characters: readonly string[], at: number): string {
  const character = characters[at]
  if (character === undefined) throw new BadGlob("ends in '\\', which needs a character after it")
  if (character === '/') throw new BadGlob("contains '/', which cannot occur in a file name")
  return character
}

const codeOf = (character: string) => character.codePointAt(0) ?? 0
