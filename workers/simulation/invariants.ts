// The invariants of the design, each a named check of what the database says, and of what the simulated world knows: whom
// it has answered what, what the runner really did, and what was seen before.
import { pathOf, restore } from '../../machines/advance.ts'
import { draftColumns, draftMachine, newDraft } from '../../machines/draft.ts'
import {
  isTerminal,
  MAX_CONFLICTS,
  MAX_LOST_RUNNERS,
  type RunStatus,
  runColumns,
  runMachine,
} from '../../machines/run.ts'
import { triggerColumns, triggerMachine } from '../../machines/trigger.ts'
import type { Facts, RunFact } from './facts.ts'
import type { Committed } from './runner.ts'

/** What a client was told. */
export interface Acknowledged {
  runs: Set<string>
  cancelled: Set<string>
  /** By key: the run of the first answer. */
  byKey: Map<string, string>
  /** `pipeline id version` of publishes and rollbacks, each told once. */
  versions: string[]
  uploads: Set<string>
}

/** Kept between steps. */
export interface Memory {
  acknowledged: Acknowledged
  terminal: Map<string, string>
  pins: Map<string, string>
  /** By handle: the frozen files. */
  frozen: Map<string, string>
  archived: Map<string, string>
  merged: Map<string, string>
  /** By entity: the state its history has come to. */
  histories: Map<string, string>
  /** By branch: its head when it was first seen closed. */
  closedHeads: Map<string, string | null>
  /** By entity: what moved it last. */
  lastEvents: Map<string, string>
  lastTransition: number
  transitions: Set<number>
  lastFacts: Facts | null
  /** A start was under way, or paused, since the last look: what was active in between is not known. */
  isStartUncertain: boolean
}

export interface World {
  committed: readonly Committed[]
  judged: ReadonlyMap<string, { isBlocked: boolean }>
  tested: ReadonlyMap<string, (string | null)[]>
  told: ReadonlyMap<string, ReadonlySet<string>>
  archives(pipeline: string): boolean
  depthLimit: number
}

export const newMemory = (): Memory => ({
  acknowledged: {
    runs: new Set(),
    cancelled: new Set(),
    byKey: new Map(),
    versions: [],
    uploads: new Set(),
  },
  terminal: new Map(),
  pins: new Map(),
  frozen: new Map(),
  archived: new Map(),
  merged: new Map(),
  histories: new Map(),
  lastEvents: new Map(),
  closedHeads: new Map(),
  lastTransition: 0,
  transitions: new Set(),
  lastFacts: null,
  isStartUncertain: false,
})

type Check = (facts: Facts, memory: Memory, world: World, fail: (what: string) => void) => void

const handleOf = ({ run_id, attempt }: { run_id: string; attempt: number }) => `${run_id}:${attempt}`
const isEnded = ({ status }: RunFact) => isTerminal(status as RunStatus)
const of = <T>(items: readonly T[], key: (item: T) => string) => Map.groupBy(items, key)
const byId = <T extends { id: string }>(items: readonly T[]) => new Map(items.map((item) => [item.id, item]))
const bigint = Number

