import { statSync } from 'node:fs'
import type { TableName } from '../../../ground/names.ts'
import { movedTo, pathsOf } from '../../../lake/iceberg/read/table-sql.ts'
import { limits } from '../core/limits.ts'
import type { EngineLease, SharedInstance } from '../engine/engine-lease.ts'
import type { TableView } from '../engine/engine-messages.ts'
import { schemaOf } from '../engine/sql-names.ts'
import type { AttemptResources } from './attempt-resources.ts'
import { openInstance, type TableInput, viewOf } from './lake-session.ts'

// An instance for SQL whose texts are all known in advance. Texts that leave nothing behind use the instance that runs share.
// All other texts use a fresh instance (docs/adr/0009-engine-processes.md).
//
// The shared instance is needed for the aim of 60 runs/s. Two measurements reached 73.5 and 74.8 runs/s with it, 45.7 and 45.5
// without it (2026-11-23, a quiet machine, 16 pipelines at once).

export interface OpenedInstance {
  number: number
  /** The view that the instance will show for a table. */
  viewOf(table: TableInput): TableView
}

interface SharedTexts {
  /** All SQL of users that will run in the instance. */
  texts: readonly string[]
  /** The tables that the instance shows first. */
  tables: readonly TableInput[]
  /** Tables whose files may be shown later. The texts may name these tables. */
  found: readonly TableInput[]
  /** A table that is shown later, with files that are not written yet. */
  own: TableName
}

/** Opens an instance for these texts. Throws the errors of `openInstance`. */
export async function openForTexts(
  engine: EngineLease,
  preparedTexts: SharedTexts,
  { directory, landing }: Pick<AttemptResources, 'directory' | 'landing'>,
  signal: AbortSignal,
): Promise<OpenedInstance> {
  const opened = await enterShared(engine, preparedTexts, signal)
  if (opened !== null) return opened
  const { tables, found } = preparedTexts
  const paths = found.flatMap(({ files }) => pathsOf(files))
  return { number: await openInstance(engine, tables, directory, signal, { paths, landing }), viewOf }
}

/** Null: the shared instance cannot serve these texts or these files. */
async function enterShared(
  engine: EngineLease,
  { texts: written, tables, found, own }: SharedTexts,
  signal: AbortSignal,
): Promise<OpenedInstance | null> {
  const texts = [...written, ...found.flatMap(({ view }) => view?.sql ?? [])]
  const paths = new Set(found.flatMap(({ files }) => pathsOf(files)))
  const characters = texts.reduce((sum, text) => sum + text.length, 0)
  if (characters > limits.sharedTextCharacters || paths.size > limits.sharedFiles) return null
  if (bytesOf(paths) > limits.sharedBytes) return null
  const shared = await engine.shared()
  const links = await linksTo(paths, shared)
  if (links === null) return null
  const viewLinked = (table: TableInput) =>
    viewOf({ ...table, files: movedTo(table.files, (path) => links.get(path) ?? path) })
  const { number } = shared
  const names = [...found.map(({ name }) => name), own].map((name) => ({
    schema: schemaOf(name),
    name: name.name,
  }))
  const views = tables.map(viewLinked)
  const hasEntered = await engine.call({ kind: 'enter', number, texts, names, tables: views }, signal)
  return hasEntered ? { number, viewOf: viewLinked } : null
}

/** The size of the files. A missing file has none; the link to it fails later. */
const bytesOf = (paths: ReadonlySet<string>): number =>
  [...paths].reduce((sum, path) => sum + (statSync(path, { throwIfNoEntry: false })?.size ?? 0), 0)

/** Null: a file cannot be linked, because it is on another disk or has another owner. */
async function linksTo(
  paths: ReadonlySet<string>,
  instance: SharedInstance,
): Promise<Map<string, string> | null> {
  try {
    return new Map(
      await Promise.all(Array.from(paths, async (path) => [path, await instance.link(path)] as const)),
    )
  } catch {
    return null
  }
}
