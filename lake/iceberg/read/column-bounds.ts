// The bounds of one column in many data files, as arrays.

import { Buffer } from 'node:buffer'
import type { BoundValue } from '../format/bounds.ts'
import { decimalOf, type NestedField } from '../format/types.ts'
import type { Comparison } from './scan-filter.ts'

/** Strings and binaries are compared by their first bytes. Most writers cut bounds to 16 characters. */
const KEY_BYTES = 64
/** Bounds of UUIDs are compared by the first half, because some writers order the second half as a signed number. */
const UUID_KEY_BYTES = 8

/** The possible values of a column in a file. */
export interface Range {
  lower?: BoundValue | undefined
  upper?: BoundValue | undefined
  hasNull: boolean
  hasValues: boolean
}

/** The bounds of one column in every file. */
export interface ColumnBounds {
  readonly bytes: number
  set(file: number, range: Range): void
  hasNull(file: number): boolean
  hasValues(file: number): boolean
  /** Tests whether a file may hold a value that compares so. Undefined: the value does not fit the column. */
  test(comparison: Comparison, value: BoundValue): Test | undefined
  /** Tests whether a file may hold one of the values. */
  testAny(values: readonly BoundValue[]): Test | undefined
}

export type Test = (file: number) => boolean

/** Decimals of this precision fit into 64 bits. */
const LONG_PRECISION = 18

export function columnBounds({ type }: NestedField, files: number): ColumnBounds | undefined {
  switch (type) {
    case 'boolean':
    case 'int':
    case 'date':
    case 'float':
    case 'double':
      return new OrderedBounds(files, NUMBERS)
    case 'string':
    case 'binary':
      return new OrderedBounds(files, bytesCutTo(KEY_BYTES))
    case 'uuid':
      return new OrderedBounds(files, bytesCutTo(UUID_KEY_BYTES))
    case 'long':
    case 'time':
    case 'timestamp':
    case 'timestamptz':
      return new OrderedBounds(files, INTEGERS)
    default: {
      const { precision } = (typeof type === 'string' && decimalOf(type)) || { precision: Number.NaN }
      return precision <= LONG_PRECISION ? new OrderedBounds(files, INTEGERS) : undefined
    }
  }
}

/** The keys by which a column's values are compared. */
interface Keys<T> {
  /** False: different values can have one key. */
  readonly isExact: boolean
  /** The key of a value; undefined when the value has another type. */
  keyOf(value: BoundValue): T | undefined
  compare(a: T, b: T): number
  store(files: number): KeyStore<T>
}

/** One key per file. */
interface KeyStore<T> {
  readonly bytes: number
  /** Files come in order. */
  set(file: number, key: T): void
  compare(file: number, key: T): number
}

const order = <T extends number | bigint>(a: T, b: T): number => (a < b ? -1 : a > b ? 1 : 0)

const arrayStore = <T extends number | bigint>(array: {
  readonly byteLength: number
  [file: number]: T
}): KeyStore<T> => ({
  bytes: array.byteLength,
  set: (file, key) => {
    array[file] = key
  },
  compare: (file, key) => order(array[file] ?? key, key),
})

const NUMBERS: Keys<number> = {
  isExact: true,
  keyOf(value) {
    if (typeof value !== 'number' && typeof value !== 'boolean') return undefined
    return Number.isNaN(value) ? undefined : Number(value)
  },
  compare: order,
  store: (files) => arrayStore(new Float64Array(files)),
}

const INTEGERS: Keys<bigint> = {
  isExact: true,
  keyOf: (value) => (typeof value === 'bigint' && BigInt.asIntN(64, value) === value ? value : undefined),
  compare: order,
  store: (files) => arrayStore(new BigInt64Array(files)),
}

/** The order of bytes is the engine's order of texts and binaries. */
const bytesCutTo = (length: number): Keys<Uint8Array> => ({
  isExact: false,
  keyOf(value) {
    const bytes = typeof value === 'string' ? new TextEncoder().encode(value) : value
    return bytes instanceof Uint8Array ? bytes.subarray(0, length) : undefined
  },
  compare: (a, b) => Buffer.compare(a, b),
  store: (files) => new PackedBytes(files),
})

/** Many short byte sequences in one buffer. */
class PackedBytes implements KeyStore<Uint8Array> {
  readonly #starts: Uint32Array
  readonly #ends: Uint32Array
  #data = new Uint8Array(1_024)
  #used = 0

  constructor(files: number) {
    this.#starts = new Uint32Array(files)
    this.#ends = new Uint32Array(files)
  }

