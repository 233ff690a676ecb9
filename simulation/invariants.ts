// The invariants of the design, each a named check. A check compares the facts of the database with the simulated world:
// answers to clients, the record of the runner, and earlier facts.
import { pathOf, restore } from '../machines/advance.ts'
import { draftColumns, draftMachine, newDraft } from '../machines/draft.ts'
import {
  isTerminal,
  LOST_TOGETHER_BEFORE_ALONE,
  MAX_CONFLICTS,
  MAX_LOST_ALONE,
  MAX_LOST_ENGINES,
  MAX_LOST_RUNNERS,
  type RunStatus,
  runColumns,
  runMachine,
} from '../machines/run.ts'
import { triggerColumns, triggerMachine } from '../machines/trigger.ts'
import {
  checkKeptBranches,
  checkMergesIntoBranches,
  checkOpenBranches,
  checkRemovedBranches,
  checkUnmerged,
  checkUserMerge,
  hasMerged,
  listOf,
  newBranchMemory,
} from './branch-invariants.ts'
import type { AttemptFact, Facts, RunFact, RunFileFact } from './facts.ts'
import { checkReviews, isReviewed } from './review-invariants.ts'
import type { Runner } from './runner.ts'
import type { Retention } from './scene.ts'

/** The observations that later steps are compared with. */
export const newMemory = () => ({
  /** The answers that clients got. */
  acknowledged: {
    runs: new Set<string>(),
    cancelled: new Set<string>(),
    /** By key: the run of the first answer. */
    byKey: new Map<string, string>(),
    /** `pipeline id version` of each acknowledged publish and rollback. */
    versions: [] as string[],
    uploads: new Set<string>(),
  },
  terminal: new Map<string, string>(),
  pins: new Map<string, string>(),
  /** By handle: the frozen files. */
  frozen: new Map<string, string>(),
  archived: new Map<string, string>(),
  merged: new Map<string, string>(),
  /** By entity: the last state in its history. */
  histories: new Map<string, string>(),
  /** By branch: its head when it was first seen closed. */
  closedHeads: new Map<string, string | null>(),
  /** By entity: its last event, and the state before that event. */
  lastEvents: new Map<string, string>(),
  lastFroms: new Map<string, string>(),
  /** Rows that the reaper has removed, in their last state. Later facts must still agree with them. */
  removedRows: {
    runs: new Map<string, RunFact>(),
    attempts: [] as AttemptFact[],
    runFiles: [] as RunFileFact[],
  },
  branches: newBranchMemory(),
  /** Runs that reviewers asked to approve, and the answers that they got. */
  reviews: { asked: new Set<string>(), approved: new Set<string>(), rejected: new Set<string>() },
  /** Landing files that clients have requested to delete. */
  removals: new Set<string>(),
  lastTransition: 0,
  transitions: new Set<number>(),
  lastFacts: null as Facts | null,
  /** A start was under way or paused since the last reading, so the files that were active meanwhile are unknown. */
  isStartUncertain: false,
})
export type Memory = ReturnType<typeof newMemory>

interface World {
  /** The record of the runner's real work. */
  runner: Runner
  archives(pipeline: string): boolean
  /** Null: nothing may be removed. */
  retention(): Retention | null
  /** Milliseconds by the clock of the database. */
  now(): number
  /** Returns whether the object store has a version. */
  holds(key: string, versionId: string): boolean
  depthLimit: number
}

type Check = (facts: Facts, memory: Memory, world: World, fail: (what: string) => void) => void