export const INVARIANTS: Readonly<Record<string, Check>> = {
  'histories lead to where things are'(facts, memory, _, fail) {
    for (const { id, machine, entity_id, event, from, to } of facts.transitions) {
      // A transaction that was paused commits numbers that are lower than others' since; of one entity they are in order.
      if (memory.transitions.has(id)) continue
      memory.transitions.add(id)
      memory.lastTransition = Math.max(memory.lastTransition, id)
      const before = memory.histories.get(entity_id)
      const begins = machine === 'run' ? '' : machine === 'draft' ? FIRST_DRAFT : null
      if (before !== undefined ? before !== from : begins !== null && begins !== from)
        fail(`${machine} ${entity_id}: ${event} went from ${from}, and it was ${before ?? 'new'}`)
      memory.histories.set(entity_id, to)
      memory.lastEvents.set(entity_id, event)
    }
    const stands = (machine: string, id: string, value: unknown, first: string) => {
      const told = memory.histories.get(id) ?? first
      if (told !== pathOf(value))
        fail(`${machine} ${id} is ${pathOf(value)}, and its history has come to ${told}`)
    }
    for (const run of facts.runs) stands('run', run.id, run.snapshot.value, '')
    for (const pipeline of facts.pipelines)
      stands('draft', pipeline.id, pipeline.draft_snapshot.value, FIRST_DRAFT)
    for (const trigger of facts.triggers)
      if (memory.histories.has(trigger.id)) stands('trigger', trigger.id, trigger.snapshot.value, '')
  },

  'I1 a terminal state never changes'(facts, memory, _, fail) {
    const seen = byId(facts.runs)
    for (const run of facts.runs) {
      if (!isEnded(run)) continue
      const { id, status, snapshot, attempt, base_commit, merged_commit, rows_written, error, finished_at } =
        run
      const end = JSON.stringify([
        status,
        snapshot,
        attempt,
        base_commit,
        merged_commit,
        rows_written,
        error,
        finished_at,
      ])
      const before = memory.terminal.get(id)
      if (before !== undefined && before !== end) fail(`run ${id} was ${before} and is ${end}`)
      memory.terminal.set(id, end)
    }
    for (const id of memory.terminal.keys()) if (!seen.has(id)) fail(`run ${id} had ended and is gone`)
    for (const id of memory.acknowledged.runs)
      if (!seen.has(id)) fail(`run ${id} was acknowledged and is not there`)
    for (const id of memory.acknowledged.cancelled)
      if (seen.get(id)?.status !== 'cancelled')
        fail(`run ${id} was said to be cancelled and is ${seen.get(id)?.status}`)
  },

  'I2 one run per event, due time and key'(facts, { acknowledged }, _, fail) {
    const seen = new Set<string>()
    for (const { id, trigger_id, trigger_event, schedule_id, schedule_due, trigger } of facts.runs) {
      const keys = [
        trigger_id && `trigger ${trigger_id} event ${trigger_event}`,
        schedule_id && `schedule ${schedule_id} due ${schedule_due}`,
        // Each request of a client names itself, so that one which was performed twice is seen.
        /^request-/.test(trigger) && trigger,
      ]
      for (const key of keys) {
        if (!key) continue
        if (seen.has(key)) fail(`${key} has another run: ${id}`)
        seen.add(key)
      }
    }
    const runs = byId(facts.runs)
    for (const [key, id] of acknowledged.byKey)
      if (runs.get(id)?.trigger !== `request-${key}`)
        fail(`key ${key} was answered with run ${id}, which is not its own`)
  },

  'I3 main is a sequence of commits, each one success'(facts, memory, world, fail) {
    const main = facts.refs.find(({ name }) => name === 'main')
    const { commits } = facts
    if (bigint(main?.number ?? -1) !== commits.length)
      fail(`main is at ${main?.number} with ${commits.length} commits`)
    if (commits.length > 0 && main?.head !== commits.at(-1)?.id)
      fail('the head of main is not its last commit')
    const runs = byId(facts.runs)
    const attempts = new Map(facts.attempts.map((attempt) => [handleOf(attempt), attempt]))
    commits.forEach((commit, index) => {
      if (commit.number !== index + 1) fail(`commit ${index + 1} has the number ${commit.number}`)
      const before = memory.merged.get(String(commit.number))
      if (before !== undefined && before !== commit.id)
        fail(`commit ${commit.number} was ${before} and is ${commit.id}`)
      memory.merged.set(String(commit.number), commit.id)
      const run = runs.get(commit.run_id)
      if (run?.status !== 'success' || run.merged_commit !== commit.number)
        fail(
          `commit ${commit.number} is of run ${commit.run_id}, which is ${run?.status} with ${run?.merged_commit}`,
        )
      if (run?.base_commit !== commit.base) fail(`commit ${commit.number}: its run has another base`)
      if (commit.base >= commit.number) fail(`commit ${commit.number} is based on ${commit.base}`)
      const attempt = attempts.get(`${commit.run_id}:${run?.attempt}`)
      if (attempt?.base_commit !== commit.base || attempt.branch !== commit.ref)
        fail(`commit ${commit.number} is not of the last attempt of its run`)
      const written = facts.entries.filter(({ from_commit }) => from_commit === commit.number)
      const changes = facts.branchEntries.filter(({ ref }) => ref === commit.ref)
      const told = (rows: { name: string; content_id: string }[]) =>
        rows
          .map(({ name, content_id }) => `${name}=${content_id}`)
          .sort()
          .join()
      if (told(written) !== told(changes))
        fail(`commit ${commit.number} wrote ${told(written)}, not ${told(changes)}`)
      for (const { name } of written)
        for (const other of facts.entries)
          if (other.name === name && other.from_commit > commit.base && other.from_commit < commit.number)
            fail(
              `commit ${commit.number} of base ${commit.base} wrote ${name}, which ${other.from_commit} had changed`,
            )
    })
    const numbers = new Set(commits.map(({ number }) => number))
    for (const run of facts.runs) {
      if (run.merged_commit !== null && (run.status !== 'success' || !numbers.has(run.merged_commit)))
        fail(`run ${run.id} is ${run.status} with commit ${run.merged_commit}`)
      if (run.status !== 'success' || run.merged_commit !== null) continue
      if (memory.lastEvents.get(run.id) === 'inputTaken') {
        const by = facts.files.find(({ id }) => id === run.landing_file_id)?.archived_by_run
        if (by === null || by === run.id) fail(`run ${run.id} did nothing, and its file is archived by ${by}`)
      } else if (!(world.tested.get(`${run.id}:${run.attempt}`) ?? []).includes(null))
        fail(`run ${run.id} is a success, and what it wrote is not on main`)
    }
    for (const [name, entries] of of(facts.entries, (entry) => entry.name))
      entries.forEach((entry, index) => {
        const next = entries[index + 1]
        if (entry.to_commit !== (next?.from_commit ?? null))
          fail(
            `${name} of commit ${entry.from_commit} ends at ${entry.to_commit}, not at ${next?.from_commit}`,
          )
      })
    for (const { run_id, attempt, state, name } of facts.refs) {
      const run = run_id === null ? undefined : runs.get(run_id)
      const isMerged = run?.status === 'success' && run.merged_commit !== null && run.attempt === attempt
      if (name !== 'main' && (state === 'merged') !== isMerged)
        fail(`branch ${name} is ${state}, its run ${run?.status}`)
    }
  },

  'I4 what is merged is what was tested, and passed'(facts, memory, world, fail) {
    const contentOf = new Map(world.committed.map((one) => [one.content, one]))
    const runs = byId(facts.runs)
    const blocked = new Set(facts.failedTests.map(({ run_id }) => run_id))
    for (const commit of facts.commits) {
      const judgement = world.judged.get(commit.id)
      if (judgement === undefined) fail(`commit ${commit.number} was merged, and nobody has tested it`)
      if (judgement?.isBlocked || blocked.has(commit.run_id))
        fail(`commit ${commit.number} had failed a test`)
    }
    for (const entry of facts.entries) {
      const [runId = ''] = contentOf.get(entry.content_id)?.handle.split(':') ?? []
      if (runs.get(runId)?.status !== 'success')
        fail(`main shows ${entry.name} of run ${runId}, which is no success`)
    }
    // A branch that is closed or merged is as it was: nobody can write to it any more.
    for (const { name, state, head } of facts.refs) {
      if (state === 'open') continue
      const before = memory.closedHeads.get(name)
      if (before !== undefined && before !== head) fail(`the branch ${name} is ${state} and has moved on`)
      memory.closedHeads.set(name, head)
    }
  },

  'I4 a run is judged by its own last attempt'(facts, memory, world, fail) {
    const NEEDED: Record<string, string> = {
      executionFailed: 'failed',
      executed: 'executed',
      merged: 'executed',
    }
    for (const run of facts.runs) {
      const needed = NEEDED[memory.lastEvents.get(run.id) ?? '']
      const told = world.told.get(`${run.id}:${run.attempt}`)
      if (isEnded(run) && needed !== undefined && !told?.has(needed))
        fail(
          `run ${run.id} is ${run.status}, and attempt ${run.attempt} has said ${[...(told ?? [])].join()}`,
        )
    }
  },

  'I5 a run reads its pins and its frozen files'(facts, memory, _, fail) {
    const files = byId(facts.files)
    const before = memory.lastFacts === null ? null : byId(memory.lastFacts.files)
    const runs = byId(facts.runs)
    const versions = new Map(facts.versions.map((one) => [`${one.pipeline_id} ${one.version_number}`, one]))
    for (const run of facts.runs) {
      const pins = JSON.stringify(run.pins)
      const known = memory.pins.get(run.id)
      if (known !== undefined && known !== pins) fail(`the pins of run ${run.id} have changed`)
      memory.pins.set(run.id, pins)
      const version = versions.get(`${run.pipeline_id} ${run.version_number}`)
      if (version !== undefined && sorted(version.published_versions) !== sorted(run.pins))
        fail(`run ${run.id} does not pin what version ${run.version_number} has published`)
    }
    const frozenOf = of(facts.runFiles, handleOf)
    for (const attempt of facts.attempts) {
      const handle = handleOf(attempt)
      const frozen = (frozenOf.get(handle) ?? []).map((file) => file.landing_file_id).sort()
      const known = memory.frozen.get(handle)
      if (known !== undefined) {
        if (known !== frozen.join())
          fail(`the input of attempt ${handle} was ${known} and is ${frozen.join()}`)
        continue
      }
      memory.frozen.set(handle, frozen.join())
      const run = runs.get(attempt.run_id)
      for (const id of frozen) {
        const file = files.get(id)
        if (file === undefined) continue
        if (!run?.landing_zones.includes(file.zone)) fail(`attempt ${handle} reads a file of ${file.zone}`)
        if (file.seq > attempt.landing_watermark)
          fail(`attempt ${handle} reads a file that came after its start`)
        if (file.archived_at !== null && file.archived_at < attempt.opened_at)
          fail(`attempt ${handle} reads file ${id}, which had been archived`)
      }
      if (before === null || memory.isStartUncertain) continue
      const active = [...before.values()]
        .filter(({ zone, archived_by_run }) => archived_by_run === null && run?.landing_zones.includes(zone))
        .map(({ id }) => id)
        .sort()
      if (active.join() !== frozen.join())
        fail(`attempt ${handle} reads ${frozen.join()}, active were ${active.join()}`)
    }
  },

  'I6 a file is archived once, by a success that read it'(facts, memory, world, fail) {
    const runs = byId(facts.runs)
    const readOf = of(facts.runFiles, handleOf)
    for (const file of facts.files) {
      const before = memory.archived.get(file.id)
      if (before !== undefined && before !== file.archived_by_run)
        fail(`file ${file.id} was archived by ${before} and is by ${file.archived_by_run}`)
      if (file.archived_by_run === null) continue
      memory.archived.set(file.id, file.archived_by_run)
      const run = runs.get(file.archived_by_run)
      const hasRead = (readOf.get(`${run?.id}:${run?.attempt}`) ?? []).some(
        (one) => one.landing_file_id === file.id,
      )
      if (run?.status !== 'success' || !hasRead || !world.archives(run.pipeline))
        fail(`file ${file.id} is archived by run ${run?.id}, which is ${run?.status}, read it: ${hasRead}`)
    }
    const readBy = new Map<string, string>()
    for (const run of facts.runs) {
      if (run.status !== 'success' || !world.archives(run.pipeline)) continue
      // It had an attempt that came to nothing, and found its file taken before the next.
      if (memory.lastEvents.get(run.id) === 'inputTaken') continue
      for (const { landing_file_id } of readOf.get(`${run.id}:${run.attempt}`) ?? []) {
        const key = `${run.pipeline_id} ${landing_file_id}`
        if (readBy.has(key))
          fail(`file ${landing_file_id} was read by the successes ${readBy.get(key)} and ${run.id}`)
        readBy.set(key, run.id)
      }
    }
  },

  'I7 versions are 1 to n'(facts, { acknowledged }, _, fail) {
    const versionsOf = of(facts.versions, (version) => version.pipeline_id)
    for (const pipeline of facts.pipelines) {
      const numbers = (versionsOf.get(pipeline.id) ?? []).map((version) => version.version_number)
      const last = pipeline.published_version ?? 0
      const first = Math.max(1, last - pipeline.max_versions + 1)
      const expected = Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => first + index)
      if (numbers.join() !== expected.join())
        fail(`${pipeline.name} has the versions ${numbers.join()} of ${last}`)
    }
    if (new Set(acknowledged.versions).size < acknowledged.versions.length)
      fail('a version was given to two publishes')
    const known = new Set(facts.versions.map((one) => `${one.pipeline_id} ${one.version_number}`))
    for (const version of acknowledged.versions)
      if (!known.has(version)) fail(`version ${version} was told and is not there`)
  },

  'I8 nothing is open beside what is under way'(facts, _, world, fail) {
    const runs = byId(facts.runs)
    for (const [pipeline, open] of of(
      facts.attempts.filter(({ state }) => state === 'open'),
      (attempt) => attempt.pipeline_id,
    ))
      if (open.length > 1) fail(`pipeline ${pipeline} has ${open.length} open attempts`)
    for (const [pipeline, running] of of(
      facts.runs.filter(({ status }) => status === 'running'),
      (run) => run.pipeline_id,
    ))
      if (running.length > 1) fail(`pipeline ${pipeline} has ${running.length} running runs`)
    const openOf = new Map(facts.attempts.map((attempt) => [handleOf(attempt), attempt.state === 'open']))
    for (const attempt of facts.attempts) {
      const run = runs.get(attempt.run_id)
      const mayBeOpen = run !== undefined && !isEnded(run) && !run.waiting && run.attempt === attempt.attempt
      if ((attempt.state === 'open') !== mayBeOpen)
        fail(
          `attempt ${handleOf(attempt)} is ${attempt.state}, its run ${run?.status} waiting ${run?.waiting}`,
        )
    }
    for (const { name, state, run_id, attempt } of facts.refs)
      if (name !== 'main' && (state === 'open') !== (openOf.get(`${run_id}:${attempt}`) === true))
        fail(`branch ${name} is ${state}`)
    for (const run of facts.runs) {
      if (run.chain_depth > world.depthLimit) fail(`run ${run.id} stands ${run.chain_depth} firings deep`)
      if (isEnded(run) && run.follower !== null)
        fail(`run ${run.id} has ended and is followed by ${run.follower}`)
      const { lostRunners, conflicts } = run.snapshot.context
      if (lostRunners > MAX_LOST_RUNNERS || conflicts > MAX_CONFLICTS)
        fail(`run ${run.id} has counted too far`)
    }
    const attemptsOf = of(facts.attempts, (attempt) => attempt.run_id)
    for (const run of facts.runs) {
      const numbers = (attemptsOf.get(run.id) ?? []).map(({ attempt }) => attempt)
      if (numbers.some((number, index) => number !== index + 1) || numbers.length !== run.attempt)
        fail(`run ${run.id} is at attempt ${run.attempt} and has had ${numbers.join()}`)
    }
  },

  'columns agree with snapshots'(facts, _, __, fail) {
    const differ = (what: string, columns: unknown, derived: unknown) => {
      if (JSON.stringify(columns) !== JSON.stringify(derived))
        fail(`${what} has the columns ${JSON.stringify(columns)} for ${JSON.stringify(derived)}`)
    }
    for (const { id, status, phase, attempt, waiting, snapshot } of facts.runs)
      differ(`run ${id}`, { status, phase, attempt, waiting }, runColumns(restore(runMachine, snapshot)))
    for (const { id, draft_dirty, draft_revision, draft_snapshot } of facts.pipelines)
      differ(
        `the draft of ${id}`,
        { draftDirty: draft_dirty, draftRevision: bigint(draft_revision) },
        draftColumns(restore(draftMachine, draft_snapshot)),
      )
    for (const {
      id,
      state,
      cooldown_seconds,
      cooling_until,
      last_triggered_at,
      snapshot,
    } of facts.triggers) {
      const at = (text: string | null) => (text === null ? null : new Date(text))
      differ(
        `trigger ${id}`,
        {
          state,
          cooldownSeconds: cooldown_seconds,
          coolingUntil: at(cooling_until),
          lastTriggeredAt: at(last_triggered_at),
        },
        triggerColumns(restore(triggerMachine, snapshot)),
      )
    }
  },
}

