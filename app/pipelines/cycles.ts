import { cycleOf } from '../../lake/pipeline/validate.ts'
import { EVERYTHING } from '../core/access.ts'
import { sourceFileOf } from './draft-files.ts'
import type { PublishDeps } from './publish.ts'
import { readBy } from './references.ts'
import type { SourceReferences } from './source-references.ts'

/** Maximum number of tables that one publish follows in its search for a cycle. */
const CYCLE_TABLES = 2_000

// A pipeline that reads its own table through other pipelines is published with a warning. Runs are requested by users, clocks
// and triggers, so a cycle fails nothing. But a cycle is rarely intended.

type Validate = PublishDeps['validate']

/**
 * Validates, and adds a warning to the source's report if its references lead back to its own table. The search follows only
 * pipelines that the caller may see.
 */
export function withCycles(validate: Validate, references: SourceReferences): Validate {
  return async (request, visible = EVERYTHING) => {
    const response = await validate(request, visible)
    const { namespace = '', layer = '', pipelineName: name = '', type = 'sql', files = [] } = request
    const path = sourceFileOf(type)
    const source = files.find((file) => file.path === path)
    const report = response?.files.find((file) => file.path === path)
    if (source === undefined || report === undefined || response === null) return response
    const own = `${namespace}.${layer}.${name}`
    const { tables } = readBy([{ name: path, text: source.content ?? '' }], { namespace, layer, name })
    const cycle = cycleOf(
      own,
      tables,
      await upstreamOf(tables, own, (batch) => references.of(batch, visible.pipelines)),
    )
    // The runner may have reported the same cycle already.
    if (cycle !== null && !report.warnings.includes(cycle)) report.warnings.push(cycle)
    return response
  }
}

/** The input tables of each upstream table. At most `CYCLE_TABLES` tables are followed. */
async function upstreamOf(
  tables: readonly string[],
  own: string,
  inputsOf: (tables: readonly string[]) => ReturnType<SourceReferences['of']>,
) {
  const sources = new Map<string, readonly string[]>()
  let pending = tables.filter((table) => table !== own)
  while (pending.length > 0 && sources.size < CYCLE_TABLES) {
    const found = await inputsOf(pending.slice(0, CYCLE_TABLES - sources.size))
    for (const table of pending) sources.set(table, found.get(table)?.tables ?? [])
    const next = new Set([...found.values()].flatMap((inputs) => inputs.tables))
    pending = [...next].filter((table) => table !== own && !sources.has(table))
  }
  return sources
}
