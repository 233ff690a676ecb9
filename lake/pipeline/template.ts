// SQL templates: Jinja syntax, strict, sandboxed and limited (docs/adr/0006-templates.md).
//
// `renderTemplate` inserts what a resolver returns for each name. `collectTemplate` only collects the names that a template
// requests. Both see the same variables, so they take the same branches.
import { AuthorError } from './author-error.ts'
import { MERGE_STRATEGIES, type MergeStrategy } from './config.ts'
import { shown, zoneSelection } from './names.ts'
import { type Position, type ReferenceFunction, sqlReferences } from './references.ts'
import { ENGINE_LIMITS, EngineTrap, type WorkBudget, withEnvironment } from './template-engine.ts'
import { Misplaced, renderValue, type SqlDialect } from './watermark-sql.ts'

export const TEMPLATE_LIMITS = {
  sourceBytes: 1_048_576,
  outputBytes: 2_097_152,
  /** Instructions of the template. The limit stops an endless loop and reports its line. */
  fuel: 1_000_000,
  /** The work of all templates of one attempt, preview or check: that of four templates at their limit. */
  work: 4n * ENGINE_LIMITS.work,
} as const

/** The work of the templates of one attempt, preview or check. */
export const newWorkBudget = (): WorkBudget => ({ left: TEMPLATE_LIMITS.work })

export interface Template {
  /** The file name in errors: `pipeline.sql`. */
  file: string
  source: string
}

export interface TemplateVariables {
  /** The strategy of the run, which `is_incremental()` and similar functions report. */
  strategy: MergeStrategy
  /** The table expression of the pipeline's own table. */
  this: string
  /** ISO 8601, UTC. */
  runStartedAt: string
  /** The largest watermark on main, as text; null when there is none. */
  watermarkValue: string | null
  /** DuckDB's name of the watermark's type. Default: VARCHAR. */
  watermarkType?: string
  /** The SQL that the template renders to. Default: DuckDB's. */
  dialect?: SqlDialect
}

/** Returns SQL text for a name. An error that it throws becomes a `TemplateError` at the call. */
export interface TemplateResolver {
  /** A table expression. */
  ref(name: string): string
  /** A path text for `read_csv_auto('...')`. With a pattern, the path has only the files whose original names match. */
  landingZone(name: string, pattern: string | null): string
}

/** The template cannot be rendered. The error has the position, if known. */
export class TemplateError extends AuthorError {
  override readonly name = 'TemplateError'
  readonly file: string
  /** 1-based, when the engine reports it. */
  readonly line: number | undefined
  /** 1-based, when the engine reports it. */
  readonly column: number | undefined

  constructor(file: string, text: string, at: Partial<Position> = {}, options?: ErrorOptions) {
    const column = at.column === undefined ? '' : ` column ${at.column}`
    super(text, { ...options, where: at.line === undefined ? file : `${file} line ${at.line}${column}` })
    this.file = file
    this.line = at.line
    this.column = at.column
  }
}

/** Renders the template to SQL. The watermark is a value in it, whatever its text is. Throws `TemplateError`. */
export function renderTemplate(
  template: Template,
  variables: TemplateVariables,
  resolver: TemplateResolver,
  budget = newWorkBudget(),
): string {
  const { watermarkValue: value, watermarkType: type = 'VARCHAR', dialect = 'duckdb' } = variables
  if (!value || !template.source.includes('watermark_value'))
    return renderTexts(template, variables, resolver, budget)
  const render = (text: string) =>
    renderTexts(template, { ...variables, watermarkValue: text }, resolver, budget)
  try {
    return renderValue({ value, type, dialect }, template.source, render)
  } catch (error) {
    if (!(error instanceof Misplaced)) throw error
    throw new TemplateError(template.file, error.message, {}, { cause: error })
  }
}

/** Renders the template with all values as plain texts. */
function renderTexts(
  template: Template,
  variables: TemplateVariables,
  resolver: TemplateResolver,
  budget: WorkBudget,
): string {
  let failure: { error: unknown; call: ReferenceFunction; argument: string } | undefined
  // An error inside a callback would trap the module and lose its message. So the first error waits until the module has
  // returned.
  const call = (
    name: ReferenceFunction,
    takes: string,
    resolve: (argument: string, options: ReadonlyMap<string, unknown>) => string | null,
  ) => {
    return (...callArguments: unknown[]): string => {
      // The rendering has already failed. A trap stops the remaining work early.
      if (failure !== undefined) throw failure.error
      const argument = typeof callArguments[0] === 'string' ? callArguments[0] : ''
      try {
        const [given, named = NO_OPTIONS, ...others] = callArguments
        // The engine passes named arguments as one map behind the others.
        const isPlain = typeof given === 'string' && named instanceof Map && others.length === 0
        const resolved = isPlain ? resolve(argument, named) : null
        if (resolved === null) throw new TypeError(`${name}() takes ${takes}`)
        return resolved
      } catch (error) {
        failure ??= { error, call: name, argument }
        return ''
      }
    }
  }
  const globals: Record<string, unknown> = {
    ref: call('ref', 'one name in quotes', (name, { size }) => (size > 0 ? null : resolver.ref(name))),
    landing_zone: call('landing_zone', "one name in quotes, and pattern='...' if needed", (name, options) => {
      const { pattern = null, ...others } = Object.fromEntries(options)
      if (Object.keys(others).length > 0 || (pattern !== null && typeof pattern !== 'string')) return null
      return resolver.landingZone(name, pattern)
    }),
    this: variables.this,
    run_started_at: variables.runStartedAt,
    watermark_value: variables.watermarkValue,
  }
  for (const strategy of MERGE_STRATEGIES) globals[`is_${strategy}`] = () => strategy === variables.strategy
  const rendered = render(template, globals, budget)
  if (failure !== undefined) {
    const { error, call: name, argument } = failure
    const { calls, dynamic } = sqlReferences(template.source)
    const isFailedFunction = (found: { function: ReferenceFunction }) => found.function === name
    // If several calls have a computed argument, the failed one is unknown.
    const [only, ...others] = dynamic.filter(isFailedFunction)
    const position =
      calls.find((found) => isFailedFunction(found) && found.argument === argument) ??
      (others.length === 0 ? only : undefined)
    const reason = error instanceof Error ? error.message : String(error)
    throw new TemplateError(template.file, reason, position, { cause: error })
  }
  if (rendered instanceof TemplateError) throw rendered
  return rendered
}

