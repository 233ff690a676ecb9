import { LRUCache } from 'lru-cache'
import type { Sql } from '../../drizzle/client.ts'
import { pathOf } from '../../machines/advance.ts'
import { EVERYTHING } from '../core/access.ts'
import type { Clock } from '../core/clock.ts'
import { invalid, notFound } from '../core/errors.ts'
import { type Page, pageOf } from '../core/pagination.ts'
import type { ReadinessCheck } from '../health/service.ts'
import {
  CREATED,
  type Definition,
  definitionOf,
  isWithin,
  leavesOf,
  MACHINE_NAMES,
  type MachineName,
  migrated,
  transitionTaken,
} from './definitions.ts'
import { drawingOf } from './drawing.ts'
import type { Detail } from './layout.ts'
import { type RunnerState, reasonsOfDraft, reasonsOfRun, reasonsOfTrigger } from './reasons.ts'
import type { Counts, History, InstanceQuery, Listed, Snapshot, Step } from './schema.ts'
import { STEPS_MAX } from './schema.ts'
import {
  COUNT_MAX,
  COUNT_SCAN,
  countStates,
  findInstance,
  type InstanceFilter,
  type InstanceRow,
  latestSteps,
  listInstances,
  movedSince,
  type StepRow,
  seenOf,
  stepsAfter,
  stepsBefore,
} from './store.ts'

/** Counts are shared by everybody who asks within this time. */
const COUNT_MS = 1_000
const COUNTS_KEPT = 256
/** Steps of history in one answer, and in an export. */
const EXPORT_STEPS = 10_000
/** A runner that says nothing for this long is said not to answer. */
const RUNNER_MS = 1_000

export interface InspectorDeps {
  sql: Sql
  clock: Clock
  /** Whether what waits may say how much of other pipelines does: not where pipelines are hidden from some. */
  tellsOfOthers?: boolean
  /** Whether a runner answers; null: runners are switched off. */
  runner: ReadinessCheck | null
}

export interface DrawingRequest {
  active?: string
  taken?: string
  counts?: string
  detail?: Detail
  style?: 'inline' | 'none'
}

export type InspectorService = ReturnType<typeof makeInspectorService>