const handleOf = ({ run_id, attempt }: { run_id: string; attempt: number }) => `${run_id}:${attempt}`
const isEnded = ({ status }: RunFact) => isTerminal(status as RunStatus)
const groupBy = <T>(items: readonly T[], key: (item: T) => string) => Map.groupBy(items, key)
const byId = <T extends { id: string }>(items: readonly T[]) => new Map(items.map((item) => [item.id, item]))
const bigint = Number
const DAY_MS = 86_400_000
/** Stores the value of a key. Returns the earlier value if it was different. */
function changedFrom<Value>(values: Map<string, Value>, key: string, value: Value): Value | undefined {
  const before = values.get(key)
  values.set(key, value)
  return before === value ? undefined : before
}
/** Returns whether pair `a` of time and id comes after pair `b`. */
const isAfter = (a: [string | null, string], b: [string | null, string]) => {
  const [at, other] = [Date.parse(a[0] ?? ''), Date.parse(b[0] ?? '')]
  return at > other || (at === other && a[1] > b[1])
}
/** All current runs, and those that were removed after their end. */
const runsEver = (facts: Facts, { removedRows }: Memory) =>
  removedRows.runs.size === 0 ? facts.runs : [...removedRows.runs.values(), ...facts.runs]

/** The columns that never change after a run's end. */
const ENDS = [
  ...(['status', 'snapshot', 'attempt', 'base_commit', 'merged_commit'] as const),
  ...(['rows_written', 'error', 'finished_at'] as const),
]