const FIRST_DRAFT = pathOf(newDraft().value)
const sorted = (pins: Record<string, string>) => JSON.stringify(Object.entries(pins).sort())

/** A violation, named as the invariant is. */
export interface Violation {
  invariant: string
  what: string
}

/** Checks everything, and remembers what later steps are compared with. */
export function check(facts: Facts, memory: Memory, world: World): Violation[] {
  const violations: Violation[] = []
  for (const [invariant, look] of Object.entries(INVARIANTS))
    look(facts, memory, world, (what) => violations.push({ invariant, what }))
  memory.lastFacts = facts
  return violations
}

/** What must be so once nothing more fails and everybody has had their turn. */
export function checkEnd(facts: Facts, memory: Memory, expected: ExpectedFiring[]): Violation[] {
  const violations: Violation[] = []
  const fail = (invariant: string, what: string) => violations.push({ invariant, what })
  for (const run of facts.runs)
    if (!isEnded(run))
      fail(
        'I1 every run ends',
        `run ${run.id} is ${run.status} ${run.phase ?? ''} (acknowledged: ${memory.acknowledged.runs.has(run.id)})`,
      )
  for (const { id, kind, tries } of facts.outbox)
    fail('I8 effects are performed', `effect ${id} ${kind} is left after ${tries} tries`)
  for (const { id } of facts.events) fail('I8 events are heard', `event ${id} is left`)
  const runs = new Set(facts.runs.map((run) => `${run.trigger_id} ${run.trigger_event}`))
  for (const { triggerId, event, what } of expected)
    if (!runs.has(`${triggerId} ${event}`))
      fail('I2 no event is lost', `${what}: no run of trigger ${triggerId}`)
  return violations
}

/** A trigger that must have fired for an event. */
export interface ExpectedFiring {
  triggerId: string
  event: string
  what: string
}
