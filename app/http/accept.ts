// Decides which of two representations a client prefers, by the weights of its Accept header (RFC 9110, section 12.5.1).

/** Media ranges that are read; clients name only a few. */
const RANGES_MAX = 64
const WEIGHT = /^q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/

/**
 * Whether the client prefers the media type `special` to `usual`. Under equal weights, `special` wins only when the header
 * names it. So a wildcard and a missing header mean `usual`. A malformed element is ignored.
 */
export function prefers(accept: string | null | undefined, special: string, usual: string): boolean {
  const weights = weightsIn(accept ?? '')
  const weight = weightOf(special, weights)
  const other = weightOf(usual, weights)
  return weight > other || (weight > 0 && weight === other && weights.has(special))
}

/** Weights by media range, in lower case. */
function weightsIn(accept: string): Map<string, number> {
  const weights = new Map<string, number>()
  for (const element of accept.toLowerCase().split(',', RANGES_MAX)) {
    const [range = '', ...parameters] = element.split(';').map((part) => part.trim())
    const quality = parameters.find((parameter) => parameter.startsWith('q='))
    const weight = quality === undefined ? '1' : WEIGHT.exec(quality)?.[1]
    if (range !== '' && weight !== undefined) weights.set(range, Number(weight))
  }
  return weights
}

/** The most specific range decides. */
const weightOf = (type: string, weights: Map<string, number>): number =>
  weights.get(type) ?? weights.get(type.replace(/\/.*/, '/*')) ?? weights.get('*/*') ?? 0