export function makeInspectorService({ sql, clock, tellsOfOthers = true, runner }: InspectorDeps) {
  const counted = new LRUCache<string, { at: number; counts: Promise<Counts> }>({
    max: COUNTS_KEPT,
  })
  let asked: { at: number; state: Promise<RunnerState> } | null = null

  /** An SVG; 400 naming what the machine does not have. */
  async function draw(
    machine: MachineName,
    { active, taken, counts, detail, style }: DrawingRequest,
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
      counts: counts === '1' ? shown(await count(machine, seenOf(visible))) : undefined,
    })
  }

  /** What is live comes first, then the newest. Counts are those of the same search in every state. */
  async function list(machine: MachineName, query: InstanceQuery, visible = EVERYTHING) {
    const { namespace, layer, pipeline, state } = query
    const q = query.q?.trim()
    const filter: InstanceFilter = { namespace, layer, pipeline, ...(q ? { q } : {}), ...seenOf(visible) }
    const states = state === undefined ? null : statesWithin(definitionOf(machine), state)
    const page: Page = pageOf(query)
    const counts = await count(machine, filter)
    const matching = Object.entries(counts).filter(([path]) => states === null || states.includes(path))
    const total = matching.reduce((sum, [, { count: found }]) => sum + found, 0)
    const rows =
      page.offset < total || total === 0 ? await listInstances(sql, machine, filter, states, page) : []
    return {
      instances: rows.map(listed),
      total: Math.max(total, Math.min(rows.length, 1) * (page.offset + rows.length)),
      total_is_exact: matching.every(([, { more }]) => !more),
      counts,
      now: clock.now().toISOString(),
      page,
    }
  }

  /**
   * By state, every state of the machine. Asked of the database once a second, however many ask; of who sees only some
   * instances each time, so that nobody is told the counts of another.
   */
  function count(machine: MachineName, filter: InstanceFilter): Promise<Counts> {
    if (filter.seen !== undefined) return countNow(machine, filter)
    const key = JSON.stringify([machine, filter.namespace, filter.layer, filter.pipeline, filter.q])
    const now = clock.elapsed()
    const known = counted.get(key)
    if (known !== undefined && now - known.at < COUNT_MS) return known.counts
    const counts = countNow(machine, filter)
    counted.set(key, { at: now, counts })
    counts.catch(() => counted.delete(key))
    return counts
  }

  async function countNow(machine: MachineName, filter: InstanceFilter): Promise<Counts> {
    const rows = await countStates(sql, machine, filter)
    const scanned = rows.reduce((sum, row) => sum + row.count, 0)
    const isCut = scanned >= COUNT_SCAN
    const counts: Counts = Object.fromEntries(
      leavesOf(definitionOf(machine)).map(({ path }) => [path, { count: 0, more: false }]),
    )
    for (const row of rows) {
      const isMany = machine === 'run' && row.count > COUNT_MAX
      counts[row.state] = {
        count: isMany ? COUNT_MAX : row.count,
        more: isMany || isCut || row.cut,
      }
    }
    return counts
  }

  /** An instance as it is now; null: there is none (any more). */
  async function snapshot(machine: MachineName, id: string): Promise<Snapshot | null> {
    const row = await findInstance(sql, machine, id)
    if (row === null) return null
    const stored = migrated(machine, row.machine_version, row.snapshot) ?? row.snapshot
    const state = pathOf(stored.value)
    const live = stored.status === 'active'
    const { reasons, facts } = live ? await waits(machine, row, state) : { reasons: [], facts: {} }
    return {
      machine,
      id: row.id,
      state,
      live,
      namespace: row.namespace,
      layer: row.layer,
      pipeline: row.pipeline,
      pipeline_id: row.pipeline_id,
      pipeline_deleted: row.pipeline_deleted,
      note: row.note,
      created_at: row.created_at.toISOString(),
      snapshot: stored,
      machine_version: row.machine_version,
      is_newer: row.machine_version > definitionOf(machine).version,
      facts: { ...row.facts, ...facts },
      waits_for: reasons,
      now: row.now.toISOString(),
    }
  }

  async function waits(machine: MachineName, row: InstanceRow, state: string) {
    if (row.machine_version > definitionOf(machine).version) {
      const text = 'A replica with a newer program: it wrote this instance, and this replica leaves it alone.'
      return { reasons: [{ code: 'newer_program', text, until: null, run_id: null }], facts: {} }
    }
    if (machine === 'run') return reasonsOfRun(sql, { row, state, tellsOfOthers }, askRunner)
    const reasons =
      machine === 'draft' ? reasonsOfDraft({ row, state }) : await reasonsOfTrigger(sql, { row, state })
    return { reasons, facts: {} }
  }

  function askRunner(): Promise<RunnerState> {
    if (runner === null) return Promise.resolve('off')
    const now = clock.elapsed()
    if (asked !== null && now - asked.at < COUNT_MS) return asked.state
    const signal = AbortSignal.timeout(RUNNER_MS)
    const late = new Promise<never>((_, reject) =>
      signal.addEventListener('abort', () => reject(signal.reason)),
    )
    const state = Promise.race([runner(signal), late]).then(
      (): RunnerState => 'serving',
      (): RunnerState => 'silent',
    )
    asked = { at: now, state }
    return state
  }

  /** Steps before one, or the newest. */
  async function history(
    machine: MachineName,
    of: { id: string; created_at: string; state: string },
    { before = null, limit }: { before?: number | null; limit: number },
  ): Promise<History> {
    const definition = definitionOf(machine)
    const { rows, nextAt, total, earlier, firstFrom } = await stepsBefore(
      sql,
      { machine, id: of.id },
      { before, limit },
    )
    const begins = beginsWithoutRow(definition, firstFrom)
    const steps = stepsOf(definition, rows, { earlier: earlier + begins, nextAt })
    if (begins === 1 && earlier === 0 && rows.length < limit) {
      const to = firstFrom ?? of.state
      const first = {
        id: '0',
        at: new Date(of.created_at),
        event: 'created',
        from: '',
        to,
        effects: [],
        cause: '',
      }
      const nextOf = steps[0] === undefined ? nextAt : new Date(steps[0].at)
      steps.unshift(...stepsOf(definition, [first], { earlier: 0, nextAt: nextOf }))
    }
    return { steps, total: total + begins, is_whole: firstFrom === '' || begins === 1 }
  }

  /** With its history: the steps before one, or the newest. */
  async function instance(machine: MachineName, id: string, query: { limit?: string; before?: string } = {}) {
    const known = await existing(machine, id)
    const wanted = Number(query.limit ?? STEPS_MAX)
    const limit = Number.isInteger(wanted) && wanted > 0 ? Math.min(wanted, STEPS_MAX) : STEPS_MAX
    const before = query.before === undefined ? null : Number(query.before)
    return { ...known, history: await history(machine, known, { before, limit }) }
  }

  async function existing(machine: MachineName, id: string): Promise<Snapshot> {
    const known = await snapshot(machine, id)
    if (known !== null) return known
    throw notFound(`${machine} ${id} (it may have been removed by retention, or with its pipeline)`)
  }

  async function exported(machine: MachineName, id: string) {
    const known = await existing(machine, id)
    const steps = await history(machine, known, { limit: EXPORT_STEPS })
    return { definition: definitionOf(machine), instance: known, history: steps }
  }

  /** The statechart with the state after one step lit and its transition highlighted. */
  async function exportedDrawing(machine: MachineName, id: string, { step }: { step?: string }) {
    const { definition, instance: known, history: told } = await exported(machine, id)
    const chosen = step === undefined ? told.steps.at(-1) : told.steps.find((one) => one.id === Number(step))
    if (step !== undefined && chosen === undefined) throw notFound(`step ${step}`)
    const at = chosen === undefined ? '' : `, step ${chosen.step} of ${told.total}`
    return drawingOf(definition, {
      detail: 'full',
      isStandalone: true,
      active: chosen?.to ?? known.state,
      taken: chosen?.transition ?? null,
      title: `${machine} ${known.namespace}.${known.layer}.${known.pipeline} ${known.id}${at}`,
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
    /** Steps after one, for those who follow. */
    async after(machine: MachineName, id: string, step: number): Promise<Step[]> {
      const definition = definitionOf(machine)
      const { rows, earlier, firstFrom } = await stepsAfter(sql, { machine, id }, step)
      return stepsOf(definition, rows, {
        earlier: earlier + beginsWithoutRow(definition, firstFrom),
        nextAt: null,
      })
    },
    latestSteps: (machine: MachineName, ids: readonly string[]) => latestSteps(sql, machine, ids),
    movedSince: (last: number | null) => movedSince(sql, last),
  }
}

/** 1: its creation left no row (drafts), and nothing of what came after it has been removed. */
const beginsWithoutRow = ({ machine, initial }: Definition, firstFrom: string | null): 0 | 1 =>
  machine === 'draft' && (firstFrom === null || firstFrom === initial) ? 1 : 0

function stepsOf(
  definition: Definition,
  rows: readonly StepRow[],
  { earlier, nextAt }: { earlier: number; nextAt: Date | null },
): Step[] {
  return rows.map(({ id, at, ...taken }, index) => {
    const next = rows[index + 1]?.at ?? nextAt
    return {
      id: Number(id),
      step: earlier + index + 1,
      at: at.toISOString(),
      ...taken,
      transition: transitionTaken(definition, taken),
      duration_ms: next === null ? null : Math.max(0, next.getTime() - at.getTime()),
    }
  })
}

/** The innermost states of one; 400 when the machine has no such state. */
function statesWithin(definition: Definition, state: string): string[] {
  if (!definition.states.some(({ path }) => path === state))
    throw invalid('state', `must be one of ${definition.states.map(({ path }) => path).join(', ')}`)
  return leavesOf(definition).flatMap(({ path }) => (isWithin(path, state) ? [path] : []))
}

const shown = (counts: Counts) =>
  new Map(
    Object.entries(counts).map(([state, { count, more }]) => [
      state,
      `${count.toLocaleString('en-US')}${more ? '+' : ''}`,
    ]),
  )

const listed = ({
  created_at,
  moved_at,
  duration_ms,
  ...row
}: Awaited<ReturnType<typeof listInstances>>[number]): Listed => ({
  ...row,
  created_at: created_at.toISOString(),
  moved_at: moved_at?.toISOString() ?? null,
  duration_ms: duration_ms === null ? null : Number(duration_ms),
})
