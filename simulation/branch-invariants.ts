// Invariants of branches of users. See ADR 43.
import type { BranchEntryFact, CommitFact, EntryFact, Facts, RefFact, RunFact } from './facts.ts'
import type { Committed } from './runner.ts'

/** The tests of one merge, as the gate was asked to evaluate them. */
interface GatedMerge {
  branch: string
  /** The commit of main that the tests read. */
  commit: number
  /** `table=content` of each change of the branch, sorted. */
  changes: string
  reads: readonly string[]
  hasFailed: boolean
}

/** The observations of branches that later steps are compared with. */
export const newBranchMemory = () => ({
  /** Runs whose attempt has merged into the branch of a user. */
  mergedRuns: new Set<string>(),
  /** Branches of attempts on branches of users that were checked at their start. */
  startedAttempts: new Set<string>(),
  /** By branch of an attempt: seen as merged. */
  mergedAttempts: new Set<string>(),
  /** By open branch: the expected content of each table that runs have merged into it. */
  expected: new Map<string, Map<string, string>>(),
  /** Branches of users that were open at the last check. */
  open: new Set<string>(),
  gated: [] as GatedMerge[],
  /** Commits of main that are merges of branches, and were checked. */
  checked: new Set<string>(),
})
type BranchMemory = ReturnType<typeof newBranchMemory>

type Fail = (what: string) => void

/** Whether the branch of the run's last attempt has merged. */
export const hasMerged = ({ id, branch, merged_commit }: RunFact, { mergedRuns }: BranchMemory) =>
  branch === 'main' ? merged_commit !== null : mergedRuns.has(id)

export const listOf = (rows: readonly { name: string; content_id: string }[]) =>
  rows
    .map(({ name, content_id }) => `${name}=${content_id}`)
    .sort()
    .join()

/** No merge into a branch of a user is lost, and none overwrites a content that its run had not read. */
export function checkMergesIntoBranches(facts: Facts, memory: BranchMemory, fail: Fail): void {
  const entriesOf = Map.groupBy(facts.branchEntries, ({ ref }) => ref)
  const users = facts.refs.filter(({ kind }) => kind === 'user')
  for (const { name, state } of users) {
    const wasOpen = memory.open.has(name)
    if (state !== 'open') memory.open.delete(name)
    if (state !== 'open' || wasOpen) continue
    memory.open.add(name)
    const copied = (entriesOf.get(name) ?? []).map((entry): [string, string] => [
      entry.name,
      entry.content_id,
    ])
    memory.expected.set(name, new Map(copied))
  }
  checkStarts(facts, { entriesOf, memory }, fail)
  for (const attempt of facts.refs) {
    const { parent, run_id: runId, name } = attempt
    if (parent === null || attempt.state !== 'merged' || memory.mergedAttempts.has(name)) continue
    memory.mergedAttempts.add(name)
    if (runId !== null) memory.mergedRuns.add(runId)
    applyMerge(attempt, entriesOf.get(name) ?? [], { facts, memory, fail })
  }
  for (const { name, state } of users) {
    if (state === 'deleted') continue
    const shown = new Map((entriesOf.get(name) ?? []).map((entry) => [entry.name, entry.content_id]))
    for (const [table, content] of memory.expected.get(name) ?? [])
      if (shown.get(table) !== content)
        fail(`branch ${name} lost content ${content} of ${table}: it shows ${shown.get(table)}`)
  }
}

/** An attempt on the branch of a user starts from the tables of this branch. */
function checkStarts(
  { refs }: Facts,
  { entriesOf, memory }: { entriesOf: ReadonlyMap<string, BranchEntryFact[]>; memory: BranchMemory },
  fail: Fail,
): void {
  const tablesOf = (ref: string) => new Set((entriesOf.get(ref) ?? []).map(({ name }) => name))
  for (const { name, parent, state } of refs) {
    if (parent === null || state !== 'open' || memory.startedAttempts.has(name)) continue
    memory.startedAttempts.add(name)
    const [own, now] = [tablesOf(name), tablesOf(parent)]
    // Tables that the branch had before and has now: it also had them when the attempt started.
    for (const table of memory.expected.get(parent)?.keys() ?? [])
      if (now.has(table) && !own.has(table)) fail(`${name} started without ${table} of branch ${parent}`)
  }
}

function applyMerge(
  { parent, name }: RefFact,
  entries: readonly BranchEntryFact[],
  { facts, memory, fail }: { facts: Facts; memory: BranchMemory; fail: Fail },
): void {
  const target = facts.refs.find((ref) => ref.name === parent)
  const expected = memory.expected.get(parent ?? '')
  if (target === undefined || expected === undefined) {
    fail(`${name} merged into the absent ${parent}`)
    return
  }
  for (const { name: table, content_id, base_content } of entries) {
    const before = expected.get(table) ?? contentAt(facts.entries, table, target.base ?? 0)
    if (before !== base_content)
      fail(`${name} merged ${table}, but read ${base_content} while branch ${parent} had ${before}`)
    expected.set(table, content_id)
  }
}

