import { quoteLiteral } from '../../../lake/quote.ts'

// Chooses a column's type from all its values as text. The type must give back each value.

/** An ISO date, and an ISO time after it. */
const DATE = String.raw`\d{4}-\d{1,2}-\d{1,2}`
const TIME = String.raw`\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?`
const ZONE = String.raw`( ?[-+]\d{2}(:?\d{2})?|Z)`
const WHOLE = String.raw`[-+]?\d+`
/** A number without an exponent, as a pattern. */
export const PLAIN = String.raw`[-+]?(\d+\.?\d*|\.\d+)`
const FLOAT = String.raw`${PLAIN}([eE][-+]?\d+)?|[-+]?(?i:inf|infinity|nan)`
/** A number that would lose its first characters: `00123`, `+4930123456`. */
const PADDED = String.raw`^[-+]?0\d|^\+\d{7}`

const full = (value: string, pattern: string) => `regexp_full_match(${value}, ${quoteLiteral(pattern)})`
const part = (value: string, pattern: string) => `regexp_extract(${value}, ${quoteLiteral(pattern)}, 1)`
const isOf = (value: string, type: string) => `TRY_CAST(${value} AS ${type}) IS NOT NULL`
/** The text of a value after a cast to a type and back. */
const backFrom = (value: string, type: string) => `CAST(TRY_CAST(${value} AS ${type}) AS VARCHAR)`
// The engine evaluates both sides of AND and OR for every row of an aggregate's filter. With CASE it skips the costly side.
const both = (quick: string, costly: string) => `(CASE WHEN ${quick} THEN ${costly} ELSE false END)`
const either = (quick: string, costly: string) => `(CASE WHEN ${quick} THEN true ELSE ${costly} END)`

/** SQL of a value without spaces around it. Most values have none, and `trim` costs more than reading them. */
export const trimmed = (value: string): string =>
  `CASE WHEN prefix(${value}, ' ') OR suffix(${value}, ' ') THEN trim(${value}) ELSE ${value} END`

/** Digits that a DOUBLE keeps for certain. */
const SURE_DIGITS = 15
/** A number with more digits and at most so many decimals is an amount. Floats of programs have more decimals. */
const AMOUNT_SCALE = 6
const DECIMAL_DIGITS = 38

/** SQL that is true for each value that the detected type keeps. It is quick, and may be false for a value that fits. */
export function isKept(value: string, type: string, exponentSign = '[-+]?'): string {
  switch (type) {
    case 'BOOLEAN':
      return `lower(${value}) IN ('true', 'false')`
    case 'BIGINT':
      return full(value, String.raw`-?(0|[1-9]\d{0,17})`)
    case 'DOUBLE':
      return either(
        `strlen(${value}) <= ${SURE_DIGITS} AND ${full(value, String.raw`-?(0|[1-9]\d*)?(\.\d*)?([eE]${exponentSign}\d{1,2})?`)}`,
        isPlainFloat(value),
      )
    case 'DATE':
      return both(full(value, DATE), isOf(value, 'DATE'))
    case 'TIME':
      return both(full(value, TIME), isOf(value, 'TIME'))
    case 'TIMESTAMP':
      return both(full(value, `${DATE}([ T]${TIME})?`), isOf(value, 'TIMESTAMP'))
    case 'TIMESTAMP WITH TIME ZONE':
      return both(full(value, `${DATE}[ T]${TIME}${ZONE}`), isOf(value, 'TIMESTAMPTZ'))
    // Text that could be a number or a time in all files.
    case 'VARCHAR':
      return `NOT ${full(value, '[-+]?[0-9.][-+0-9.:/ TZeE]*|(?i:true|false)')}`
    default:
      return 'true'
  }
}

/** Digits without zeros at both ends. */
const digitsOf = (value: string) => `trim(replace(${part(value, String.raw`^[-+]?([\d.]*)`)}, '.', ''), '0')`
/** True if a float prints the same digits. */
const survives = (value: string, type = 'DOUBLE'): string =>
  either(
    `${backFrom(value, type)} = ${value}`,
    `${digitsOf(value)} IS NOT DISTINCT FROM ${digitsOf(backFrom(value, type))}`,
  )
const isLong = (value: string): string =>
  both(`strlen(${value}) > ${SURE_DIGITS}`, `length(${digitsOf(value)}) > ${SURE_DIGITS}`)
/** SQL of the number of decimals without zeros at the end. */
export const decimalsOf = (value: string): string => `length(rtrim(split_part(${value}, '.', 2), '0'))`
/** True for a number that a DOUBLE changes: more digits than it keeps, or an exponent beyond its range. */
export const isChanged = (value: string): string =>
  both(`strlen(${value}) > ${SURE_DIGITS} OR ${hasExponent(value)}`, isChangedBy('DOUBLE', value))