const INVARIANTS: Readonly<Record<string, Check>> = {
  // Must be the first check, because it records the removed rows for the others.
  'retention removes only expired rows'(facts, { lastFacts: before, removedRows, removals }, world, fail) {
    for (const { id } of facts.runs)
      if (removedRows.runs.has(id)) fail(`run ${id} was removed and exists again`)
    if (before === null) return
    const retention = world.retention()
    const pipelines = byId(before.pipelines)
    const runs = byId(facts.runs)
    const removed = before.runs.filter(({ id }) => !runs.has(id))
    for (const run of removed) {
      removedRows.runs.set(run.id, run)
      if (!isEnded(run)) fail(`run ${run.id} was removed while ${run.status}`)
      if (retention === null) fail(`run ${run.id} was removed, but the reaper has no work in this seed`)
      if (retention === null || isPurgeable(pipelines.get(run.pipeline_id)?.deleted_at, retention, world))
        continue
      const others = before.runs.filter(({ pipeline_id }) => pipeline_id === run.pipeline_id)
      const newer = others.filter((one) => isAfter([one.created_at, one.id], [run.created_at, run.id])).length
      const age = world.now() - Date.parse(run.created_at)
      if (newer < retention.runs && age <= retention.runDays * DAY_MS)
        fail(`run ${run.id} was removed with ${newer} newer runs at an age of ${age} ms`)
      const isSuccess = (one: RunFact) => one.status === 'success' && one.branch === 'main'
      const isLatest = (one: RunFact) =>
        isSuccess(one) &&
        !others.some(
          (other) => isSuccess(other) && isAfter([other.finished_at, other.id], [one.finished_at, one.id]),
        )
      if (isLatest(run)) fail(`run ${run.id} was removed, but is the latest success of ${run.pipeline}`)
    }
    if (removed.length > 0) {
      removedRows.attempts.push(...before.attempts.filter(({ run_id }) => !runs.has(run_id)))
      removedRows.runFiles.push(...before.runFiles.filter(({ run_id }) => !runs.has(run_id)))
    }
    const pipelinesNow = byId(facts.pipelines)
    for (const { id, name, deleted_at } of before.pipelines)
      if (!pipelinesNow.has(id) && (retention === null || !isPurgeable(deleted_at, retention, world)))
        fail(`pipeline ${name}, deleted at ${deleted_at}, was purged too early`)
    checkRemovedBranches(facts, before, world.now(), fail)
    const files = byId(facts.files)
    for (const { id, archived_by_run } of before.files)
      if (!files.has(id) && archived_by_run === null && !removals.has(id))
        fail(`landing file ${id} was removed before any run archived it`)
  },

  'every pinned version is readable'(facts, _, world, fail) {
    const living = new Set(facts.pipelines.flatMap(({ id, deleted_at }) => (deleted_at === null ? id : [])))
    const check = (what: string, pins: Record<string, string>) => {
      for (const [key, versionId] of Object.entries(pins))
        if (!world.holds(key, versionId))
          fail(`${what} pins ${key} ${versionId}, which the store does not have`)
    }
    for (const { pipeline_id, version_number, published_versions } of facts.versions)
      if (living.has(pipeline_id)) check(`version ${version_number} of ${pipeline_id}`, published_versions)
    for (const run of facts.runs) if (!isEnded(run)) check(`run ${run.id}`, run.pins)
  },

  'run_total equals the number of runs'(facts, _, __, fail) {
    if (facts.runTotal !== facts.runs.length)
      fail(`${facts.runs.length} runs, but run_total is ${facts.runTotal}`)
  },

  'histories end in the current states'(facts, memory, _, fail) {
    for (const { id, machine, entity_id, event, from, to } of facts.transitions) {
      // A paused transaction may commit lower numbers after others have committed higher ones. The numbers of one entity are in
      // order.
      if (memory.transitions.has(id)) continue
      memory.transitions.add(id)
      memory.lastTransition = Math.max(memory.lastTransition, id)
      const before = memory.histories.get(entity_id)
      const begins = machine === 'run' ? '' : machine === 'draft' ? FIRST_DRAFT : null
      if (before !== undefined ? before !== from : begins !== null && begins !== from)
        fail(`${machine} ${entity_id}: ${event} starts in ${from}, but the state was ${before ?? 'new'}`)
      memory.histories.set(entity_id, to)
      memory.lastEvents.set(entity_id, event)
      memory.lastFroms.set(entity_id, from)
    }
    const checkState = (machine: string, id: string, value: unknown, first: string) => {
      const lastState = memory.histories.get(id) ?? first
      if (lastState !== pathOf(value))
        fail(`${machine} ${id} is ${pathOf(value)}, but its history ends in ${lastState}`)
    }
    for (const run of facts.runs) checkState('run', run.id, run.snapshot.value, '')
    for (const pipeline of facts.pipelines)
      checkState('draft', pipeline.id, pipeline.draft_snapshot.value, FIRST_DRAFT)
    for (const trigger of facts.triggers)
      if (memory.histories.has(trigger.id)) checkState('trigger', trigger.id, trigger.snapshot.value, '')
  },

  'I1 a terminal state never changes'(facts, memory, _, fail) {
    const seen = byId(runsEver(facts, memory))
    for (const run of facts.runs) {
      if (!isEnded(run)) continue
      const { id } = run
      const end = JSON.stringify(ENDS.map((column) => run[column]))
      const before = changedFrom(memory.terminal, id, end)
      if (before !== undefined) fail(`run ${id} changed after its end from ${before} to ${end}`)
    }
    for (const id of memory.terminal.keys()) if (!seen.has(id)) fail(`ended run ${id} does not exist`)
    for (const id of memory.acknowledged.runs)
      if (!seen.has(id)) fail(`acknowledged run ${id} does not exist`)
    for (const id of memory.acknowledged.cancelled)
      if (seen.get(id)?.status !== 'cancelled')
        fail(`run ${id} was acknowledged as cancelled, but is ${seen.get(id)?.status}`)
  },

  'I2 one run per event, due time and key'(facts, memory, _, fail) {
    const all = runsEver(facts, memory)
    const seen = new Set<string>()
    for (const { id, trigger_id, trigger_event, schedule_id, schedule_due, trigger } of all) {
      const keys = [
        trigger_id && `trigger ${trigger_id} event ${trigger_event}`,
        schedule_id && `schedule ${schedule_id} due ${schedule_due}`,
        // Each client request has its own name, so a request that was performed twice is noticed.
        /^request-/.test(trigger) && trigger,
      ]
      for (const key of keys) {
        if (!key) continue
        if (seen.has(key)) fail(`${key} has a second run: ${id}`)
        seen.add(key)
      }
    }
    const runs = byId(all)
    for (const [key, id] of memory.acknowledged.byKey)
      if (runs.get(id)?.trigger !== `request-${key}`)
        fail(`key ${key} was answered with run ${id} of another request`)
  },

  'no merge into a branch is lost'(facts, memory, world, fail) {
    checkMergesIntoBranches(facts, memory.branches, fail)
    checkOpenBranches(facts, isEnded, fail)
    checkKeptBranches(facts, world.runner.judged, fail)
  },

  'readers of main see no row of an unmerged branch'(facts, memory, world, fail) {
    const committed = new Map(world.runner.committed.map((one) => [one.content, one]))
    checkUnmerged(facts, { committed, runs: byId(runsEver(facts, memory)) }, fail)
  },

  'runs on branches fire no triggers'(facts, memory, _, fail) {
    const onBranches = new Set(
      runsEver(facts, memory).flatMap(({ id, branch }) => (branch === 'main' ? [] : id)),
    )
    for (const { id, trigger_event } of facts.runs)
      if (trigger_event !== null && onBranches.has(trigger_event))
        fail(`run ${id} was fired by run ${trigger_event} on a branch`)
  },

  'I3 main is a sequence of commits, each one success'(facts, memory, world, fail) {
    const main = facts.refs.find(({ name }) => name === 'main')
    const { commits } = facts
    const last = commits.at(-1)
    if (bigint(main?.number ?? -1) !== (last?.number ?? 0))
      fail(`main is at commit ${main?.number}, but its last commit is ${last?.number}`)
    if (last !== undefined && main?.head !== last.id) fail('the head of main is not its last commit')
    const runs = byId(runsEver(facts, memory))
    const attempts = new Map(
      [...memory.removedRows.attempts, ...facts.attempts].map((attempt) => [handleOf(attempt), attempt]),
    )
    const branches = new Set(facts.refs.map(({ name }) => name))
    const numbers = new Set(commits.map(({ number }) => number))
    // A forgotten commit must have been seen before, and no table of main may refer to it.
    for (let number = 1; number <= (last?.number ?? 0); number++) {
      if (numbers.has(number)) continue
      if (!memory.merged.has(String(number))) fail(`commit ${number} never existed`)
      if (facts.entries.some((one) => one.from_commit === number || one.to_commit === number))
        fail(`commit ${number} was pruned, but main refers to it`)
    }
    commits.forEach((commit) => {
      const before = changedFrom(memory.merged, String(commit.number), commit.id)
      if (before !== undefined) fail(`commit ${commit.number} changed its id from ${before} to ${commit.id}`)
      if (commit.run_id === null) {
        checkUserMerge(commit, { facts, memory: memory.branches, fail })
        return
      }
      const run = runs.get(commit.run_id)
      if (run?.branch !== 'main') fail(`commit ${commit.number} belongs to a run on branch ${run?.branch}`)
      if (run?.status !== 'success' || run.merged_commit !== commit.number)
        fail(
          `commit ${commit.number} belongs to run ${commit.run_id}, which is ${run?.status} with commit ${run?.merged_commit}`,
        )
      if (run?.base_commit !== commit.base) fail(`commit ${commit.number} and its run have different bases`)
      if (commit.base >= commit.number) fail(`commit ${commit.number} is based on ${commit.base}`)
      const attempt = attempts.get(`${commit.run_id}:${run?.attempt}`)
      if (attempt?.base_commit !== commit.base || attempt.branch !== commit.ref)
        fail(`commit ${commit.number} does not belong to the last attempt of its run`)
      const written = facts.entries.filter(({ from_commit }) => from_commit === commit.number)
      const changes = facts.branchEntries.filter(({ ref }) => ref === commit.ref)
      // The changes of a branch are removed together with the branch.
      if (branches.has(commit.ref) && listOf(written) !== listOf(changes))
        fail(`commit ${commit.number} wrote ${listOf(written)}, not ${listOf(changes)}`)
      for (const { name } of written)
        for (const other of facts.entries)
          if (other.name === name && other.from_commit > commit.base && other.from_commit < commit.number)
            fail(
              `commit ${commit.number} of base ${commit.base} wrote ${name}, which ${other.from_commit} had changed`,
            )
    })
    for (const run of facts.runs) {
      const isKnown = memory.merged.has(String(run.merged_commit))
      if (run.merged_commit !== null && (run.status !== 'success' || !isKnown))
        fail(`run ${run.id} is ${run.status} with commit ${run.merged_commit}`)
      if (run.status !== 'success' || hasMerged(run, memory.branches)) continue
      if (memory.lastEvents.get(run.id) === 'inputTaken') {
        const by = facts.files.find(({ id }) => id === run.landing_file_id)?.archived_by_run
        if (by === null || by === run.id)
          fail(`run ${run.id} skipped its work, but its file is archived by ${by}`)
      } else if (!(world.runner.tested.get(`${run.id}:${run.attempt}`) ?? []).includes(null))
        fail(`run ${run.id} succeeded, but branch ${run.branch} lacks its commit`)
    }
    for (const [name, entries] of groupBy(facts.entries, (entry) => entry.name))
      entries.forEach((entry, index) => {
        const next = entries[index + 1]
        if (entry.to_commit !== (next?.from_commit ?? null))
          fail(
            `table ${name} of commit ${entry.from_commit} ends at commit ${entry.to_commit}, not at ${next?.from_commit}`,
          )
      })
    for (const { run_id, attempt, state, name, kind } of facts.refs) {
      const run = run_id === null ? undefined : runs.get(run_id)
      const isMerged = run?.status === 'success' && hasMerged(run, memory.branches) && run.attempt === attempt
      if (kind === 'run' && (state === 'merged') !== isMerged)
        fail(`branch ${name} is ${state}, but its run is ${run?.status}`)
    }
  },

  'I4 only tested commits that passed are merged'(facts, memory, world, fail) {
    const contentOf = new Map(world.runner.committed.map((one) => [one.content, one]))
    const runs = byId(runsEver(facts, memory))
    const blocked = new Set(facts.failedTests.map(({ run_id }) => run_id))
    for (const commit of facts.commits) {
      // Merges of branches have a gate of their own.
      if (commit.run_id === null) continue
      const judgement = world.runner.judged.get(commit.id)
      if (judgement === undefined) fail(`commit ${commit.number} was merged without a test`)
      if (judgement?.isBlocked || blocked.has(commit.run_id))
        fail(`commit ${commit.number} was merged after a failed test`)
    }
    for (const entry of facts.entries) {
      const [runId = ''] = contentOf.get(entry.content_id)?.handle.split(':') ?? []
      if (runs.get(runId)?.status !== 'success')
        fail(`main shows table ${entry.name} of run ${runId}, which has not succeeded`)
    }
    // A closed or merged branch never changes, because nothing can write to it.
    for (const { name, state, head } of facts.refs) {
      if (state === 'open') memory.closedHeads.delete(name)
      if (state === 'open') continue
      if (changedFrom(memory.closedHeads, name, head) !== undefined)
        fail(`${state} branch ${name} has a new head`)
    }
  },

  'a run with a review merges once, after its approval'(facts, memory, { runner }, fail) {
    checkReviews(runsEver(facts, memory), facts, { reviews: memory.reviews, runner }, fail)
  },

  'I4 a run is judged by its own last attempt'(facts, memory, world, fail) {
    const NEEDED: Record<string, 'executed' | 'failed'> = {
      executionFailed: 'failed',
      executed: 'executed',
      merged: 'executed',
    }
    for (const run of facts.runs) {
      const needed = NEEDED[memory.lastEvents.get(run.id) ?? '']
      const results = world.runner.told.get(`${run.id}:${run.attempt}`)
      if (isEnded(run) && needed !== undefined && !results?.has(needed))
        fail(
          `run ${run.id} is ${run.status}, but attempt ${run.attempt} reported ${[...(results ?? [])].join()}`,
        )
    }
  },

  'I5 a run reads its pins and its frozen files'(facts, memory, _, fail) {
    const files = byId(facts.files)
    const before = memory.lastFacts === null ? null : byId(memory.lastFacts.files)
    const runs = byId(facts.runs)
    const versions = new Map(facts.versions.map((one) => [`${one.pipeline_id} ${one.version_number}`, one]))
    for (const run of facts.runs) {
      if (changedFrom(memory.pins, run.id, JSON.stringify(run.pins)) !== undefined)
        fail(`the pins of run ${run.id} have changed`)
      const version = versions.get(`${run.pipeline_id} ${run.version_number}`)
      if (version !== undefined && sorted(version.published_versions) !== sorted(run.pins))
        fail(`run ${run.id} does not pin the files of version ${run.version_number}`)
    }
    const frozenOf = groupBy(facts.runFiles, handleOf)
    for (const attempt of facts.attempts) {
      const handle = handleOf(attempt)
      const frozen = (frozenOf.get(handle) ?? []).map((file) => file.landing_file_id).sort()
      const frozenBefore = memory.frozen.get(handle)
      if (frozenBefore !== undefined) {
        if (frozenBefore !== frozen.join())
          fail(`the input of attempt ${handle} changed from ${frozenBefore} to ${frozen.join()}`)
        continue
      }
      memory.frozen.set(handle, frozen.join())
      const run = runs.get(attempt.run_id)
      for (const id of frozen) {
        const file = files.get(id)
        if (file === undefined) continue
        if (!run?.landing_zones.includes(file.zone)) fail(`attempt ${handle} reads a file of ${file.zone}`)
        if (file.seq > attempt.landing_watermark)
          fail(`attempt ${handle} reads a file uploaded after its start`)
        if (file.archived_at !== null && file.archived_at < attempt.opened_at)
          fail(`attempt ${handle} reads file ${id}, which had been archived`)
      }
      if (before === null || memory.isStartUncertain) continue
      const active = [...before.values()]
        .filter(({ zone, archived_by_run }) => archived_by_run === null && run?.landing_zones.includes(zone))
        .map(({ id }) => id)
        .sort()
      if (active.join() !== frozen.join())
        fail(`attempt ${handle} reads ${frozen.join()}, but the active files were ${active.join()}`)
    }
  },

  'I6 a file is archived once, by a successful run that read it'(facts, memory, world, fail) {
    const all = runsEver(facts, memory)
    const runs = byId(all)
    const readOf = groupBy([...memory.removedRows.runFiles, ...facts.runFiles], handleOf)
    for (const file of facts.files) {
      const before = memory.archived.get(file.id)
      if (before !== undefined && before !== file.archived_by_run)
        fail(`file ${file.id} was archived by ${before}, then by ${file.archived_by_run}`)
      if (file.archived_by_run === null) continue
      memory.archived.set(file.id, file.archived_by_run)
      const run = runs.get(file.archived_by_run)
      const hasRead = (readOf.get(`${run?.id}:${run?.attempt}`) ?? []).some(
        (one) => one.landing_file_id === file.id,
      )
      const isOnMain = run?.branch === 'main'
      if (run?.status !== 'success' || !isOnMain || !hasRead || !world.archives(run.pipeline))
        fail(`file ${file.id} is archived by run ${run?.id}, which is ${run?.status}, read it: ${hasRead}`)
    }
    const readBy = new Map<string, string>()
    for (const run of all) {
      if (run.status !== 'success' || run.branch !== 'main' || !world.archives(run.pipeline)) continue
      // An attempt of the run came to nothing, and another run took its file before the next attempt.
      if (memory.lastEvents.get(run.id) === 'inputTaken') continue
      for (const { landing_file_id } of readOf.get(`${run.id}:${run.attempt}`) ?? []) {
        const key = `${run.pipeline_id} ${landing_file_id}`
        if (readBy.has(key))
          fail(`file ${landing_file_id} was read by two successful runs: ${readBy.get(key)} and ${run.id}`)
        readBy.set(key, run.id)
      }
    }
  },

  'I7 versions are 1 to n'(facts, { acknowledged }, _, fail) {
    const versionsOf = groupBy(facts.versions, (version) => version.pipeline_id)
    for (const pipeline of facts.pipelines) {
      const numbers = (versionsOf.get(pipeline.id) ?? []).map((version) => version.version_number)
      const last = pipeline.published_version ?? 0
      const first = Math.max(1, last - pipeline.max_versions + 1)
      const expected = Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => first + index)
      if (numbers.join() !== expected.join())
        fail(`${pipeline.name} has the versions ${numbers.join()} up to ${last}`)
    }
    if (new Set(acknowledged.versions).size < acknowledged.versions.length)
      fail('two publishes got the same version')
    const knownVersions = new Set(facts.versions.map((one) => `${one.pipeline_id} ${one.version_number}`))
    for (const version of acknowledged.versions)
      if (!knownVersions.has(version)) fail(`acknowledged version ${version} does not exist`)
  },

  'I8 failed executions are retried up to the limit of the pipeline'(facts, memory, world, fail) {
    for (const run of facts.runs) {
      const { retries } = run.snapshot.context
      const allowed = world.runner.retries.get(run.id)?.max ?? 0
      if (retries > allowed) fail(`run ${run.id} had ${retries} retries of ${allowed}`)
      // A run that could not be submitted, or was stopped, is not tried again.
      const isGivenUp =
        run.status === 'failed' &&
        memory.lastEvents.get(run.id) === 'executionFailed' &&
        memory.lastFroms.get(run.id) !== 'pending.starting' &&
        !world.runner.stopped.has(handleOf({ run_id: run.id, attempt: run.attempt }))
      if (isGivenUp && retries < allowed)
        fail(`run ${run.id} has failed after ${retries} of ${allowed} retries`)
    }
  },

  'I8 only active runs have open attempts and branches'(facts, _, world, fail) {
    const runs = byId(facts.runs)
    const atMostOne = (what: string, items: readonly { pipeline_id: string; on: string }[]) => {
      for (const [pipeline, all] of groupBy(items, (item) => `${item.pipeline_id} on ${item.on}`))
        if (all.length > 1) fail(`pipeline ${pipeline} has ${all.length} ${what}`)
    }
    const open = facts.attempts.filter(({ state }) => state === 'open')
    atMostOne(
      'open attempts',
      open.map((attempt) => ({ ...attempt, on: attempt.run_branch })),
    )
    atMostOne(
      'running runs',
      facts.runs
        .filter((run) => run.status === 'running' && !isReviewed(run))
        .map((run) => ({ ...run, on: run.branch })),
    )
    const reviewed = facts.runs.filter(({ phase }) => phase === 'review')
    const openHandles = new Set([
      ...open.map(handleOf),
      ...reviewed.map(({ id, attempt }) => handleOf({ run_id: id, attempt })),
    ])
    for (const attempt of facts.attempts) {
      const run = runs.get(attempt.run_id)
      const isWorking = run !== undefined && !isEnded(run) && !run.waiting && run.phase !== 'review'
      const mayBeOpen = isWorking && run.attempt === attempt.attempt
      if ((attempt.state === 'open') !== mayBeOpen)
        fail(
          `attempt ${handleOf(attempt)} is ${attempt.state}, but its run is ${run?.status} (waiting: ${run?.waiting})`,
        )
    }
    for (const { name, kind, state, run_id, attempt } of facts.refs)
      if (kind === 'run' && (state === 'open') !== openHandles.has(`${run_id}:${attempt}`))
        fail(`branch ${name} is ${state}, unlike its attempt`)
    for (const run of facts.runs) {
      if (run.chain_depth > world.depthLimit)
        fail(`run ${run.id} exceeds the chain limit with depth ${run.chain_depth}`)
      if (isEnded(run) && run.follower !== null) fail(`ended run ${run.id} has the follower ${run.follower}`)
      const { lostRunners, lostAlone, lostTogether, lostEngines, conflicts } = run.snapshot.context
      // The count includes the loss that fails the run.
      const last = isEnded(run) ? 1 : 0
      if (
        lostRunners > MAX_LOST_RUNNERS + last ||
        lostAlone > MAX_LOST_ALONE - 1 + last ||
        lostTogether > LOST_TOGETHER_BEFORE_ALONE ||
        lostEngines > MAX_LOST_ENGINES + last ||
        conflicts > MAX_CONFLICTS
      )
        fail(`run ${run.id} exceeds a limit of losses or conflicts`)
      const { runners, engines } = world.runner.losses.get(run.id) ?? { runners: 0, engines: 0 }
      if (lostAlone + lostTogether > runners)
        fail(
          `run ${run.id} counts ${lostAlone + lostTogether} runners lost while executing, but lost ${runners}`,
        )
      if (lostEngines > engines) fail(`run ${run.id} counts ${lostEngines} lost engines, but lost ${engines}`)
    }
    const attemptsOf = groupBy(facts.attempts, (attempt) => attempt.run_id)
    for (const run of facts.runs) {
      const numbers = (attemptsOf.get(run.id) ?? []).map(({ attempt }) => attempt)
      if (numbers.some((number, index) => number !== index + 1) || numbers.length !== run.attempt)
        fail(`run ${run.id} is at attempt ${run.attempt}, but has the attempts ${numbers.join()}`)
    }
  },

  'derived columns equal their snapshots'(facts, _, __, fail) {
    const differ = (what: string, columns: unknown, derived: unknown) => {
      if (JSON.stringify(columns) !== JSON.stringify(derived))
        fail(`${what} has the columns ${JSON.stringify(columns)} instead of ${JSON.stringify(derived)}`)
    }
    for (const { id, status, phase, attempt, waiting, snapshot } of facts.runs)
      differ(`run ${id}`, { status, phase, attempt, waiting }, runColumns(restore(runMachine, snapshot)))
    for (const { id, draft_dirty, draft_revision, draft_snapshot } of facts.pipelines)
      differ(
        `the draft of ${id}`,
        { draftDirty: draft_dirty, draftRevision: bigint(draft_revision) },
        draftColumns(restore(draftMachine, draft_snapshot)),
      )
    const at = (text: string | null) => (text === null ? null : new Date(text))
    for (const { id, state, snapshot, ...trigger } of facts.triggers) {
      const coolingUntil = at(trigger.cooling_until)
      const lastTriggeredAt = at(trigger.last_triggered_at)
      differ(
        `trigger ${id}`,
        { state, cooldownSeconds: trigger.cooldown_seconds, coolingUntil, lastTriggeredAt },
        triggerColumns(restore(triggerMachine, snapshot)),
      )
    }
  },
}

