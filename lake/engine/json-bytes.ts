/**
 * JSON text as UTF-8, a byte after the other: put together from small pieces and encoded when it is whole, a text takes longer
 * than its values.
 */
export class JsonBytes {
  #bytes: Uint8Array<ArrayBuffer>
  #at = 0

  constructor() {
    this.#bytes = spare ?? new Uint8Array(SPARE_BYTES)
    spare = undefined
  }

  /** What has been written. Nothing can be written after it. */
  end(): Uint8Array<ArrayBuffer> {
    const written = this.#bytes.slice(0, this.#at)
    if (this.#bytes.length === SPARE_BYTES) spare = this.#bytes
    this.#bytes = NOTHING
    this.#at = 0
    return written
  }

  byte(code: number): void {
    this.#room(1)
    this.#bytes[this.#at++] = code
  }

  copy(from: Uint8Array, start: number, end: number): void {
    const length = end - start
    this.#room(length)
    const bytes = this.#bytes
    let at = this.#at
    if (length > LOOP_BYTES_MAX) bytes.set(from.subarray(start, end), at)
    else for (let index = start; index < end; index += 1) bytes[at++] = from[index] ?? 0
    this.#at += length
  }

  /** Characters up to U+007F. */
  ascii(text: string): void {
    const { length } = text
    this.#room(length)
    const bytes = this.#bytes
    let at = this.#at
    for (let index = 0; index < length; index += 1) bytes[at++] = text.charCodeAt(index)
    this.#at = at
  }

  /** UTF-8 as it stands between the quotes of a JSON text, as JSON.stringify has it. */
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

  /** Whatever it is, as JSON.stringify has it; null where that has nothing. */
  json(value: unknown): void {
    const text = JSON.stringify(value) ?? 'null'
    // How long it is in UTF-8 shows when it is encoded: room for the longest it could be is thrice what most of them take.
    for (let at = 0; at < text.length; ) {
      const end = at + PIECE_LENGTH
      const piece = text.substring(at, isFirstOfPair(text.charCodeAt(end - 1)) ? end - 1 : end)
      this.#room(3 * piece.length)
      this.#at += encoder.encodeInto(piece, this.#bytes.subarray(this.#at)).written
      at += piece.length
    }
  }

  /** NaN and infinities are null. */
  number(value: number): void {
    if ((value | 0) === value) this.#integer(value)
    else this.ascii(Number.isFinite(value) ? `${value}` : 'null')
  }

  /** A whole number of units of 10^-digits: digits are at most 6, so that no number is small enough for an exponent. */
  fraction(units: number, digits: number): void {
    const scale = POWERS_OF_TEN[digits] ?? 1
    if ((units | 0) !== units) {
      this.number(units / scale)
      return
    }
    if (units < 0) this.byte(MINUS)
    const size = Math.abs(units)
    const whole = Math.floor(size / scale)
    this.#integer(whole)
    let rest = size - whole * scale
    if (rest === 0) return
    let width = digits
    for (; rest % 10 === 0; rest /= 10) width -= 1
    this.byte(POINT)
    this.digits(rest, width)
  }

  /** A whole number below 2^31, with zeros before it. */
  digits(value: number, width: number): void {
    this.#room(width)
    let rest = value
    for (let at = this.#at + width - 1; at >= this.#at; at -= 1) {
      const tenth = (rest / 10) | 0
      this.#bytes[at] = ZERO + rest - tenth * 10
      rest = tenth
    }
    this.#at += width
  }

  /** Of 32 bits. */
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

  #room(bytes: number): void {
    if (this.#at + bytes <= this.#bytes.length) return
    const larger = new Uint8Array(Math.max(2 * this.#bytes.length, this.#at + bytes))
    larger.set(this.#bytes.subarray(0, this.#at))
    this.#bytes = larger
  }
}

const encoder = new TextEncoder()

const NOTHING = new Uint8Array()
/** Memory that has been used before is at hand; new memory costs as much as what is written into it. */
const SPARE_BYTES = 262_144
let spare: Uint8Array<ArrayBuffer> | undefined

const [ZERO, MINUS, POINT] = [48, 45, 46]
const POWERS_OF_TEN = Array.from({ length: 10 }, (_, power) => 10 ** power)
/** Fewer are copied sooner by hand. */
const LOOP_BYTES_MAX = 32
/** Of a text, encoded at a time. */
const PIECE_LENGTH = 16_384

const isFirstOfPair = (code: number) => (code & 0xfc00) === 0xd800

/** By byte, up to U+007F. */
const ESCAPES = Array.from({ length: 128 }, (_, code) =>
  JSON.stringify(String.fromCharCode(code)).slice(1, -1),
)
const IS_ESCAPED = Uint8Array.from({ length: 256 }, (_, code) => ((ESCAPES[code] ?? '').length > 1 ? 1 : 0))