/** True for a number that prints other digits after a cast to a type of floats. */
export const isChangedBy = (type: string, value: string): string =>
  both(`${full(value, FLOAT)} AND ${digitsOf(value)} <> ''`, `NOT ${survives(value, type)}`)
/** `inf` and `nan` have no exponent. */
const hasExponent = (value: string) => `regexp_matches(${value}, '\\d[eE]')`
/** True for a float of a program: DOUBLE gives back its digits, and it has too many decimals for an amount. */
export const isFloat = (value: string): string =>
  either(
    isPlainFloat(value),
    both(
      `${decimalsOf(value)} > ${AMOUNT_SCALE} AND ${full(value, String.raw`-?\d+\.\d+([eE][-+]?\d+)?`)}`,
      survives(value),
    ),
  )
/** True for most floats of programs, by a quicker test. DOUBLE prints no zeros at the end. */
const isPlainFloat = (value: string) =>
  both(
    `strlen(${value}) - strpos(${value}, '.') > ${AMOUNT_SCALE}`,
    `${backFrom(value, 'DOUBLE')} = ${value}`,
  )

/** SQL that is true for a text such as `1E5`, which can be a number or a code. Programs write a sign or a point: `1e+05`. */
export const isCode = (value: string): string => full(value, String.raw`\d+[eE]\d+`)

/** SQL that is true for a number that would lose its first characters. */
export const isPadded = (value: string): string => `regexp_matches(${value}, ${quoteLiteral(PADDED)})`

export interface TextFacts {
  values: number
  padded: number
  whole: number
  bigint: number
  plain: number
  float: number
  /** Numbers that a DOUBLE changes. */
  lossy: number
  /** Texts such as `1E5`. */
  codes: number
  amounts: number
  wholeDigits: number
  scale: number
  boolean: number
  time: number
  date: number
  timestamp: number
  timestamptz: number
}

/** SQL of the facts about a text, in the order of their names here. */
export const factsSql = (value: string): Readonly<Record<keyof TextFacts, string>> => {
  const count = (condition: string) => `count(*) FILTER (WHERE ${condition})`
  const isPlain = full(value, PLAIN)
  return {
    values: `count(${value})`,
    padded: count(isPadded(value)),
    whole: count(full(value, WHOLE)),
    bigint: count(both(full(value, WHOLE), isOf(value, 'BIGINT'))),
    plain: count(isPlain),
    float: count(full(value, FLOAT)),
    lossy: count(isChanged(value)),
    codes: count(isCode(value)),
    amounts: count(
      both(
        `strlen(${value}) > ${SURE_DIGITS} AND ${isPlain}`,
        both(`${decimalsOf(value)} <= ${AMOUNT_SCALE}`, isLong(value)),
      ),
    ),
    wholeDigits: `max(length(ltrim(split_part(${value}, '.', 1), '+-0'))) FILTER (WHERE ${isPlain})`,
    scale: `max(${decimalsOf(value)}) FILTER (WHERE ${isPlain})`,
    boolean: count(isKept(value, 'BOOLEAN')),
    time: count(isKept(value, 'TIME')),
    date: count(isKept(value, 'DATE')),
    timestamp: count(isKept(value, 'TIMESTAMP')),
    timestamptz: count(isKept(value, 'TIMESTAMP WITH TIME ZONE')),
  }
}

/** The type that keeps every value; null: only text does. */
export function typeOf(facts: TextFacts): string | null {
  return numberType(facts) ?? otherType(facts)
}

/** The type that keeps every number; null: not all values are numbers, or no number type keeps them. */
export function numberType(facts: TextFacts): string | null {
  const { values, padded, whole, bigint, plain, float, lossy, amounts, wholeDigits, scale } = facts
  if (padded > 0 || float < values) return null
  if (whole === values) {
    if (bigint === values) return 'BIGINT'
    return wholeDigits <= DECIMAL_DIGITS ? 'HUGEINT' : null
  }
  if (plain === values && lossy + amounts > 0 && wholeDigits + scale <= DECIMAL_DIGITS)
    return `DECIMAL(${DECIMAL_DIGITS},${scale})`
  return lossy === 0 ? 'DOUBLE' : null
}

function otherType({ values, boolean, time, date, timestamp, timestamptz }: TextFacts): string | null {
  if (boolean === values) return 'BOOLEAN'
  if (time === values) return 'TIME'
  if (date === values) return 'DATE'
  if (timestamp === values) return 'TIMESTAMP'
  return timestamptz === values ? 'TIMESTAMP WITH TIME ZONE' : null
}
