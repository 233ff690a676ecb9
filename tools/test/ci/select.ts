/** Chooses the suites of one CI run: what the change since the last green run can affect, and a share of the rest. */
import { posix } from 'node:path'
import { importsOf } from '../../check/architecture.ts'
import { EVERYTHING, type Suite, TURNS } from './suites.ts'

/** The last green run of CI on main, as recorded in `.ci/green.json`. */
export interface Green {
  /** Green runs so far. */
  number: number
  commit: string
}

export interface Choice {
  suite: Suite
  /** Why the suite runs; null: it does not run. */
  reason: string | null
}

export interface Change {
  /** Paths that differ from the last green run; null: unknown, so everything may differ. */
  changed: readonly string[] | null
  number: number
  /** The text of a file of the repository; null: there is none. */
  source: (path: string) => string | null
}

/** One choice per suite, in the order of the table. */
export function choose(suites: readonly Suite[], { changed, number, source }: Change): Choice[] {
  return suites.map((suite, index) => ({
    suite,
    reason: reasonOf(suite, changed, source) ?? ((number + index) % TURNS === 0 ? 'its turn' : null),
  }))
}

function reasonOf(suite: Suite, changed: Change['changed'], source: Change['source']): string | null {
  if (changed === null) return 'the last green run is unknown'
  const shared = changed.find((path) => EVERYTHING.test(path))
  if (shared !== undefined) return shared
  const own = changed.find((path) => suite.paths.test(path))
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
