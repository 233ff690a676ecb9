import { join } from 'node:path'
import { type TableName, tableKey } from '../../../ground/names.ts'
import type { TableMetadata } from '../../../lake/iceberg/format/metadata.ts'
import { partsOfSelection } from '../../../lake/pipeline/names.ts'
import {
  newWorkBudget,
  type Template,
  TemplateError,
  type TemplateVariables,
} from '../../../lake/pipeline/template.ts'
import type { WorkBudget } from '../../../lake/pipeline/template-engine.ts'
import type { LandingFile } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { counted, sized } from '../../core/amounts.ts'
import { type RenderedText, renderIfPlain, type TemplateText } from '../engine/rendering.ts'
import { type Dialect, directoryOf, tableOf, zoneOf } from '../engine/sql-names.ts'
import { renderIn, type TemplateProcess } from '../engine/template-process.ts'
import type { LakeSession, TableInput } from './lake-session.ts'
import { bringLanding, findLanding, type LandingDirectory, type LandingOptions, objectOf } from './landing.ts'
import type { RefusedText } from './read-text.ts'
import { openInputs, withReads } from './table-inputs.ts'

// The tables and landing zones that templates name. SQL names of tables and zones are known before their data is looked up. So
// a template is rendered once, in advance. It is rendered again only to find the line that names a missing table or zone.
// Engine processes render all templates but the plain ones (`rendering.ts`).

/** Rendered SQL whose tables and zones have not been looked up yet. */
export interface Draft {
  template: Template
  dialect: Dialect
  sql: string
  tables: TableName[]
  /** Selections of files (`zoneSelection`). */
  zones: string[]
}

interface InputsOptions {
  /** The namespace of names that do not include one. */
  namespace: string
  /** The table that `this` means. */
  own?: TableName
  variables: TemplateVariables
  /** Each landing zone becomes a directory in it. Null: no landing zone can be read. */
  landing: LandingDirectory | null
  /** The engine process that renders templates. */
  engine: TemplateProcess
  signal: AbortSignal
  /** The work of other templates that counts, too. */
  work?: WorkBudget
}

export class Inputs {
  readonly #options: InputsOptions
  readonly #duckdb: Dialect
  /** By table key; null: the table does not exist. */
  readonly #tables = new Map<string, TableInput | null>()
  /** By selection; null: the zone does not exist. */
  readonly #landings = new Map<string, LandingFile[] | null>()
  readonly #work: WorkBudget

  constructor(options: InputsOptions) {
    this.#options = options
    this.#duckdb = { engine: 'duckdb', landing: options.landing?.name ?? null }
    this.#work = options.work ?? newWorkBudget()
  }

