// Random choices from a seed: the same seed makes the same choices on every machine.

export type Random = ReturnType<typeof makeRandom>

/** The generator is Tommy Ettinger's mulberry32, public domain. */
export function makeRandom(seed: number) {
  let state = seed | 0

  /** A number from 0 (inclusive) to 1 (exclusive). */
  function next(): number {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  /** A whole number from `from` to `to`, both inclusive. */
  const int = (from: number, to: number) => from + Math.floor(next() * (to - from + 1))
  const hex = (digits: number) => Array.from({ length: digits }, () => int(0, 15).toString(16)).join('')

  return {
    next,
    int,
    hex,
    chance: (probability: number) => next() < probability,
    pick<T>(items: readonly T[]): T {
      const item = items[int(0, items.length - 1)]
      if (items.length === 0) throw new Error('no items to pick from')
      return item as T
    },
    /** Picks a name with a probability in proportion to its weight. */
    weighted<Name extends string>(weights: Readonly<Partial<Record<Name, number>>>): Name {
      const entries = Object.entries(weights) as [Name, number][]
      let at = next() * entries.reduce((sum, [, weight]) => sum + weight, 0)
      for (const [name, weight] of entries) {
        at -= weight
        if (at < 0) return name
      }
      return (entries.at(-1) as [Name, number])[0]
    },
    shuffled<T>(items: readonly T[]): T[] {
      const remaining = [...items]
      const mixed: T[] = []
      while (remaining.length > 0) mixed.push(...remaining.splice(int(0, remaining.length - 1), 1))
      return mixed
    },
  }
}

/** A version 7 UUID for a time, as in app/core/ids.ts, with random bits from the seed. */
export function seededId(random: Random, at: Date): string {
  const time = at.getTime().toString(16).padStart(12, '0')
  const variant = (8 + random.int(0, 3)).toString(16)
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.hex(3)}-${variant}${random.hex(3)}-${random.hex(12)}`
}
