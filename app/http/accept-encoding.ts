// Chooses the coding of a response by the request's Accept-Encoding (RFC 9110, section 12.5.3).

/** Codings of responses, best first. In measurements zstd is cheapest and smallest, then brotli (docs/performance.md). */
export const CODINGS = ['zstd', 'br', 'gzip'] as const
export type Coding = (typeof CODINGS)[number]

interface Accepted {
  /** Null: the response is sent without a coding. */
  coding: Coding | null
  /** The client refuses a response without a coding. */
  refusesIdentity: boolean
}

/** The part of the header that is read: more than all existing codings need. */
const HEADER_LENGTH_MAX = 1_024
const WEIGHT = /^q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/i

/** The coding that the client prefers among `available`. A malformed element is ignored. */
export function acceptedCoding(header: string | null, available: readonly Coding[]): Accepted {
  const weights = new Map<string, number>()
  for (const element of (header ?? '').slice(0, HEADER_LENGTH_MAX).split(',')) {
    const [name = '', ...parameters] = element.split(';').map((part) => part.trim().toLowerCase())
    const weight = parameters.length === 0 ? '1' : WEIGHT.exec(parameters[0] ?? '')?.[1]
    if (name === '' || weight === undefined) continue
    weights.set(name === 'x-gzip' ? 'gzip' : name, Number(weight))
  }
  const others = weights.get('*')
  const weightOf = (coding: Coding) => weights.get(coding) ?? others ?? 0
  let best: Coding | null = null
  // Under `*`, the most widely supported coding comes first.
  const named = available.filter((coding) => weights.has(coding))
  const unnamed = available.filter((coding) => !weights.has(coding)).reverse()
  for (const coding of [...named, ...unnamed])
    if (weightOf(coding) > 0 && (best === null || weightOf(coding) > weightOf(best))) best = coding
  const identity = weights.get('identity')
  const refusesIdentity = (identity ?? others) === 0
  const prefersIdentity = best !== null && identity !== undefined && identity > weightOf(best)
  return { coding: prefersIdentity ? null : best, refusesIdentity }
}