  /** Renders a template, and records the tables and zones that it names. Throws TemplateError, and the errors of engines. */
  async draft(template: Template, { dialect = this.#duckdb }: { dialect?: Dialect } = {}): Promise<Draft> {
    return { template, dialect, ...(await this.#render(template, { dialect })) }
  }

  /** The SQL of a draft as a stored view has it. The draft must name no landing zone. */
  async storedSqlOf({ template }: Draft): Promise<string> {
    return (await this.#render(template, { form: 'stored' })).sql
  }

  /** The text of a draft, with the tables and zones that it names. `own` is the table that `this` means. */
  async textOf({ template, sql, tables, zones }: Draft, own: TableName): Promise<RefusedText> {
    return {
      language: 'sql',
      namespace: this.#options.namespace,
      tables: [...tables, own],
      zones: new Map(zones.map((zone) => [this.#pathOf(zone), partsOfSelection(zone).zone])),
      sql,
      quotedSql: zones.length === 0 ? null : await this.#quotedSqlOf(template),
    }
  }

  /** Null: the templates of this attempt have used up their work. */
  async #quotedSqlOf(template: Template): Promise<string | null> {
    try {
      return (await this.#render(template, { form: 'quoted' })).sql
    } catch (error) {
      if (error instanceof TemplateError) return null
      throw error
    }
  }

  /** The SQL of a draft, after its inputs were looked up. Throws TemplateError at the line that names a missing input. */
  async sqlOf({ template, dialect, sql, tables, zones }: Draft): Promise<string> {
    const missing = new Map<string, string>()
    for (const key of tables.map(tableKey))
      if (!this.#tables.get(key)) missing.set(key, `table ${key} does not exist`)
    for (const selection of zones) {
      const files = this.#landings.get(selection)
      const { zone } = partsOfSelection(selection)
      if (!files) missing.set(selection, `landing zone ${zone} does not exist in ${this.#options.namespace}`)
      else if (files.length === 0) missing.set(selection, noFiles(selection))
    }
    return missing.size === 0 ? sql : (await this.#render(template, { dialect, missing })).sql
  }

  /** Opens tables and views of the branch. `cachedTables` contains metadata that is already loaded. */
  async openTables(
    tables: readonly TableName[],
    lake: LakeSession,
    cachedTables?: ReadonlyMap<string, TableMetadata | null>,
    open?: LakeSession['open'],
  ): Promise<void> {
    for (const [key, input] of await openInputs(tables, lake, cachedTables, open))
      this.#tables.set(key, input)
  }

  /** Fetches the files of landing zones concurrently. */
  async openLandings(zones: readonly string[], options: LandingOptions): Promise<void> {
    await Promise.all(
      [...new Set(zones)].map(async (zone) =>
        this.#landings.set(zone, await bringLanding(zone, this.landingDirectory(zone), options)),
      ),
    )
  }

  /** Finds the files of landing zones that another engine reads. */
  async findLandings(zones: readonly string[], options: LandingOptions): Promise<void> {
    await Promise.all(
      [...new Set(zones)].map(async (zone) => this.#landings.set(zone, await findLanding(zone, options))),
    )
  }

  /** Replaces the recorded state of a table. */
  setTable(table: TableInput): void {
    this.#tables.set(tableKey(table.name), table)
  }

  /** Null: the table does not exist or was not looked up. */
  table(name: TableName): TableInput | null {
    return this.#tables.get(tableKey(name)) ?? null
  }

  /** All tables and views that were found, with local files. A view stands after the inputs that it reads. */
  found(): TableInput[] {
    return withReads([...this.#tables.values()].flatMap((table) => (table && !table.isRemote ? table : [])))
  }

  /** Whether the files were looked up. */
  knowsLanding(selection: string): boolean {
    return this.#landings.has(selection)
  }

  /** Whether any files of the zone were looked up. */
  readsZone(zone: string): boolean {
    return this.landings().some((selection) => partsOfSelection(selection).zone === zone)
  }

  /** The selections that were looked up. */
  landings(): string[] {
    return [...this.#landings.keys()]
  }

  /** The directory that has exactly the selected files. */
  landingDirectory(selection: string): string {
    return join(this.#landing.directory, directoryOf(selection))
  }

  /** The value of `landing_zone()`; null: the zone was not found. */
  landingPath(zone: string): string | null {
    return this.#landings.get(zone) ? this.#pathOf(zone) : null
  }

  /** Maps the path of every zone that was found to the zone's name. */
  landingPaths(): Map<string, string> {
    const zones = [...this.#landings].flatMap(([zone, files]) => (files === null ? [] : [zone]))
    return new Map(zones.map((zone) => [this.#pathOf(zone), partsOfSelection(zone).zone]))
  }

  landing(zone: string): LandingFile[] {
    return this.#landings.get(zone) ?? []
  }

  get #landing() {
    const { landing } = this.#options
    if (landing === null)
      throw new Error('landing zones can be read in runs only: their files are frozen when a run starts')
    return landing
  }

  #pathOf(zone: string): string {
    return zoneOf(this.#duckdb, zone)
  }

  async #render(
    template: Template,
    { dialect = this.#duckdb, form = 'run', missing = new Map() }: Partial<TemplateText>,
  ): Promise<RenderedText> {
    const { variables: given, own, namespace, engine, signal } = this.#options
    const inDialect = { ...given, dialect: dialect.engine }
    const variables = own === undefined ? inDialect : { ...inDialect, this: tableOf(dialect, own) }
    const text: TemplateText = { template, variables, namespace, dialect, form, missing }
    return renderIfPlain(text) ?? renderIn(engine, text, this.#work, signal)
  }
}

/** The log line about a table that the pipeline reads. */
export function readsTable({ name, rowCount, files, view, isRemote }: TableInput): string {
  if (view) return `reads view ${tableKey(name)}`
  const rows = `reads ${tableKey(name)}: ${counted(rowCount, 'row')}`
  return isRemote ? rows : `${rows} in ${counted(files.length, 'file')}`
}

/** The log line about the files of a landing zone that the pipeline reads. */
export function readsZone(selection: string, files: readonly LandingFile[]): string {
  const { zone, pattern } = partsOfSelection(selection)
  const bytes = files.reduce((sum, file) => sum + Number(objectOf(file).sizeBytes), 0)
  const found = `${counted(files.length, 'file')}, ${sized(bytes)}`
  return pattern === null
    ? `reads landing zone ${zone}: ${found}`
    : `reads landing zone ${zone}, files that match ${pattern}: ${found}`
}

/** DuckDB's readers look at all values and refuse damaged files. Spark reads landing files itself. */
export const readBySpark = (zones: readonly string[]): string =>
  `Spark reads the files of ${zones.map((selection) => partsOfSelection(selection).zone).join(', ')} by its own rules: values are not looked at, so it may round numbers or skip damaged parts: compare the rows with the files`

/** The reason why no file can be read. */
export function noFiles(selection: string): string {
  const { zone, pattern } = partsOfSelection(selection)
  return pattern === null
    ? `landing zone ${zone} has no files`
    : `landing zone ${zone} has no files that match ${pattern}`
}
