import type { TableName } from '../../../lake/pipeline/names.ts'
import { openInstance, schemaOf, type TableInput, viewOf } from '../attempt/lake-session.ts'
import type { Workplace } from '../attempt/workplace.ts'
import { limits } from '../limits.ts'
import type { EngineLease, KeptInstance } from './engine-leases.ts'
import type { TableView } from './engine-messages.ts'

// An instance for SQL whose texts are all known before: one that is kept from run to run, where they can leave nothing behind
// in it, and a fresh one where that is not certain (docs/adr/0009-engine-processes.md).
// The aim of 60 runs/s needs the shared instance: 73.5 and 74.8 runs/s with it, 45.7 and 45.5 without it (2026-11-23, a quiet
// machine, 16 pipelines at once).

export interface OpenedInstance {
  number: number
  /** What it shows a table as, later. */
  viewOf(table: TableInput): TableView
}

export interface KnownTexts {
  /** Everything that people's SQL will ask for in it. */
  texts: readonly string[]
  /** What it shows now. */
  tables: readonly TableInput[]
  /** Of which tables files may be shown later; their names may be in the texts. */
  found: readonly TableInput[]
  /** A table that is shown later, of files that are yet to be written. */
  own: TableName
}

/** As `openInstance`. */
export async function openForTexts(
  engine: EngineLease,
  known: KnownTexts,
  { directory, landing }: Pick<Workplace, 'directory' | 'landing'>,
  signal: AbortSignal,
): Promise<OpenedInstance> {
  const kept = await enterKept(engine, known, signal)
  if (kept !== null) return kept
  const { tables, found } = known
  const paths = found.flatMap((table) => table.paths)
  return { number: await openInstance(engine, tables, directory, signal, { paths, landing }), viewOf }
}

/** Null: it is not for these texts, or not to be had with these files. */
async function enterKept(
  engine: EngineLease,
  { texts, tables, found, own }: KnownTexts,
  signal: AbortSignal,
): Promise<OpenedInstance | null> {
  const paths = new Set(found.flatMap((table) => table.paths))
  const characters = texts.reduce((sum, text) => sum + text.length, 0)
  if (characters > limits.keptCharacters || paths.size > limits.keptFiles) return null
  const kept = await engine.kept()
  const links = await linksTo(paths, kept)
  if (links === null) return null
  const viewLinked = (table: TableInput) =>
    viewOf({ ...table, paths: table.paths.map((path) => links.get(path) ?? path) })
  const { number } = kept
  const names = [...found.map(({ name }) => name), own].map((name) => ({
    schema: schemaOf(name),
    name: name.name,
  }))
  const views = tables.map(viewLinked)
  const hasEntered = await engine.call({ kind: 'enter', number, texts, names, tables: views }, signal)
  return hasEntered ? { number, viewOf: viewLinked } : null
}

/** Null: they are on another disk, or somebody else's. */
async function linksTo(paths: ReadonlySet<string>, kept: KeptInstance): Promise<Map<string, string> | null> {
  try {
    return new Map(
      await Promise.all(Array.from(paths, async (path) => [path, await kept.link(path)] as const)),
    )
  } catch {
    return null
  }
}
