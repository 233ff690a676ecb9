import { join } from 'node:path'
import type { TableMetadata } from '../../../lake/iceberg/format/metadata.ts'
import {
  NameError,
  parseTableName,
  parseZoneName,
  type TableName,
  tableKey,
} from '../../../lake/pipeline/names.ts'
import {
  renderTemplate,
  type Template,
  type TemplateResolver,
  type TemplateVariables,
} from '../../../lake/pipeline/template.ts'
import { quoteLiteral } from '../../../lake/quote.ts'
import type { LandingFile } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import type { RefusedText } from '../author/slips.ts'
import { counted, sized } from '../author/wording.ts'
import { limits } from '../limits.ts'
import { type LakeSession, type TableInput, tableExpression } from './lake-session.ts'
import { bringLanding, type LandingOptions, type LandingPlace, objectOf } from './landing.ts'

// What templates ask for, and what of it there is. How SQL will name a table or a zone is known before either is
// found, so a template is rendered once, ahead; only where something is missing is it rendered again, for the line.

/** SQL that counts on tables and zones which have not been found yet. */
export interface Draft {
  template: Template
  sql: string
  tables: TableName[]
  zones: string[]
}

export interface InputsOptions {
  /** Of names that name none. */
  namespace: string
  variables: TemplateVariables
  /** Landing zones become directories in it. Null: there are none to be read. */
  landing: LandingPlace | null
}

export class Inputs {
  readonly #options: InputsOptions
  /** By key; null: there is no such table. */
  readonly #tables = new Map<string, TableInput | null>()
  /** By zone; null: there is no such zone. */
  readonly #landings = new Map<string, LandingFile[] | null>()

  constructor(options: InputsOptions) {
    this.#options = options
  }

  /**
   * Renders a template, noting what it asks for. `inserted` makes another text of the path of a landing zone. Throws
   * TemplateError.
   */
  draft(template: Template, inserted = (path: string) => path): Draft {
    const tables = new Map<string, TableName>()
    const zones = new Set<string>()
    const checkRoom = () => {
      if (tables.size + zones.size > limits.namesPerTemplate)
        throw new NameError(`more than ${limits.namesPerTemplate} tables and landing zones are named`)
    }
    const sql = this.#render(template, {
      ref: (name) => {
        const table = parseTableName(name, this.#options.namespace)
        tables.set(tableKey(table), table)
        checkRoom()
        return tableExpression(table)
      },
      landingZone: (name) => {
        const zone = parseZoneName(name)
        zones.add(zone)
        checkRoom()
        return inserted(this.#pathOf(zone))
      },
    })
    return { template, sql, tables: [...tables.values()], zones: [...zones] }
  }