/** Returns whether a pipeline was deleted long enough ago to be purged. */
const isPurgeable = (deletedAt: string | null | undefined, { deletedDays }: Retention, world: World) =>
  deletedAt != null && Date.parse(deletedAt) <= world.now() - deletedDays * DAY_MS

const FIRST_DRAFT = pathOf(newDraft().value)
const sorted = (pins: Record<string, string>) => JSON.stringify(Object.entries(pins).sort())

/** A violation with the name of its invariant. */
export interface Violation {
  invariant: string
  what: string
}

/** Checks everything, and stores the facts for comparison with later steps. */
export function check(facts: Facts, memory: Memory, world: World): Violation[] {
  const violations: Violation[] = []
  for (const [invariant, checkInvariant] of Object.entries(INVARIANTS))
    checkInvariant(facts, memory, world, (what) => violations.push({ invariant, what }))
  memory.lastFacts = facts
  return violations
}

/** Checks the state after all faults have stopped and all work had its turn. */
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
    fail('I8 effects are performed', `effect ${id} ${kind} is not performed after ${tries} tries`)
  for (const { id } of facts.events) fail('I8 events are consumed', `event ${id} is not consumed`)
  const runs = new Set(runsEver(facts, memory).map((run) => `${run.trigger_id} ${run.trigger_event}`))
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
