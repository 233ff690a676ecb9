import { shown } from '../../../lake/pipeline/names.ts'
import { placeOf, type Reader, type Texts } from './reader.ts'
import { decimalsOf, isChanged, isChangedBy, isPadded, PLAIN } from './text-types.ts'

// The engine rounds and cuts values to the type that the author gave to a column. The type stays, and a warning names a value.

const WHOLE = /^U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?$/
/** A part of a second that microseconds do not keep. */
const NANOSECONDS = String.raw`\.\d{6}\d*[1-9]`
const DECIMAL = /^DECIMAL\(\d+,(\d+)\)$/

/** SQL that is true for a text that the type changes. Null: the type keeps every text, or the reader fails. */
export function lossSql(value: string, type: string): string | null {
  const cast = `TRY_CAST(${value} AS ${type})`
  const decimals = DECIMAL.exec(type)?.[1] ?? (WHOLE.test(type) ? '0' : undefined)
  if (decimals !== undefined)
    return `(${isPadded(value)} OR lower(${value}) IN ('true', 'false') OR ${cast} IS NOT NULL) AND NOT coalesce(CASE WHEN ${isPadded(value)} THEN false WHEN regexp_full_match(${value}, '${PLAIN}') THEN ${decimalsOf(value)} <= ${decimals} ELSE CAST(${cast} AS DOUBLE) = TRY_CAST(${value} AS DOUBLE) END, false)`
  switch (type) {
    case 'DOUBLE':
      return `(${isPadded(value)} OR ${isChanged(value)})`
    case 'FLOAT':
      return `(${isPadded(value)} OR ${isChangedBy('FLOAT', value)})`
    // A number of JSON becomes true or false.
    case 'BOOLEAN':
      return `TRY_CAST(${value} AS DOUBLE) NOT IN (0, 1)`
    case 'DATE':
    case 'TIMESTAMP_S':
    case 'TIMESTAMP_MS':
      return `TRY_CAST(${value} AS TIMESTAMP) <> CAST(${cast} AS TIMESTAMP)`
    case 'TIMESTAMP':
      return `${cast} IS NOT NULL AND regexp_matches(${value}, ':\\d+(\\.\\d+)?( ?[-+]\\d{2}(:?\\d{2})?|Z)$|${NANOSECONDS}')`
    case 'TIME':
    case 'TIMESTAMP WITH TIME ZONE':
      return `${cast} IS NOT NULL AND regexp_matches(${value}, '${NANOSECONDS}')`
    default:
      return null
  }
}

/** Warns of the first value that the type changes. */
export async function warnOfLoss(reader: Reader, { from, column }: Texts, type: string): Promise<void> {
  const loss = lossSql('v', type)
  if (loss === null) return
  const [found] = await reader.rows(`SELECT v, file FROM ${from} WHERE ${loss} LIMIT 1`)
  if (found === undefined) return
  const [value, file = null] = found
  reader.warn(
    `${placeOf(file, column)}: ${shown(value ?? '')} is rounded or cut by the type ${type} that the reader was given: give a type that keeps it, or VARCHAR`,
  )
}