  /** The text of a draft and what it was given. `own`: the table that `this` means. */
  textOf({ template, sql, tables, zones }: Draft, own: TableName): RefusedText {
    return {
      language: 'sql',
      namespace: this.#options.namespace,
      tables: [...tables, own],
      zones: new Map(zones.map((zone) => [this.#pathOf(zone), zone])),
      sql,
      quotedSql: zones.length === 0 ? null : this.draft(template, quoteLiteral).sql,
    }
  }

  /** The SQL of a draft, now that all has been found that there is. Throws TemplateError where something is missing. */
  sqlOf({ template, sql, tables, zones }: Draft): string {
    const isComplete =
      tables.every((table) => this.#tables.get(tableKey(table))) &&
      zones.every((zone) => (this.#landings.get(zone)?.length ?? 0) > 0)
    if (isComplete) return sql
    return this.#render(template, {
      ref: (name) => {
        const table = parseTableName(name, this.#options.namespace)
        if (!this.#tables.get(tableKey(table))) throw new Error(`table ${tableKey(table)} does not exist`)
        return tableExpression(table)
      },
      landingZone: (name) => {
        const zone = parseZoneName(name)
        const files = this.#landings.get(zone)
        if (!files) throw new Error(`landing zone ${zone} does not exist in ${this.#options.namespace}`)
        if (files.length === 0) throw new Error(`landing zone ${zone} has no files`)
        return this.#pathOf(zone)
      },
    })
  }

  /** Opens tables of the branch, all at once. `known` has been loaded already. */
  async openTables(
    tables: readonly TableName[],
    lake: LakeSession,
    known: ReadonlyMap<string, TableMetadata | null> = new Map(),
  ): Promise<void> {
    const distinct = new Map(tables.map((table) => [tableKey(table), table]))
    await Promise.all(
      Array.from(distinct, async ([key, table]) => {
        const metadata = known.has(key) ? known.get(key) : await lake.catalog.load(table)
        this.#tables.set(key, metadata ? await lake.open(table, metadata) : null)
      }),
    )
  }

  /** Brings the files of landing zones, of all at once. */
  async openLandings(zones: readonly string[], options: LandingOptions): Promise<void> {
    await Promise.all(
      [...new Set(zones)].map(async (zone) =>
        this.#landings.set(zone, await bringLanding(zone, join(this.#landing.directory, zone), options)),
      ),
    )
  }

  /** From here on the table is this. */
  setTable(table: TableInput): void {
    this.#tables.set(tableKey(table.name), table)
  }

  /** Null: it is not there, or nobody has asked for it. */
  table(name: TableName): TableInput | null {
    return this.#tables.get(tableKey(name)) ?? null
  }

  /** Every table that has been found. */
  found(): TableInput[] {
    return [...this.#tables.values()].filter((table) => table !== null)
  }

  /** Whether the zone has been looked for. */
  knowsLanding(zone: string): boolean {
    return this.#landings.has(zone)
  }

  /** What `landing_zone()` gives; null: there is no such zone. */
  landingPath(zone: string): string | null {
    return this.#landings.get(zone) ? this.#pathOf(zone) : null
  }

  /** Zone by path, for every zone that was found. */
  landingPaths(): Map<string, string> {
    const zones = [...this.#landings].flatMap(([zone, files]) => (files === null ? [] : [zone]))
    return new Map(zones.map((zone) => [this.#pathOf(zone), zone]))
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
    return join(this.#landing.name, zone, '*')
  }

  #render(template: Template, resolver: TemplateResolver): string {
    const { variables } = this.#options
    return renderPlain(template, variables, resolver) ?? renderTemplate(template, variables, resolver)
  }
}

/** Longer texts are left to the template engine, which has limits of its own. */
const PLAIN_CHARACTERS = 100_000
/** `{{ this }}`, `{{ ref('silver.orders') }}`, `{{ landing_zone("orders") }}`. */
const PLAIN_EXPRESSION = /\{\{\s*(?:this|(ref|landing_zone)\(\s*(?:'([\w.-]*)'|"([\w.-]*)")\s*\))\s*\}\}/g

/**
 * Renders a text whose only expressions are the plain ones above. Null: the template engine has to render the text, or to name
 * its error. Without this, a run of `select 1` takes the runner 26 ms of processor instead of 9, and 16
 * pipelines at once reach 31 runs/s instead of 60, the aim.
 */
export function renderPlain(
  { source }: Template,
  variables: TemplateVariables,
  resolver: TemplateResolver,
): string | null {
  if (source.length > PLAIN_CHARACTERS) return null
  let rendered = ''
  let end = 0
  for (const match of source.matchAll(PLAIN_EXPRESSION)) {
    const before = source.slice(end, match.index)
    // A third brace belongs to the expression.
    if (/\{[{%#]|\{$/.test(before)) return null
    const [expression, call, single, double] = match
    const name = single ?? double
    try {
      const value =
        name === undefined ? variables.this : call === 'ref' ? resolver.ref(name) : resolver.landingZone(name)
      rendered += before + value
    } catch {
      return null
    }
    end = match.index + expression.length
  }
  const rest = source.slice(end)
  return /\{[{%#]/.test(rest) ? null : rendered + rest
}

/** Tells which table is read. */
export const readsTable = ({ name, rowCount, paths }: TableInput): string =>
  `reads ${tableKey(name)}: ${counted(rowCount, 'row')} in ${counted(paths.length, 'file')}`

/** Tells which files of a landing zone are read. */
export function readsZone(zone: string, files: readonly LandingFile[]): string {
  const bytes = files.reduce((sum, file) => sum + Number(objectOf(file).sizeBytes), 0)
  return `reads landing zone ${zone}: ${counted(files.length, 'file')}, ${sized(bytes)}`
}