const NO_OPTIONS: ReadonlyMap<string, unknown> = new Map()

export interface RequestedNames {
  /** Names passed to `ref()`, as written, without duplicates. */
  refs: string[]
  /** Names passed to `landing_zone()`, as written, without duplicates. */
  zones: string[]
}

/** Collects the names that the template requests with these variables. Throws `TemplateError`. */
export function collectTemplate(
  template: Template,
  variables: TemplateVariables,
  budget = newWorkBudget(),
): RequestedNames {
  const { resolver, requested } = collecting()
  renderTexts(template, variables, resolver, budget)
  return requested()
}

/** A resolver that collects the requested names. */
export function collecting(): { resolver: TemplateResolver; requested: () => RequestedNames } {
  const refs = new Set<string>()
  const zones = new Set<string>()
  const resolver: TemplateResolver = {
    ref(name) {
      refs.add(name)
      return name
    },
    landingZone(name, pattern) {
      zones.add(name)
      return pattern === null ? name : zoneSelection(name, pattern)
    },
  }
  return { resolver, requested: () => ({ refs: [...refs], zones: [...zones] }) }
}

const NAME_IN_ENGINE = 'template'

/** Renders in a separate WASM instance, so all changes of its memory end with the instance. */
function render(
  { file, source }: Template,
  globals: Record<string, unknown>,
  budget: WorkBudget,
): string | TemplateError {
  if (byteLength(source) > TEMPLATE_LIMITS.sourceBytes)
    return new TemplateError(file, `the template is larger than ${TEMPLATE_LIMITS.sourceBytes} bytes`)
  try {
    const sql = withEnvironment(budget, (environment) => {
      environment.undefinedBehavior = 'strict'
      environment.debug = true
      environment.keepTrailingNewline = true
      environment.fuel = TEMPLATE_LIMITS.fuel
      environment.removeGlobal('debug')
      for (const [name, value] of Object.entries(globals)) environment.addGlobal(name, value)
      return environment.renderNamedStr(NAME_IN_ENGINE, source, {})
    })
    if (byteLength(sql) > TEMPLATE_LIMITS.outputBytes)
      return new TemplateError(file, `the rendered SQL is larger than ${TEMPLATE_LIMITS.outputBytes} bytes`)
    return sql
  } catch (error) {
    if (error instanceof EngineTrap) return new TemplateError(file, error.message, {}, { cause: error })
    if (!(error instanceof Error)) throw error
    return described({ file, source }, error)
  }
}

/** The width of the margin in an excerpt's row of carets: `     i `. */
const MARGIN = 7

/** The engine's message is `what (in template:LINE)`. In debug mode, an excerpt with carets under the position follows. */
function described({ file, source }: Template, error: Error): TemplateError {
  const [, engineMessage = error.message, lineText] =
    /^(.*?) \(in template:(\d+)\)/s.exec(error.message) ?? []
  const message =
    engineMessage === 'engine ran out of fuel'
      ? `the template takes too long: it executes more than ${TEMPLATE_LIMITS.fuel} instructions`
      : engineMessage
  if (lineText === undefined) return new TemplateError(file, message, {}, { cause: error })
  const line = Number(lineText)
  const excerpt = new RegExp(`^ *${line} > .*\\n( +i +)(\\^+)`, 'm').exec(error.message)
  if (excerpt?.[1] === undefined) return new TemplateError(file, message, { line }, { cause: error })
  const characters = [...(source.split('\n')[line - 1] ?? '')]
  const offset = excerpt[1].length - MARGIN
  const marked = characters.slice(offset, offset + (excerpt[2]?.length ?? 0)).join('')
  const column = characters.slice(0, offset).join('').length + 1
  const reason = message === 'undefined value' ? `${shown(marked)} is undefined` : message
  return new TemplateError(file, reason, { line, column }, { cause: error })
}

const byteLength = (text: string): number => new TextEncoder().encode(text).length