/** The content of a table of main at a commit. Null: no such table, or its entry was removed by the expiry. */
const contentAt = (entries: readonly EntryFact[], table: string, commit: number): string | null =>
  entries.find(
    ({ name, from_commit, to_commit }) =>
      name === table && from_commit <= commit && (to_commit === null || to_commit > commit),
  )?.content_id ?? null

/** An unfinished run on a branch of a user can still merge. */
export function checkOpenBranches(facts: Facts, isEnded: (run: RunFact) => boolean, fail: Fail): void {
  const open = new Set(facts.refs.flatMap(({ name, state }) => (state === 'open' ? name : [])))
  for (const run of facts.runs)
    if (!isEnded(run) && !open.has(run.branch))
      fail(`run ${run.id} is ${run.status}, but its branch ${run.branch} is not open`)
}

/** Main gets contents of a branch only by a merge, with the contents and the tables that its tests read. */
export function checkUserMerge(
  commit: CommitFact,
  { facts, memory, fail }: { facts: Facts; memory: BranchMemory; fail: Fail },
): void {
  if (memory.checked.has(commit.id)) return
  memory.checked.add(commit.id)
  const written = listOf(facts.entries.filter(({ from_commit }) => from_commit === commit.number))
  const isTested = memory.gated.some(
    ({ branch, changes, reads, hasFailed, commit: tested }) =>
      !hasFailed &&
      branch === commit.ref &&
      changes === written &&
      reads.every(
        (table) =>
          contentAt(facts.entries, table, tested) === contentAt(facts.entries, table, commit.number - 1),
      ),
  )
  if (!isTested) fail(`commit ${commit.number} merged ${written} of branch ${commit.ref} without its tests`)
  const expected = [...(memory.expected.get(commit.ref) ?? [])].map(([name, content_id]) => ({
    name,
    content_id,
  }))
  if (listOf(expected) !== written)
    fail(`commit ${commit.number} merged ${written}, but branch ${commit.ref} had ${listOf(expected)}`)
}

/** Contents of runs on branches are on main only by commits without a run. */
export function checkUnmerged(
  facts: Facts,
  { committed, runs }: { committed: ReadonlyMap<string, Committed>; runs: ReadonlyMap<string, RunFact> },
  fail: Fail,
): void {
  const userMerges = new Set(facts.commits.flatMap(({ number, run_id }) => (run_id === null ? number : [])))
  for (const { content_id, from_commit, name } of facts.entries) {
    const [runId = ''] = committed.get(content_id)?.handle.split(':') ?? []
    const run = runs.get(runId)
    if (run !== undefined && run.branch !== 'main' && !userMerges.has(from_commit))
      fail(`main shows table ${name} of run ${runId} on branch ${run.branch} without a merge`)
  }
}

/** Only closed branches are removed. A kept branch ends after its time, or with its run. */
export function checkRemovedBranches(facts: Facts, before: Facts, now: number, fail: Fail): void {
  const refs = new Map(facts.refs.map((ref) => [ref.name, ref]))
  const runs = new Set(facts.runs.map(({ id }) => id))
  const entriesOf = Map.groupBy(facts.branchEntries, ({ ref }) => ref)
  const entriesBefore = Map.groupBy(before.branchEntries, ({ ref }) => ref)
  for (const { name, state, kept_until, run_id } of before.refs) {
    const ref = refs.get(name)
    if (ref === undefined && state === 'open') fail(`open branch ${name} was removed`)
    if (kept_until === null) continue
    if (ref === undefined) fail(`kept branch ${name} was removed before it was closed`)
    const isOver = Date.parse(kept_until) < now || !runs.has(run_id ?? '')
    if (ref?.kept_until === null && !isOver) fail(`kept branch ${name} was closed before ${kept_until}`)
    if (listOf(entriesOf.get(name) ?? []) !== listOf(entriesBefore.get(name) ?? []))
      fail(`kept branch ${name} has other entries`)
  }
}

/** Only the branch of a run with a failed gate is kept. */
export function checkKeptBranches(
  facts: Facts,
  judged: ReadonlyMap<string, { isBlocked: boolean }>,
  fail: Fail,
): void {
  const runs = new Map(facts.runs.map((run) => [run.id, run]))
  for (const { name, state, kept_until, head, run_id } of facts.refs) {
    if (kept_until === null) continue
    const run = runs.get(run_id ?? '')
    if (state !== 'deleted') fail(`kept branch ${name} is ${state}`)
    // A lost runner may commit once more after its tests, and nobody judges that commit.
    if (head !== null && judged.get(head)?.isBlocked === false)
      fail(`branch ${name} is kept, but passed its gate`)
    if (run !== undefined && run.status !== 'failed')
      fail(`branch ${name} is kept, but its run is ${run.status}`)
  }
}
