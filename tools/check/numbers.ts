/**
 * Numbers in documents are those of their constants. Each line of `numbers.txt` names a constant, its file, and the words of
 * the document around its value: `CONSTANT / unit of file: text with #`. A number in backticks has no commas.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..', '..')
const LINE = /^ {2}([\w.]+)(?: \/ ([\d_.]+))? of (\S+): (.*#.*)$/

/** Every line of `numbers.txt` whose sentence does not stand in its document. */
export async function numberFaults(): Promise<string[]> {
  const list = await readFile(join(ROOT, 'tools/check/numbers.txt'), 'utf8')
  const faults: string[] = []
  let path = ''
  let document = ''
  for (const line of list.split('\n')) {
    if (/^\S/.test(line)) {
      path = line
      document = (await readFile(join(ROOT, path), 'utf8')).replaceAll(/\s+/g, ' ')
    } else if (line !== '') {
      const [, name, unit = '1', file, text] = LINE.exec(line) ?? []
      if (name === undefined || file === undefined || text === undefined)
        throw new Error(`numbers.txt: ${line} is not "CONSTANT / unit of file: text with #"`)
      const value = constantValue(name, await readFile(join(ROOT, file), 'utf8'))
      const isCode = text.slice(0, text.indexOf('#')).split('`').length % 2 === 0
      const sentence = text.replace(
        '#',
        (value / numberOf(unit)).toLocaleString('en', { useGrouping: !isCode }),
      )
      if (!standsIn(document, sentence))
        faults.push(`${path}: does not say "${sentence}", but ${file} has ${name} = ${value}`)
    }
  }
  return faults
}

/** Whether a document contains the sentence, and not only as a part of a longer number. */
const standsIn = (document: string, sentence: string) =>
  new RegExp(`(?<!\\d[.,]?)${sentence.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')}(?![.,]?\\d)`).test(document)

/** The value of a constant, or of a field of a table of limits: a product of numbers and of other constants of the file. */
export function constantValue(name: string, source: string): number {
  if (name in BYTES) return BYTES[name as keyof typeof BYTES]
  const [, text] = new RegExp(`\\b${name}\\b(?: =|:[^=\\n]* =|:)${WRAPPERS} ?([\\w.* ]+)`).exec(source) ?? []
  if (text === undefined) throw new Error(`numbers.txt: there is no constant ${name} in its file`)
  return text
    .split('*')
    .map((factor) => (/^ *\d/.test(factor) ? numberOf(factor) : constantValue(factor.trim(), source)))
    .reduce((product, factor) => product * factor, 1)
}

/** A column with a default, and a limit that users share. */
const WRAPPERS = String.raw`(?: pg\.integer\('\w+'\)\.notNull\(\)\.default\(| \{ limit:)?`
const BYTES = { MIB: 1_048_576, GIB: 1_073_741_824 }
const numberOf = (text: string) => Number(text.replaceAll(/[_n]/g, ''))
