// One pass over the bytes of JSON files finds out which of the costly questions about their values are worth asking. The engine
// rounds numbers while it parses them, so only the bytes show their digits.

export interface JsonFindings {
  /** A number with decimals that could be an amount which DOUBLE rounds. */
  hasLongDecimals: boolean
  /**
   * The keys, in lower case, of whole numbers with more digits than a DOUBLE keeps, and of numbers too large for it. Null: too many, or
   * keys with escapes.
   */
  longWholes: Set<string> | null
  /** A number such as `1e-400`, which the engine reads as zero, and the key before it. */
  tooSmall: { key: string; value: string } | null
  /** A text that could be a date in another order than year, month, day. */
  hasOtherDates: boolean
  /** Times with a zone, and times without. */
  hasZones: boolean
  hasLocalTimes: boolean
}

/** A text longer than this is neither a number nor a date that matters. */
const TOKEN_BYTES = 1_024
const KEYS_MAX = 1_000
/** Stands for a key that is too long to compare. */
const LONG_KEY = Buffer.from('\\')
/** A DOUBLE keeps 15 digits for certain. */
const SURE_DIGITS = 15
const AMOUNT_SCALE = 6

const QUOTE = 0x22
const BACKSLASH = 0x5c
const NEWLINE = 0x0a
const MINUS = 0x2d
const PLUS = 0x2b
const POINT = 0x2e
const SLASH = 0x2f
const ZERO = 0x30
const NINE = 0x39
const SPACE = 0x20
const UPPER_E = 0x45
const LOWER_E = 0x65
const UPPER_Z = 0x5a

const BRACKET = 0x5b
const END_BRACKET = 0x5d
const BRACE = 0x7b
const END_BRACE = 0x7d

const isDigit = (byte: number | undefined) => byte !== undefined && byte >= ZERO && byte <= NINE

/** Reads the bytes of one file after the other. Errors of the syntax are the engine's. */
export class JsonScan {
  readonly found: JsonFindings = {
    hasLongDecimals: false,
    longWholes: new Set(),
    tooSmall: null,
    hasOtherDates: false,
    hasZones: false,
    hasLocalTimes: false,
  }
  /** The most levels of objects and arrays so far. */
  depth = 0
  #level = 0
  readonly #isByLine: boolean
  /** The beginning of a number or a text that goes on in the next chunk. */
  #rest: Buffer = Buffer.alloc(0)
  /** Inside a text that is too long to matter. */
  #isInText = false
  #isEscaped = false
  /** The last text: bytes from `#textStart` to `#textEnd`. Null: none. */
  #textIn: Buffer | null = null
  #textStart = 0
  #textEnd = 0

  /** `isByLine`: each line is a value, and broken lines are skipped. */
  constructor(isByLine = false) {
    this.#isByLine = isByLine
  }

  add(chunk: Buffer): void {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    this.#rest = Buffer.alloc(0)
    const end = bytes.length
    let at = this.#isInText ? this.#skipText(bytes, 0) : 0
    while (at < end) {
      const byte = bytes[at] as number
      if (byte === QUOTE) at = this.#text(bytes, at)
      else if (byte === MINUS || (byte >= ZERO && byte <= NINE)) at = this.#number(bytes, at)
      else {
        if (byte === BRACKET || byte === BRACE) this.depth = Math.max(this.depth, ++this.#level)
        else if (byte === END_BRACKET || byte === END_BRACE) this.#level -= 1
        else if (byte === NEWLINE && this.#isByLine) this.#level = 0
        at += 1
      }
    }
  }

  /** The end of a file. */
  end(): void {
    this.#level = 0
    const rest = this.#rest
    this.#rest = Buffer.alloc(0)
    this.#isInText = false
    this.#isEscaped = false
    if (rest.length > 0 && rest[0] !== QUOTE) this.#judgeNumber(rest, 0, rest.length)
  }

  /** Returns the position after the number. */
  #number(bytes: Buffer, start: number): number {
    let at = start + 1
    let hasExponent = false
    for (; at < bytes.length; at += 1) {
      const byte = bytes[at] as number
      const isPart =
        (byte >= ZERO && byte <= NINE) ||
        byte === POINT ||
        byte === LOWER_E ||
        byte === UPPER_E ||
        byte === MINUS ||
        byte === PLUS
      hasExponent ||= byte === LOWER_E || byte === UPPER_E
      if (!isPart) {
        if (hasExponent || at - start > SURE_DIGITS) this.#judgeNumber(bytes, start, at)
        return at
      }
    }
    if (at - start > TOKEN_BYTES) this.#judgeNumber(bytes, start, at)
    else this.#rest = Buffer.from(bytes.subarray(start))
    return at
  }

  #judgeNumber(bytes: Buffer, start: number, end: number): void {
    const { found } = this
    const text = bytes.toString('latin1', start, end)
    const point = text.indexOf('.')
    const isLong = text.length > SURE_DIGITS
    const number = Number(text)
    if (number === 0 && digitsOf(text) !== '') found.tooSmall ??= { key: this.#key(), value: text }
    if (!Number.isFinite(number) || (isLong && point === -1)) this.#noteLongWhole()
    else if (isLong)
      found.hasLongDecimals ||= !isFloat(text, text.length - point - 1) && digitsOf(text).length > SURE_DIGITS
  }

  /** The text before a number is its key, unless the number stands in a list of different kinds. */
  #key = () => this.#textIn?.toString('utf8', this.#textStart, this.#textEnd) ?? ''

  #noteLongWhole(): void {
    const { found } = this
    const key = this.#key().toLowerCase()
    if (key.includes('\\') || key.length > TOKEN_BYTES || (found.longWholes?.size ?? 0) >= KEYS_MAX)
      found.longWholes = null
    found.longWholes?.add(key)
  }

