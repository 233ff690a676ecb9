// The groups of operations, in the order of the document.
import type { AnyElysia } from 'elysia'
import { documentedPath } from '../wire/route-table.ts'
import type { Json } from './schema.ts'

type InternalRoute = AnyElysia['routes'][number]

/** The most used tags come first; a tag that is not listed comes last. */
const TAGS = new Map([
  ['pipelines', 'Transformations in SQL or Python, with their versions and previews'],
  ['runs', 'Executions of pipelines, with their logs'],
  ['quality tests', 'Assertions that gate a run'],
  ['triggers', 'Events that start runs: uploads, times, webhooks and runs of other pipelines'],
  ['schedules', 'Cron schedules of pipelines; a `cron` trigger is the newer alternative'],
  ['branches', 'Views of the whole lake that change independently of main, with their commits'],
  ['history', 'Commits of main, and earlier states of tables'],
  ['query', 'Read-only SQL over the tables'],
  ['tables', 'Tables that pipelines have written'],
  ['files', 'Source files of pipelines'],
  ['landing zones', 'Named places that receive raw files for pipelines'],
  ['namespaces', 'Groups of pipelines, tables and landing zones'],
  ['lineage', 'The graph of pipelines and of the tables that they read and write'],
  ['retention', 'Limits of age and count beyond which the reaper removes runs, logs, results and files'],
  ['sharing', 'Grants to other users, in the Pro edition'],
  ['audit', 'The record of every write request with a valid credential'],
  ['features', 'The edition and the plugins of this installation'],
  ['health', 'Probes and metrics'],
  ['inspector', 'States and histories of runs, drafts and triggers'],
])

export function tagsInOrder(routes: readonly InternalRoute[]): Json[] {
  const used = new Set(routes.flatMap(tagsOf))
  return [...new Set([...TAGS.keys(), ...used])]
    .filter((name) => used.has(name))
    .map((name) => ({ name, ...(TAGS.has(name) ? { description: TAGS.get(name) } : {}) }))
}

/** Sorts paths by their tags, so that the document has the order of the page. */
export function inOrderOfTags(paths: Json, routes: readonly InternalRoute[]): Json {
  const order = tagsInOrder(routes).map(({ name }) => name)
  const positions = new Map<string, number>()
  for (const route of routes) {
    const at = documentedPath(route.path)
    if (!positions.has(at)) positions.set(at, order.indexOf(tagsOf(route)[0]))
  }
  const positionOf = (path: string) => positions.get(path) ?? order.length
  return Object.fromEntries(Object.entries(paths).toSorted(([a], [b]) => positionOf(a) - positionOf(b)))
}

const tagsOf = ({ hooks }: InternalRoute): string[] => hooks.detail?.tags ?? []
