import { EVERYTHING, type Visible } from '../core/access.ts'
import { invalid, notFound } from '../core/errors.ts'
import { type Page, pageOf } from '../core/pagination.ts'
import { makeCounts } from './counts.ts'
import { CREATED, definitionOf, isWithin, leafStatesOf } from './definitions.ts'
import { drawingOf } from './drawing.ts'
import { historyOf, stepsAfter } from './history.ts'
import {
  type Counts,
  type Definition,
  type DrawingQuery,
  type InstanceQuery,
  type Listed,
  MACHINE_NAMES,
  type MachineName,
  type Snapshot,
  STEPS_MAX,
} from './schema.ts'
import { makeSnapshots, type SnapshotDeps } from './snapshots.ts'
import type { InstanceFilter, ListedRow } from './store/instance.ts'
import { STORES } from './store/machines.ts'
import { latestSteps, movedSince } from './store/steps.ts'

/** Maximum number of history steps in an export. */
const EXPORT_STEPS = 10_000

export type InspectorService = ReturnType<typeof makeInspectorService>

export function makeInspectorService(deps: SnapshotDeps) {
  const { sql, clock } = deps
  const count = makeCounts(sql, clock)
  const snapshot = makeSnapshots(deps)

  /** Draws an SVG; 400 if the machine lacks the given state or transition. */
  async function draw(
    machine: MachineName,
    { active, taken, counts, detail, style }: DrawingQuery,
    visible = EVERYTHING,
  ) {
    const definition = definitionOf(machine)
    if (active !== undefined && !definition.states.some(({ path }) => path === active))
      throw invalid('active', `${machine} has no state ${active}`)
    if (taken !== undefined && taken !== CREATED && !definition.transitions.some(({ id }) => id === taken))
      throw invalid('taken', `${machine} has no transition ${taken}`)
    return drawingOf(definition, {
      detail: detail ?? 'full',
      isStandalone: style !== 'none',
      active,
      taken,
      counts: counts === '1' ? shown(await count(machine, visibleFilter(visible))) : undefined,
    })
  }

  /** Lists live instances first, then the newest. The counts cover the same search in every state. */
  async function list(machine: MachineName, query: InstanceQuery, visible = EVERYTHING) {
    const { namespace, layer, pipeline, state } = query
    const q = query.q?.trim()
    const filter: InstanceFilter = {
      namespace,
      layer,
      pipeline,
      q: q || undefined,
      ...visibleFilter(visible),
    }
    const states = state === undefined ? null : statesWithin(definitionOf(machine), state)
    const page: Page = pageOf(query)
    const counts = await count(machine, filter)
    const matching = Object.entries(counts).filter(([path]) => states === null || states.includes(path))
    const total = matching.reduce((sum, [, { count: found }]) => sum + found, 0)
    const rows =
      page.offset < total || total === 0 ? await STORES[machine].list(sql, filter, states, page) : []
    return {
      instances: rows.map(listed),
      total: Math.max(total, Math.min(rows.length, 1) * (page.offset + rows.length)),
      total_is_exact: matching.every(([, { more }]) => !more),
      counts,
      now: clock.now().toISOString(),
      page,
    }
  }

  /** An instance with the newest steps of its history, or with the steps before `before`. */
  async function instance(machine: MachineName, id: string, query: { limit?: string; before?: string } = {}) {
    const found = await existing(machine, id)
    const requestedLimit = Number(query.limit ?? STEPS_MAX)
    const limit =
      Number.isInteger(requestedLimit) && requestedLimit > 0 ? Math.min(requestedLimit, STEPS_MAX) : STEPS_MAX
    const before = query.before === undefined ? null : Number(query.before)
    return { ...found, history: await historyOf(sql, found, { before, limit }) }
  }

  async function existing(machine: MachineName, id: string): Promise<Snapshot> {
    const found = await snapshot(machine, id)
    if (found !== null) return found
    throw notFound(`${machine} ${id} (it may have been removed by retention, or with its pipeline)`)
  }

  async function exported(machine: MachineName, id: string) {
    const found = await existing(machine, id)
    const steps = await historyOf(sql, found, { limit: EXPORT_STEPS })
    return { definition: definitionOf(machine), instance: found, history: steps }
  }

  /** Draws the statechart and highlights the state after one step, and the transition of that step. */
  async function exportedDrawing(machine: MachineName, id: string, { step }: { step?: string }) {
    const { definition, instance: found, history } = await exported(machine, id)
    const chosen =
      step === undefined
        ? history.steps.at(-1)
        : history.steps.find((candidate) => candidate.id === Number(step))
    if (step !== undefined && chosen === undefined) throw notFound(`step ${step}`)
    const at = chosen === undefined ? '' : `, step ${chosen.step} of ${history.total}`
    return drawingOf(definition, {
      detail: 'full',
      isStandalone: true,
      active: chosen?.to ?? found.state,
      taken: chosen?.transition ?? null,
      title: `${machine} ${found.namespace}.${found.layer}.${found.pipeline} ${found.id}${at}`,
    })
  }

  return {
    definitions: () => ({ machines: MACHINE_NAMES.map(definitionOf), total: MACHINE_NAMES.length }),
    draw,
    list,
    snapshot,
    instance,
    exported,
    exportedDrawing,
    after: (machine: MachineName, id: string, step: number) => stepsAfter(sql, machine, id, step),
    latestSteps: (machine: MachineName, ids: readonly string[]) => latestSteps(sql, machine, ids),
    movedSince: (last: number | null) => movedSince(sql, last),
  }
}

/** The innermost states inside a state; 400 if the machine has no such state. */
function statesWithin(definition: Definition, state: string): string[] {
  if (!definition.states.some(({ path }) => path === state))
    throw invalid('state', `must be one of ${definition.states.map(({ path }) => path).join(', ')}`)
  return leafStatesOf(definition).flatMap(({ path }) => (isWithin(path, state) ? [path] : []))
}

const shown = (counts: Counts) =>
  new Map(
    Object.entries(counts).map(([state, { count, more }]) => [
      state,
      `${count.toLocaleString('en-US')}${more ? '+' : ''}`,
    ]),
  )

const listed = ({ createdAt, movedAt, durationMs, ...row }: ListedRow): Listed => ({
  ...row,
  created_at: createdAt.toISOString(),
  moved_at: movedAt?.toISOString() ?? null,
  duration_ms: durationMs,
})

/** The part of the filter for the caller's visibility. */
const visibleFilter = ({ pipelines }: Visible): Pick<InstanceFilter, 'visiblePipelines'> =>
  pipelines === 'all' ? {} : { visiblePipelines: pipelines }