  get bytes(): number {
    return this.#data.byteLength + this.#starts.byteLength + this.#ends.byteLength
  }

  set(file: number, key: Uint8Array): void {
    const end = this.#used + key.length
    if (end > this.#data.length) {
      const larger = new Uint8Array(2 * end)
      larger.set(this.#data)
      this.#data = larger
    }
    this.#data.set(key, this.#used)
    this.#starts[file] = this.#used
    this.#ends[file] = end
    this.#used = end
  }

  compare(file: number, key: Uint8Array): number {
    const start = this.#starts[file] ?? 0
    const length = (this.#ends[file] ?? 0) - start
    for (let i = 0; i < length && i < key.length; i += 1) {
      const difference = (this.#data[start + i] ?? 0) - (key[i] ?? 0)
      if (difference !== 0) return difference
    }
    return length - key.length
  }
}

const HAS_NULL = 1
const HAS_VALUES = 2
const HAS_LOWER = 4
const HAS_UPPER = 8

class OrderedBounds<T> implements ColumnBounds {
  readonly #keys: Keys<T>
  readonly #flags: Uint8Array
  readonly #lower: KeyStore<T>
  readonly #upper: KeyStore<T>

  constructor(files: number, keys: Keys<T>) {
    this.#keys = keys
    this.#flags = new Uint8Array(files)
    this.#lower = keys.store(files)
    this.#upper = keys.store(files)
  }

  get bytes(): number {
    return this.#flags.byteLength + this.#lower.bytes + this.#upper.bytes
  }

  set(file: number, range: Range): void {
    const lower = range.lower === undefined ? undefined : this.#keys.keyOf(range.lower)
    const upper = range.upper === undefined ? undefined : this.#keys.keyOf(range.upper)
    let flags = (range.hasNull ? HAS_NULL : 0) | (range.hasValues ? HAS_VALUES : 0)
    // Bounds in the wrong order show that their writer compares in another way.
    if (lower === undefined || upper === undefined || this.#keys.compare(lower, upper) <= 0) {
      if (lower !== undefined) {
        this.#lower.set(file, lower)
        flags |= HAS_LOWER
      }
      if (upper !== undefined) {
        this.#upper.set(file, upper)
        flags |= HAS_UPPER
      }
    }
    this.#flags[file] = flags
  }

  hasNull = (file: number): boolean => this.#has(file, HAS_NULL)
  hasValues = (file: number): boolean => this.#has(file, HAS_VALUES)

  test(comparison: Comparison, value: BoundValue): Test | undefined {
    const key = this.#keys.keyOf(value)
    if (key === undefined) return undefined
    switch (comparison) {
      case '=':
        return (file) => this.#starts(file, key) <= 0 && this.#ends(file, key) >= 0
      case '<':
        return this.#keys.isExact
          ? (file) => this.#starts(file, key) < 0
          : (file) => this.#starts(file, key) <= 0
      case '<=':
        return (file) => this.#starts(file, key) <= 0
      case '>':
        return this.#keys.isExact ? (file) => this.#ends(file, key) > 0 : (file) => this.#ends(file, key) >= 0
      case '>=':
        return (file) => this.#ends(file, key) >= 0
    }
  }

  testAny(values: readonly BoundValue[]): Test | undefined {
    const keys: T[] = []
    for (const value of values) {
      const key = this.#keys.keyOf(value)
      if (key === undefined) return undefined
      keys.push(key)
    }
    keys.sort(this.#keys.compare)
    return (file) => {
      const first = keys[firstWhere(keys, (key) => this.#starts(file, key) <= 0)]
      return first !== undefined && this.#ends(file, first) >= 0
    }
  }

  #has = (file: number, flag: number): boolean => ((this.#flags[file] ?? 0) & flag) !== 0
  /** Compares the lower bound with a key. An unknown bound is below every key. */
  #starts = (file: number, key: T): number =>
    this.#has(file, HAS_LOWER) ? this.#lower.compare(file, key) : -1
  /** Compares the upper bound with a key. An unknown bound is above every key. */
  #ends = (file: number, key: T): number => (this.#has(file, HAS_UPPER) ? this.#upper.compare(file, key) : 1)
}

/** The index of the first item for which the test holds. The test also holds for all later items. */
function firstWhere<T>(items: readonly T[], holds: (item: T) => boolean): number {
  let [from, to] = [0, items.length]
  while (from < to) {
    const middle = (from + to) >>> 1
    const item = items[middle]
    if (item !== undefined && holds(item)) to = middle
    else from = middle + 1
  }
  return from
}
