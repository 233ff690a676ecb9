/** A result needs more JSON than the API's QUERY_ANSWER_LIMIT allows. */
export class JsonTooLarge extends Error {
  override readonly name = 'JsonTooLarge'
  constructor(bytesMax: number) {
    super(
      `the answer is larger than ${Number((bytesMax / MIB).toFixed(2))} MB of JSON (QUERY_ANSWER_LIMIT): ` +
        'select fewer columns or rows, add a LIMIT, or write the result to a table and read it in pages',
    )
  }
}
const MIB = 1_048_576

/**
 * Writes JSON text as UTF-8, byte by byte, because joining and encoding thousands of small strings is slower. Writes throw
 * `JsonTooLarge` when the text, including chunks already taken, exceeds `bytesMax`.
 */
export class JsonBytes {
  #bytes: Uint8Array<ArrayBuffer>
  #at = 0
  #taken = 0
  readonly #bytesMax: number

  constructor(bytesMax = Number.POSITIVE_INFINITY, initialBytes = INITIAL_BYTES) {
    this.#bytes = new Uint8Array(initialBytes)
    this.#bytesMax = bytesMax
  }

  /** Bytes written since the last `take`. */
  get length(): number {
    return this.#at
  }

  /** Returns a copy of the text since the last `take`. */
  drain(): Uint8Array<ArrayBuffer> {
    const written = this.#bytes.slice(0, this.#at)
    this.#taken += this.#at
    this.#at = 0
    if (this.#taken > this.#bytesMax) throw new JsonTooLarge(this.#bytesMax)
    return written
  }

  byte(code: number): void {
    this.#ensureSpace(1)
    this.#bytes[this.#at++] = code
  }

  copy(from: Uint8Array, start: number, end: number): void {
    const length = end - start
    this.#ensureSpace(length)
    const bytes = this.#bytes
    let at = this.#at
    if (length > LOOP_BYTES_MAX) bytes.set(from.subarray(start, end), at)
    else for (let index = start; index < end; index += 1) bytes[at++] = from[index] ?? 0
    this.#at += length
  }

  /** Writes characters up to U+007F. */
  ascii(text: string): void {
    const { length } = text
    this.#ensureSpace(length)
    const bytes = this.#bytes
    let at = this.#at
    for (let index = 0; index < length; index += 1) bytes[at++] = text.charCodeAt(index)
    this.#at = at
  }

  /** Escapes UTF-8 like JSON.stringify does between the quotes of a string. */
  escaped(from: Uint8Array, start: number, end: number): void {
    let copied = start
    for (let at = start; at < end; at += 1) {
      const code = from[at] ?? 0
      if (IS_ESCAPED[code] !== 1) continue
      this.copy(from, copied, at)
      this.ascii(ESCAPES[code] ?? '')
      copied = at + 1
    }
    this.copy(from, copied, end)
  }

  /** Writes NaN and infinities as null. */
  number(value: number): void {
    if ((value | 0) === value) this.#integer(value)
    else this.ascii(Number.isFinite(value) ? `${value}` : 'null')
  }

  /** Writes `units` times 10^-digits. With at most 6 digits, JavaScript prints no exponent. */
  fraction(units: number, digits: number): void {
    const scale = POWERS_OF_TEN[digits] ?? 1
    if ((units | 0) !== units) {
      this.number(units / scale)
      return
    }
    if (units < 0) this.byte(MINUS)
    const size = Math.abs(units)
    const integerPart = Math.floor(size / scale)
    this.#integer(integerPart)
    let fractionPart = size - integerPart * scale
    if (fractionPart === 0) return
    let width = digits
    for (; fractionPart % 10 === 0; fractionPart /= 10) width -= 1
    this.byte(POINT)
    this.digits(fractionPart, width)
  }

  /** Writes a whole number below 2^31 with leading zeros. */
  digits(value: number, width: number): void {
    this.#ensureSpace(width)
    let remaining = value
    for (let at = this.#at + width - 1; at >= this.#at; at -= 1) {
      const tenth = (remaining / 10) | 0
      this.#bytes[at] = ZERO + remaining - tenth * 10
      remaining = tenth
    }
    this.#at += width
  }

  /** Writes a 32-bit integer. */
  #integer(value: number): void {
    if (value < 0) this.byte(MINUS)
    const size = Math.abs(value)
    if (size >= 1_000_000_000) {
      this.ascii(`${size}`)
      return
    }
    let width = 1
    while (size >= (POWERS_OF_TEN[width] ?? 0)) width += 1
    this.digits(size, width)
  }

  #ensureSpace(bytes: number): void {
    const needed = this.#at + bytes
    if (needed <= this.#bytes.length) return
    if (this.#taken + needed > this.#bytesMax) throw new JsonTooLarge(this.#bytesMax)
    const larger = new Uint8Array(Math.max(2 * this.#bytes.length, needed))
    larger.set(this.#bytes.subarray(0, this.#at))
    this.#bytes = larger
  }
}

/** Most answers are smaller. */
const INITIAL_BYTES = 16_384

const [ZERO, MINUS, POINT] = [48, 45, 46]
const POWERS_OF_TEN = Array.from({ length: 10 }, (_, power) => 10 ** power)
/** Up to this length, a loop copies faster than `set`. */
const LOOP_BYTES_MAX = 32

/** The escaped form of each byte up to U+007F. */
const ESCAPES = Array.from({ length: 128 }, (_, code) =>
  JSON.stringify(String.fromCharCode(code)).slice(1, -1),
)
const IS_ESCAPED = Uint8Array.from({ length: 256 }, (_, code) => ((ESCAPES[code] ?? '').length > 1 ? 1 : 0))
