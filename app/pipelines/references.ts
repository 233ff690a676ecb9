import { setImmediate as nextTurn } from 'node:timers/promises'
import { type TableName, tableKey } from '../../ground/names.ts'
import { NameError, parseTableName, parseZoneName } from '../../lake/pipeline/names.ts'
import { type Call, pythonReferences, sqlReferences } from '../../lake/pipeline/references.ts'
import type { PipelineRef } from '../core/pipeline-ref.ts'
import { type DraftFile, sourceFileOf } from './draft-files.ts'
import type { Named } from './store/references.ts'

export { existing, type Named, tablesCalled } from './store/references.ts'

/** Landing zones that the source names in literal calls. Their files are frozen when a run starts. */
export function landingZonesOf(files: readonly DraftFile[], type: string, ref: PipelineRef): string[] {
  const source = files.find(({ name }) => name === sourceFileOf(type))
  return source === undefined ? [] : namedBy([source], ref).zones
}

/** The files of a landing zone that a literal call selects. */
export interface Selection {
  /** `ns.zone` */
  zone: string
  /** Undefined: all files of the zone. */
  pattern?: string
  /** The code changes the path, so it may select some of these files only. */
  isFiltered: boolean
}

/** The files that literal calls of `landing_zone()` outside SQL comments select. */
export const selectionsOf = (files: readonly DraftFile[], ref: PipelineRef): Selection[] =>
  files
    .flatMap(callsOf)
    .filter((call) => call.function === 'landing_zone' && !call.isCommented)
    .flatMap((call) =>
      namesOf([call], ref).zones.map((zone) => ({
        zone,
        pattern: call.pattern,
        isFiltered: call.isFiltered === true,
      })),
    )

/** The names in literal calls. Reads each file in a turn of its own, so that a large draft holds up no other request. */
export async function namedInTurns(files: readonly DraftFile[], ref: PipelineRef): Promise<Named> {
  const calls: Call[] = []
  for (const file of files) {
    await nextTurn()
    for (const call of callsOf(file)) calls.push(call)
  }
  return namesOf(calls, ref)
}

const namedBy = (files: readonly DraftFile[], ref: PipelineRef): Named => namesOf(files.flatMap(callsOf), ref)

/** Names in literal calls outside SQL comments. A name in a comment must exist for a run, but the run does not read it. */
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
      // Validation and the run report impossible names themselves.
      if (!(error instanceof NameError)) throw error
    }
  }
  return { tables: [...tables], zones: [...zones] }
}

const callsOf = ({ name, text }: DraftFile): Call[] => {
  if (name.endsWith('.py')) return pythonReferences(text)
  return name.endsWith('.sql') ? sqlReferences(text).calls : []
}

/** Maximum number of words looked up for one draft. `WORD` stops at 128 letters, the maximum length of a table name. */
export const WORDS_MAX = 5_000
const WORD = /[a-z0-9_-]{1,128}/gi

/** Lower-case words of the code that may be table names. The parser of the code decides which of them are references. */
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

/** Splits a table key. Names contain no dots, and the layer was checked by parsing. */
export function tableNamed(key: string): TableName {
  const [namespace, layer, name] = key.split('.') as [string, TableName['layer'], string]
  return { namespace, layer, name }
}
