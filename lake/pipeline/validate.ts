// Publish validation. Template syntax errors and bad configuration are errors. A bare `ref(`, a reference to an unknown table
// or zone, and a cycle are warnings. The engine is not involved, because tables may not exist yet.
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type TableName, tableKey } from '../../ground/names.ts'
import { type ConfigProblem, type PipelineConfig, parseConfig, type TextFile } from './config.ts'
import { NameError, parseTableName, parseZoneName, shown } from './names.ts'
import { parseTest, testNameOf } from './quality.ts'
import { type Call, pythonReferences, sqlReferences } from './references.ts'
import {
  newWorkBudget,
  type RequestedNames,
  type Template,
  TemplateError,
  type TemplateVariables,
} from './template.ts'
import type { WorkBudget } from './template-engine.ts'

export interface PublishInput {
  pipeline: TableName & { type: 'sql' | 'python' }
  /** Every file of the pipeline, with its path below the pipeline's prefix: `pipeline.sql`, `tests/quality/a.sql`. */
  files: readonly TextFile[]
  /** Existing tables and zones. If absent, the caller does not know them, and nothing is reported as unknown. */
  known?: {
    /** Keys from `tableKey`. */
    tables: ReadonlySet<string>
    /** Zones of the pipeline's namespace. */
    zones: ReadonlySet<string>
  }
  /** The columns of tables on main, by key. If absent, a view is not bound to its tables. */
  schemas?: ReadonlyMap<string, readonly { name: string; type: string }[]>
  /** The source tables of each table, by key. Cycles are searched in this graph. */
  sources?: ReadonlyMap<string, readonly string[]>
}

/** Collects the names that a template requests. Throws TemplateError. */
export type Collect = (
  template: Template,
  variables: TemplateVariables,
  budget: WorkBudget,
) => Promise<RequestedNames>

export interface FileReport {
  path: string
  valid: boolean
  errors: string[]
  warnings: string[]
}

export interface ValidationReport {
  valid: boolean
  files: FileReport[]
}

/** One report per given file, in order, and one for a missing source file. Reads each file in a turn of its own. Throws the errors of `collect`. */
export async function validatePublish(input: PublishInput, collect: Collect): Promise<ValidationReport> {
  const sourcePath = input.pipeline.type === 'python' ? 'pipeline.py' : 'pipeline.sql'
  const source = input.files.find(({ path }) => path === sourcePath)
  const config = input.files.find(({ path }) => path === 'config.yaml')
  const parsed = parseConfig({ config, source })
  const means = { collect, work: newWorkBudget() }
  const reportOn = async (file: TextFile): Promise<FileReport> => {
    const errors = messagesOf(parsed.errors, file.path)
    const warnings = messagesOf(parsed.warnings, file.path)
    if (file === source) {
      if (input.pipeline.type === 'sql') errors.push(...(await templateErrors(file, parsed.config, means)))
      warnings.push(...referenceWarnings(file, input), ...cycleWarnings(file, input))
    } else {
      const name = testNameOf(file.path)
      if (name !== undefined) {
        const test = parseTest(name, file)
        errors.push(
          ...messagesOf(test.errors, file.path),
          ...(await templateErrors(file, parsed.config, means)),
        )
        warnings.push(...messagesOf(test.warnings, file.path), ...referenceWarnings(file, input))
      }
    }
    return { path: file.path, valid: errors.length === 0, errors, warnings }
  }
  const files: FileReport[] = []
  for (const file of input.files) {
    await nextTurn()
    files.push(await reportOn(file))
  }
  if (source === undefined)
    files.push({
      path: sourcePath,
      valid: false,
      errors: [`a ${input.pipeline.type} pipeline needs the file ${sourcePath}`],
      warnings: [],
    })
  return { valid: files.every(({ valid }) => valid), files }
}

/** The problems of one file as lines of its report, which already names the file. */
const messagesOf = (problems: readonly ConfigProblem[], path: string): string[] =>
  problems.filter(({ file }) => file === path).map(({ message, line }) => placed(message, { line }))

