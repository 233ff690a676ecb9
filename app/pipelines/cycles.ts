import { cycleOf } from '../../lake/pipeline/validate.ts'
import { EVERYTHING } from '../core/access.ts'
import { sourceFileOf } from './draft-files.ts'
import type { PublishDeps } from './publish.ts'
import { readBy } from './references.ts'
import type { SourceReferences } from './source-references.ts'

/** Tables that a publish follows in its search for a cycle. */
const CYCLE_TABLES = 2_000

// A pipeline that would read what it makes, by way of others, is published with a warning: runs are requested by
// people, clocks and triggers, so a cycle fails nothing, and rarely is what somebody meant.

type Validate = PublishDeps['validate']

/**
 * The validation, with a warning for the source where the way along what others read comes back to its own table. The way
 * goes no further than the caller sees.
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
      await upstreamOf(tables, own, (open) => references.of(open, visible.pipelines)),
    )
    // A runner that has found it too says the same.
    if (cycle !== null && !report.warnings.includes(cycle)) report.warnings.push(cycle)
    return response
  }
}

/** What each table is made from, as far as there is a way to it; tables beyond the limit are not followed. */
async function upstreamOf(
  tables: readonly string[],
  own: string,
  whatReads: (tables: readonly string[]) => ReturnType<SourceReferences['of']>,
) {
  const sources = new Map<string, readonly string[]>()
  let open = tables.filter((table) => table !== own)
  while (open.length > 0 && sources.size < CYCLE_TABLES) {
    const found = await whatReads(open.slice(0, CYCLE_TABLES - sources.size))
    for (const table of open) sources.set(table, found.get(table)?.tables ?? [])
    const next = new Set([...found.values()].flatMap((named) => named.tables))
    open = [...next].filter((table) => table !== own && !sources.has(table))
  }
  return sources
}
