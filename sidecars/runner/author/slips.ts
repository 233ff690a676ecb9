import type { WrittenTable } from '../../../lake/engine/query-text.ts'
import { LAYERS, NameError, parseTableName, type TableName, tableKey } from '../../../lake/pipeline/names.ts'
import { type LakeSession, schemaOf } from '../attempt/lake-session.ts'
import type { EngineLease } from '../engine/engine-leases.ts'
import { type AnswerOf, EngineFault } from '../engine/engine-messages.ts'

// Finds table and zone names without ref() or landing_zone() in the engine's tree of a text, and says how to write them.

/** A text for the engine, and what ref() and landing_zone() have given it. */
export interface ReadText {
  language: 'sql' | 'python'
  /** Of the pipeline. */
  namespace: string
  tables: readonly TableName[]
  /** Zone by the path that landing_zone() gives. */
  zones: ReadonlyMap<string, string>
}

export interface Slip {
  /** Offset in the text. */
  at: number
  message: string
}

/** Answers the tables of the pipeline's namespace that have this name, as `layer.name`. */
export type FindTables = (name: string) => Promise<readonly string[]>

/** Slips reported of one text. Each takes a search of the catalog in a run, and a line in the answer to a publish. */
export const SLIPS_MAX = 100

/** The first SLIPS_MAX tables of a text that no reference has given it, with what to write instead. */
export async function slipsIn(
  tables: readonly WrittenTable[],
  text: ReadText,
  find: FindTables,
): Promise<Slip[]> {
  const given = new Set(text.tables.map((table) => keyOf({ schema: schemaOf(table), name: table.name })))
  const slips: Slip[] = []
  for (const table of tables) {
    if (slips.length === SLIPS_MAX) break
    const zone = text.zones.get(table.name)
    if (zone !== undefined) slips.push({ at: table.at, message: readerFor(zone, text.language) })
    else if (!isFile(table) && !(table.catalog === '' && given.has(keyOf(table))))
      slips.push({ at: table.at, message: await bareName(table, text, find) })
  }
  return slips
}

const keyOf = ({ schema, name }: { schema: string; name: string }) =>
  JSON.stringify([schema.toLowerCase(), name.toLowerCase()])

/** The engine reads a quoted path as a table. */
const isFile = ({ catalog, schema, name }: WrittenTable) =>
  catalog === '' && schema === '' && /[/*]|\.(?:csv|tsv|json|jsonl|ndjson|parquet)$/i.test(name)

/** `landing_zone()` gives a path, and only a reader makes rows of it. */
export const readerFor = (zone: string, language: ReadText['language']): string =>
  language === 'sql'
    ? `landing_zone() gives the path of the zone's files, as a text: write read_csv('{{ landing_zone("${zone}") }}')`
    : `landing_zone() gives the path of the zone's files, as a text: write sql("... read_csv('" + landing_zone("${zone}") + "')")`

async function bareName(table: WrittenTable, { language, namespace }: ReadText, find: FindTables) {
  const written = [table.catalog, table.schema, table.name].filter((part) => part !== '').join('.')
  const names = namesOf(written, namespace) ?? (await find(table.name.toLowerCase()))
  const [first = `layer.${table.name.toLowerCase()}`] = names
  const layers = names.length === 0 ? ` with its layer (${LAYERS.join(', ')})` : ''
  const rest = names.slice(1).map((name) => ` or ${reference(name, language)}`)
  return `${written} is a bare table name, which a run cannot read: write ${reference(first, language)}${rest.join('')}${layers}`
}

const reference = (name: string, language: ReadText['language']) =>
  language === 'sql' ? `{{ ref('${name}') }}` : `sql("... " + ref('${name}'))`

/** What `ref()` takes for a name with a layer; null: it has none. */
function namesOf(written: string, namespace: string): string[] | null {
  try {
    const table = parseTableName(written.toLowerCase(), namespace)
    return [table.namespace === namespace ? `${table.layer}.${table.name}` : tableKey(table)]
  } catch (error) {
    if (error instanceof NameError) return null
    throw error
  }
}

/** Tables of the namespace with this name that an attempt can see. Where the catalog does not answer, nobody knows any. */
export const findIn =
  ({ catalog }: Pick<LakeSession, 'catalog'>, namespace: string): FindTables =>
  async (name) => {
    const found = LAYERS.map(async (layer) => {
      const written = `${layer}.${name}`
      const table = parseTableName(written, namespace)
      return (await catalog.load(table)) === null ? [] : [written]
    })
    return (await Promise.allSettled(found)).flatMap((one) => (one.status === 'fulfilled' ? one.value : []))
  }

/** A text that the engine has refused, where it was given to it, and the text with its paths in quotes. */
export interface RefusedText extends ReadText {
  sql: string
  /** Null: it names no landing zone. */
  quotedSql: string | null
}

export interface ParsedIn {
  engine: Pick<EngineLease, 'call'>
  instance: number
  find: FindTables
  signal: AbortSignal
}

/** A fault of the engine that says what to write instead, where a slip is the reason for it; else the error as it is. */
export async function explained(error: unknown, text: RefusedText, place: ParsedIn): Promise<unknown> {
  if (!(error instanceof EngineFault)) return error
  const isSyntax = error.kind === 'syntax'
  // The engine's own suggestions are tables of its own.
  if (!isSyntax && !UNKNOWN_TABLE.test(error.message)) return error
  try {
    const { engine, instance, find, signal } = place
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
    // Then the engine's words are all there is.
    if (cause instanceof EngineFault) return error
    throw cause
  }
}

/** So the engine begins when it finds no table, no schema or no catalog of a name. */
const UNKNOWN_TABLE = /^(?:Catalog Error: (?:Table|Schema) with name |Binder Error: Catalog ")/

/** The slip's message begins with the name of the table. */
const isAbout = (fault: string, message: string) => fault.includes(message.split(' ', 1)[0] ?? message)

/** Whether a text that does not parse would, with the paths of its zones in quotes. */
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
