import {
  NameError,
  parseTableName,
  parseZoneName,
  type TableName,
  tableKey,
} from '../../lake/pipeline/names.ts'
import { type Call, pythonReferences, sqlReferences } from '../../lake/pipeline/references.ts'
import type { PipelineRef } from '../core/pipeline-ref.ts'
import { type DraftFile, sourceFileOf } from './draft-files.ts'
import type { Named } from './store/references.ts'

export { existing, type Named, tablesCalled } from './store/references.ts'

/** The zones that the source which runs reads, by literal calls: they are frozen when a run starts. */
export function landingZonesOf(files: readonly DraftFile[], type: string, ref: PipelineRef): string[] {
  const source = files.find(({ name }) => name === sourceFileOf(type))
  return source === undefined ? [] : namedBy([source], ref).zones
}

export const namedBy = (files: readonly DraftFile[], ref: PipelineRef): Named =>
  namesOf(files.flatMap(callsOf), ref)

/** What files name by literal calls and not only in SQL comments, where a run needs it and reads nothing of it. */
export const readBy = (files: readonly DraftFile[], ref: PipelineRef): Named =>
  namesOf(
    files.flatMap(callsOf).filter(({ isCommented }) => !isCommented),
    ref,
  )

function namesOf(calls: readonly Call[], { namespace }: PipelineRef): Named {
  const tables = new Set<string>()
  const zones = new Set<string>()
  for (const call of calls) {
    try {
      if (call.function === 'ref') tables.add(tableKey(parseTableName(call.argument, namespace)))
      else zones.add(`${namespace}.${parseZoneName(call.argument)}`)
    } catch (error) {
      // A name that cannot exist is what validation, and the run, will say in their own words.
      if (!(error instanceof NameError)) throw error
    }
  }
  return { tables: [...tables], zones: [...zones] }
}

const callsOf = ({ name, text }: DraftFile): Call[] => {
  if (name.endsWith('.py')) return pythonReferences(text)
  return name.endsWith('.sql') ? sqlReferences(text).calls : []
}

/** Words looked up in one draft, and letters of one: names of tables are no longer. */
export const WORDS_MAX = 5_000
const WORD = /[a-z0-9_-]{1,128}/gi

/** Words of the code that may be names of tables, in lower case. Which of them name one is for the parser of the code. */
export const wordsIn = (files: readonly DraftFile[]): string[] => {
  const words = new Set<string>()
  for (const { name, text } of files) {
    if (name === 'config.yaml') continue
    for (const [word] of text.matchAll(WORD)) {
      words.add(word.toLowerCase())
      if (words.size === WORDS_MAX) return [...words]
    }
  }
  return [...words]
}

/** The table of a key: names hold no dots, and parsing has checked the layer. */
export function tableNamed(key: string): TableName {
  const [namespace, layer, name] = key.split('.') as [string, TableName['layer'], string]
  return { namespace, layer, name }
}
