/** Chooses the suites of one CI run: each that a change since its last green run can affect, and the longest unproven others. */
import { posix } from 'node:path'
import { importsOf } from '../../check/architecture.ts'
import { EVERYTHING, type Suite } from './suites.ts'

export interface Choice {
  suite: Suite
  /** Why the suite runs; null: it does not run. */
  reason: string | null
}

export interface Since {
  /** Paths that differ from the commit on which the suite was last green; null: unknown, so everything may differ. */
  changed: readonly string[] | null
  /** Commits since then. */
  commits: number
}

interface Change {
  since: (suite: string) => Since
  /** The text of a file of the repository; null: there is none. */
  source: (path: string) => string | null
}

/** A CI run takes one of this many of the suites that nothing affects. */
export const TURNS = 4

/** One choice per suite, in the order of the table. */
export function choose(suites: readonly Suite[], { since, source }: Change): Choice[] {
  const choices = suites.map((suite): Choice & { commits: number } => {
    const { changed, commits } = since(suite.name)
    return { suite, reason: reasonOf(suite, changed, source), commits }
  })
  const others = choices.filter(({ reason }) => reason === null).toSorted((a, b) => b.commits - a.commits)
  const due = new Set(others.slice(0, Math.ceil(suites.length / TURNS)).map(({ suite }) => suite))
  return choices.map(({ suite, reason }) => ({ suite, reason: due.has(suite) ? 'its turn' : reason }))
}

function reasonOf(suite: Suite, changed: Since['changed'], source: Change['source']): string | null {
  if (changed === null) return 'its last green run is unknown'
  const shared = changed.find((path) => EVERYTHING.test(path))
  if (shared !== undefined) return shared
  const own = changed.find(
    (path) => suite.paths.test(path) && (suite.runsUnitTests || !/\.test\.tsx?$/.test(path)),
  )
  if (own !== undefined) return own
  const imported = importedBy(suite.entries ?? [], source)
  return changed.find((path) => imported.has(path)) ?? null
}

/** All files that the entries import, directly or through others. */
export function importedBy(entries: readonly string[], source: Change['source']): Set<string> {
  const seen = new Set<string>()
  const open = [...entries]
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    if (seen.has(path)) continue
    seen.add(path)
    for (const { specifier } of importsOf(source(path) ?? ''))
      if (specifier.startsWith('.')) open.push(posix.join(posix.dirname(path), specifier))
  }
  return seen
}
