/** Forgets what was used least recently once the weights together pass the limit. */
export class Lru<Key, Value> {
  readonly #entries = new Map<Key, { value: Value; weight: number }>()
  readonly #weightMax: number
  #weight = 0

  constructor(weightMax: number) {
    this.#weightMax = weightMax
  }

  get(key: Key): Value | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    return entry.value
  }

  /** What is heavier than the limit alone is kept until the next one comes. */
  set(key: Key, value: Value, weight = 1): void {
    this.delete(key)
    this.#entries.set(key, { value, weight })
    this.#weight += weight
    for (const oldest of this.#entries.keys()) {
      if (this.#weight <= this.#weightMax || oldest === key) return
      this.delete(oldest)
    }
  }

  delete(key: Key): void {
    this.#weight -= this.#entries.get(key)?.weight ?? 0
    this.#entries.delete(key)
  }

  /** Without counting as a use. */
  *values(): Iterable<Value> {
    for (const { value } of this.#entries.values()) yield value
  }
}
