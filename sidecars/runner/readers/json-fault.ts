import { shown } from '../../../lake/pipeline/names.ts'
import { landingName } from './csv-fault.ts'

// The engine ends each error about a value of JSON with the same list of arguments, most of which do not help.

const TRANSFORM = /^Invalid Input Error: JSON transform error in file "([^"\n]+)", in ([a-z/]+ \d+): /
const UNKNOWN = / has unknown key "((?:[^"\\\n]|\\.)*)"$/
const TWICE = / has duplicate key "((?:[^"\\\n]|\\.)*)"$/
/** The engine shows the whole object. */
const REASON_CHARACTERS = 200

/** The engine's error about a value of JSON, with the next step; null for any other error. */
export function jsonFault(message: string): string | null {
  const [head, file, place] = TRANSFORM.exec(message) ?? []
  if (head === undefined || file === undefined) return null
  const reason = message.slice(head.length).split('\n', 1)[0] ?? ''
  const at = `${landingName(file)} ${place}`
  const unknown = UNKNOWN.exec(reason)?.[1]
  if (unknown !== undefined)
    return `${at}: the key ${shown(unknown)} comes after the rows that the reader looks at: look at all rows (sample_size=-1), or name the key in columns`
  const twice = TWICE.exec(reason)?.[1]
  if (twice !== undefined)
    return `${at}: an object has the key ${shown(twice)} twice: correct the file, or skip such rows (ignore_errors=true)`
  return `${at}: ${reason.slice(0, REASON_CHARACTERS)}: correct the file, or read the key as text (columns={...: 'VARCHAR'})`
}
