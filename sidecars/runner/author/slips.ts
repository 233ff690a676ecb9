import { LAYERS, tableKey } from '../../../ground/names.ts'
import type { WrittenTable } from '../../../lake/engine/query-text.ts'
import { NameError, parseTableName } from '../../../lake/pipeline/names.ts'
import type { EngineLease } from '../engine/engine-lease.ts'
import { type AnswerOf, EngineFault } from '../engine/engine-messages.ts'
import { schemaOf } from '../engine/sql-names.ts'
import type { LakeSession } from '../session/lake-session.ts'
import type { ReadText, RefusedText } from '../session/read-text.ts'

// Finds names of tables and zones without ref() or landing_zone(), in the engine's parse tree of a text. Tells authors what to
// write instead.

interface Slip {
  /** Offset in the text. */
  at: number
  message: string
}

/** Returns the tables of the pipeline's namespace with this name, as `layer.name`. */
export type FindTables = (name: string) => Promise<readonly string[]>

/** Slips reported per text. Each slip costs a search of the catalog in a run, and a line in the answer to a publish. */
export const SLIPS_MAX = 100

/** The first SLIPS_MAX tables of a text that no reference has inserted, each with advice. */
export async function slipsIn(
  tables: readonly WrittenTable[],
  text: ReadText,
  find: FindTables,
): Promise<Slip[]> {
  const references = new Set(text.tables.map((table) => keyOf({ schema: schemaOf(table), name: table.name })))
  const slips: Slip[] = []
  for (const table of tables) {
    if (slips.length === SLIPS_MAX) break
    const zone = text.zones.get(table.name)
    if (zone !== undefined) slips.push({ at: table.at, message: readerFor(zone, text.language) })
    else if (!isFile(table) && !(table.catalog === '' && references.has(keyOf(table))))
      slips.push({ at: table.at, message: await bareName(table, text, find) })
  }
  return slips
}

const keyOf = ({ schema, name }: { schema: string; name: string }) =>
  JSON.stringify([schema.toLowerCase(), name.toLowerCase()])

/** The engine parses a quoted path as a table. */
const isFile = ({ catalog, schema, name }: WrittenTable) =>
  catalog === '' && schema === '' && /[/*]|\.(?:csv|tsv|json|jsonl|ndjson|parquet)$/i.test(name)

/** Advice for a path without a reader: `landing_zone()` returns a path, and a reader such as read_csv makes rows of it. */
export const readerFor = (zone: string, language: ReadText['language']): string =>
  language === 'sql'
    ? `landing_zone() returns the path of the zone's files as text: write read_csv('{{ landing_zone("${zone}") }}')`
    : `landing_zone() returns the path of the zone's files as text: write sql("... read_csv('" + landing_zone("${zone}") + "')")`

async function bareName(table: WrittenTable, { language, namespace }: ReadText, find: FindTables) {
  const written = [table.catalog, table.schema, table.name].filter((part) => part !== '').join('.')
  const names = namesOf(written, namespace) ?? (await find(table.name.toLowerCase()))
  const [first = `layer.${table.name.toLowerCase()}`] = names
  const layers = names.length === 0 ? ` with its layer (${LAYERS.join(', ')})` : ''
  const alternatives = names.slice(1).map((name) => ` or ${reference(name, language)}`)
  return `${written} is a bare table name, which a run cannot read: write ${reference(first, language)}${alternatives.join('')}${layers}`
}

const reference = (name: string, language: ReadText['language']) =>
  language === 'sql' ? `{{ ref('${name}') }}` : `sql("... " + ref('${name}'))`

/** The reference for a name with a layer; null: the name has no layer. */
function namesOf(written: string, namespace: string): string[] | null {
  try {
    const table = parseTableName(written.toLowerCase(), namespace)
    return [table.namespace === namespace ? `${table.layer}.${table.name}` : tableKey(table)]
  } catch (error) {
    if (error instanceof NameError) return null
    throw error
  }
}

/** Finds the tables of the namespace that an attempt can see. Finds none while the catalog does not answer. */
export const findIn =
  ({ catalog }: Pick<LakeSession, 'catalog'>, namespace: string): FindTables =>
  async (name) => {
    const found = LAYERS.map(async (layer) => {
      const written = `${layer}.${name}`
      const table = parseTableName(written, namespace)
      return (await catalog.load(table)) === null ? [] : [written]
    })
    return (await Promise.allSettled(found)).flatMap((result) =>
      result.status === 'fulfilled' ? result.value : [],
    )
  }

export interface ParsedIn {
  engine: Pick<EngineLease, 'call'>
  instance: number
  find: FindTables
  signal: AbortSignal
}

/** Returns a fault that says what to write instead, if a slip is the reason for the error. Otherwise returns the error. */
export async function explained(error: unknown, text: RefusedText, parsedIn: ParsedIn): Promise<unknown> {
  if (!(error instanceof EngineFault)) return error
  const isSyntax = error.kind === 'syntax'
  // Only unknown tables are explained: the engine would suggest its own internal tables.
  if (!isSyntax && !UNKNOWN_TABLE.test(error.message)) return error
  try {
    const { engine, instance, find, signal } = parsedIn
    const parse = (sql: string) => engine.call({ kind: 'parse', number: instance, sql }, signal)
    const { fault, tables } = await parse(text.sql)
    if (fault !== null) {
      if (await hasBarePath(text, parse)) return barePath(error, text)
      return isSyntax ? error : refused(fault.message, lineAt(text.sql, fault.at))
    }
    const slips = await slipsIn(tables, text, find)
    const slip = slips.find(({ message }) => isSyntax || isAbout(error.message, message)) ?? slips[0]
    if (slip === undefined) return error
    return refused(slip.message, lineAt(text.sql, slip.at))
  } catch (cause) {
    // The text could not be parsed again, so the engine's own message remains.
    if (cause instanceof EngineFault) return error
    throw cause
  }
}

/** The engine's messages about an unknown table, schema or catalog begin like this. */
const UNKNOWN_TABLE = /^(?:Catalog Error: (?:Table|Schema) with name |Binder Error: Catalog ")/

/** The message of a slip begins with the name of the table. */
const isAbout = (fault: string, message: string) => fault.includes(message.split(' ', 1)[0] ?? message)

/** Whether a text that does not parse would parse with the paths of its zones in quotes. */
export const hasBarePath = async (
  { quotedSql }: Pick<RefusedText, 'quotedSql'>,
  parse: (sql: string) => Promise<AnswerOf<'parse'>>,
): Promise<boolean> => quotedSql !== null && (await parse(quotedSql)).fault === null

const barePath = (error: EngineFault, { zones, language }: RefusedText) =>
  refused(readerFor([...zones.values()][0] ?? 'zone', language), error.line)

const refused = (message: string, line: number | undefined) =>
  new EngineFault({ kind: 'refused', message, line })

const lineAt = (sql: string, at: number | undefined) =>
  at === undefined ? undefined : sql.slice(0, at).split('\n').length