  /** Returns the position after the text. */
  #text(bytes: Buffer, start: number): number {
    let at = start + 1
    while (at < bytes.length) {
      const byte = bytes[at] as number
      // A text does not go on in the next line, so one broken line does not hide the others.
      if (byte === QUOTE || byte === NEWLINE) {
        this.#textIn = bytes
        this.#textStart = start + 1
        this.#textEnd = at
        if (isDigitOrSign(bytes[start + 1])) this.#judgeText(bytes, start + 1, at)
        return at + 1
      }
      at += byte === BACKSLASH ? 2 : 1
    }
    if (bytes.length - start <= TOKEN_BYTES) this.#rest = Buffer.from(bytes.subarray(start))
    else {
      this.#isInText = true
      this.#isEscaped = at > bytes.length
      this.#textIn = LONG_KEY
      this.#textStart = 0
      this.#textEnd = LONG_KEY.length
    }
    return at
  }

  #skipText(bytes: Buffer, start: number): number {
    let at = this.#isEscaped ? start + 1 : start
    this.#isEscaped = false
    while (at < bytes.length) {
      const byte = bytes[at] as number
      if (byte === QUOTE || byte === NEWLINE) {
        this.#isInText = false
        return at + 1
      }
      at += byte === BACKSLASH ? 2 : 1
    }
    this.#isEscaped = at > bytes.length
    return at
  }

  #judgeText(bytes: Buffer, start: number, end: number): void {
    const { found } = this
    const isIso =
      isDigit(bytes[start]) &&
      isDigit(bytes[start + 1]) &&
      isDigit(bytes[start + 2]) &&
      isDigit(bytes[start + 3]) &&
      bytes[start + 4] === MINUS
    if (!isIso) {
      const sign = isDigit(bytes[start + 1]) ? bytes[start + 2] : bytes[start + 1]
      found.hasOtherDates ||=
        !isDigit(bytes[start]) || [MINUS, SLASH, POINT, SPACE, BACKSLASH].includes(sign ?? 0)
      return
    }
    if (end - start <= '2026-01-01'.length) return
    const isZoned =
      bytes[end - 1] === UPPER_Z || [3, 5, 6].some((back) => [PLUS, MINUS].includes(bytes[end - back] ?? 0))
    if (isZoned) found.hasZones = true
    else found.hasLocalTimes = true
  }
}

/** True for most floats of programs: a DOUBLE prints the same digits, and there are too many decimals for an amount. */
const isFloat = (text: string, decimals: number) =>
  decimals > AMOUNT_SCALE &&
  (String(Number(text)) === text || digitsOf(String(Number(text))) === digitsOf(text))

/** Digits without zeros at both ends. */
const digitsOf = (text: string) =>
  text
    .replace(/[eE].*$/, '')
    .replace(/[-.]/g, '')
    .replace(/^0+|0+$/g, '')

/** A date begins with a digit. Blanks and escapes before a digit are rare, so they count too. */
const isDigitOrSign = (byte: number | undefined) => isDigit(byte) || byte === SPACE || byte === BACKSLASH