/** Renders with the variables of a first run. Names are only collected, so no table needs to exist. */
async function templateErrors(
  { path, text }: TextFile,
  { mergeStrategy }: PipelineConfig,
  { collect, work }: { collect: Collect; work: WorkBudget },
): Promise<string[]> {
  try {
    const requested = await collect(
      { file: path, source: text },
      { strategy: mergeStrategy, this: 'this', runStartedAt: '1970-01-01T00:00:00Z', watermarkValue: null },
      work,
    )
    const { calls } = sqlReferences(text)
    const faults = [
      ...requested.refs.map((name) => ({
        name,
        of: 'ref',
        fault: faultOf(() => parseTableName(name, 'default')),
      })),
      ...requested.zones.map((name) => ({
        name,
        of: 'landing_zone',
        fault: faultOf(() => parseZoneName(name)),
      })),
    ]
    return faults.flatMap(({ name, of, fault }) => {
      const call = calls.find((candidate) => candidate.function === of && candidate.argument === name)
      return fault === undefined ? [] : [placed(fault, call)]
    })
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error
    return [placed(error.text, error)]
  }
}

/** Puts the position in the file, if known, before the reason. */
function placed(reason: string, { line, column }: { line?: number; column?: number } = {}): string {
  if (line === undefined) return reason
  return `line ${line}${column === undefined ? '' : ` column ${column}`}: ${reason}`
}

function faultOf(parse: () => unknown): string | undefined {
  try {
    parse()
    return undefined
  } catch (error) {
    if (error instanceof NameError) return error.message
    throw error
  }
}

function referenceWarnings({ path, text }: TextFile, { pipeline, known }: PublishInput): string[] {
  const { calls, bare } = path.endsWith('.py')
    ? { calls: pythonReferences(text), bare: [] }
    : sqlReferences(text)
  const warnings = bare.map((call) =>
    placed(`${call.function}( is outside of {{ }}: the template does not evaluate it`, call),
  )
  if (known === undefined) return warnings
  for (const call of calls) {
    const unknown =
      call.function === 'ref' ? isUnknownTable(call, pipeline, known.tables) : !known.zones.has(call.argument)
    if (unknown)
      warnings.push(
        placed(
          `there is no ${call.function === 'ref' ? 'table' : 'landing zone'} ${shown(call.argument)}`,
          call,
        ),
      )
  }
  return warnings
}

/** The pipeline's own table is never unknown, because this publish may create it. An invalid name is already an error. */
function isUnknownTable(call: Call, pipeline: TableName, tables: ReadonlySet<string>): boolean {
  const key = keyOf(call.argument, pipeline)
  return key !== undefined && key !== tableKey(pipeline) && !tables.has(key)
}

function cycleWarnings({ path, text }: TextFile, { pipeline, sources }: PublishInput): string[] {
  const calls = path.endsWith('.py') ? pythonReferences(text) : sqlReferences(text).calls
  const reads = calls.flatMap((call) =>
    call.function === 'ref' ? (keyOf(call.argument, pipeline) ?? []) : [],
  )
  const cycle = cycleOf(tableKey(pipeline), reads, sources ?? new Map())
  return cycle === null ? [] : [cycle]
}

/**
 * Searches for a way from the tables in `reads` back to `own`, and describes it. Null: there is no cycle. Tables are keys from
 * `tableKey`. `sources` lists the source tables of each table.
 */
export function cycleOf(
  own: string,
  reads: readonly string[],
  sources: ReadonlyMap<string, readonly string[]>,
): string | null {
  const cameFrom = new Map<string, string>(reads.map((table) => [table, own]))
  const open = [...cameFrom.keys()]
  for (let table = open.pop(); table !== undefined; table = open.pop()) {
    if (table === own) return `the pipeline reads its own table: ${cyclePath(own, cameFrom)}`
    for (const next of sources.get(table) ?? []) {
      if (cameFrom.has(next)) continue
      cameFrom.set(next, table)
      open.push(next)
    }
  }
  return null
}

/** `silver.a <- gold.b <- silver.a`, in the order of reading. */
function cyclePath(own: string, cameFrom: ReadonlyMap<string, string>): string {
  const path = [own]
  for (let table = cameFrom.get(own); table !== undefined && table !== own; table = cameFrom.get(table))
    path.push(table)
  return [own, ...path.reverse()].join(' <- ')
}

function keyOf(name: string, pipeline: TableName): string | undefined {
  try {
    return tableKey(parseTableName(name, pipeline.namespace))
  } catch (error) {
    if (error instanceof NameError) return undefined
    throw error
  }
}
