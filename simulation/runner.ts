// The runner of a simulation. Attempts progress step by step, and a reboot may end all of them. A record of the real work is
// compared with the database.

import type { NewId, RunId } from '../app/core/ids.ts'
import type { Outcome, TestResult } from '../app/runs/outcome.ts'
import { handleOf, type OpenAttempt } from '../app/runs/service.ts'
import { commitToBranch, findBranch } from '../app/versions/store/branches.ts'
import type { Sql } from '../drizzle/client.ts'
import type { Random } from './random.ts'

type Stage = 'accepted' | 'executing' | 'committed' | 'testing' | 'done' | 'stopped'

export interface Execution {
  handle: string
  runId: RunId
  attempt: number
  boot: string
  stage: Stage
  request: OpenAttempt
  /** The planned result of the attempt. */
  plan: {
    writes: 'own' | 'shared' | 'nothing'
    /** `deadly`: the runner dies with the attempt. `killed`: its engine is killed from outside. */
    ends: 'well' | 'badly' | 'deadly' | 'killed'
    isBlocked: boolean
    isWarned: boolean
    /** The hours for which the pipeline keeps the branch of a run with a failed gate. */
    keepHours: number
    /** The retry setting of the pipeline. */
    retry: Retry | undefined
    /** Undefined: the pipeline merges without a review. */
    review: Extract<Outcome, { kind: 'executed' }>['review']
  }
  /** The latest commit to its branch, as far as the attempt knows. */
  head: string | null
  tested: string | null
  facts: Outcome | null
}

/** The origin of a table's content. Content of a failed run must not appear on main. */
export interface Committed {
  commit: string
  content: string
  handle: string
}

interface Retry {
  max: number
  delaySeconds: number
}

export type Runner = ReturnType<typeof makeRunner>

const SLOTS = 3

export function makeRunner({ random, newId }: { random: Random; newId: NewId }) {
  let boot = newId()
  let attempts = new Map<string, Execution>()
  /** Attempts that keep working after a reboot of their runner; no follower listens to them. */
  const zombies: Execution[] = []
  /** By run: how often its runner died while executing the run, and how often its engine was killed. */
  const losses = new Map<string, { runners: number; engines: number }>()
  const lossesOf = (runId: string) => {
    const counts = losses.get(runId) ?? { runners: 0, engines: 0 }
    losses.set(runId, counts)
    return counts
  }
  /** In every other seed most attempts write the same table, so that attempts on one branch conflict. */
  const sharedWeight = random.pick([3, 14])
  const committed: Committed[] = []
  /** Tested commits, and whether their tests blocked the merge. */
  const judged = new Map<string, { isBlocked: boolean }>()
  /**
   * By handle: the commits that its executions have tested; null: no change. A restarted runner may execute an attempt again.
   */
  const tested = new Map<string, (string | null)[]>()
  /** By handle: the results that its executions have reported to followers. */
  const told = new Map<string, Set<'executed' | 'failed'>>()
  /** By run: the retry setting in its pinned version, the same for all its attempts. */
  const retries = new Map<string, Retry | undefined>()
  const retryOf = (runId: string): Retry | undefined => {
    if (!retries.has(runId))
      retries.set(
        runId,
        random.chance(0.5) ? { max: random.int(0, 2), delaySeconds: random.pick([0, 0, 3, 30]) } : undefined,
      )
    return retries.get(runId)
  }
  /** By run: the hours that its review may take; undefined: it merges without a review. */
  const reviews = new Map<string, number | undefined>()
  /** By handle: the fingerprints of the changes that its executions proposed. */
  const changes = new Map<string, Set<string>>()
  const reviewOf = (runId: string, handle: string): Execution['plan']['review'] => {
    if (!reviews.has(runId)) reviews.set(runId, random.chance(0.3) ? random.pick([1, 72]) : undefined)
    const timeoutHours = reviews.get(runId)
    if (timeoutHours === undefined) return undefined
    const change = random.pick(['usual', 'usual', 'other'])
    changes.set(handle, (changes.get(handle) ?? new Set()).add(change))
    return { change, timeoutHours, isFourEyes: false }
  }
  /** Handles of stopped attempts; they fail whatever the retry setting is. */
  const stopped = new Set<string>()
  const recordResult = (handle: string, what: 'executed' | 'failed') =>
    told.set(handle, (told.get(handle) ?? new Set()).add(what))

  const busy = () => [...attempts.values()].filter(({ stage }) => stage !== 'done' && stage !== 'stopped')
  const mustWait = ({ request, stage, handle }: Execution) =>
    request.isAlone && stage === 'accepted' && busy().some((other) => other.handle !== handle)

  return {
    url: 'http://runner',
    get boot() {
      return boot
    },
    committed,
    judged,
    tested,
    told,
    retries,
    reviews,
    changes,
    stopped,
    zombies,
    losses,
    /** Attempts that have ended and are still remembered. */
    ended: () => [...attempts.values()].filter(({ stage }) => stage === 'done'),
    /** Attempts that can progress. */
    working: () => [...busy().filter((execution) => !mustWait(execution)), ...zombies],
    at: (handle: string) => attempts.get(handle) ?? null,

    /** Idempotent by handle, like SubmitPipeline. */
    submit(request: OpenAttempt, isFair: boolean): { boot: string } | 'noRoom' {
      const handle = handleOf(request.runId, request.attempt)
      if (attempts.has(handle)) return { boot }
      if (busy().length >= SLOTS || busy().some((other) => other.request.isAlone)) return 'noRoom'
      attempts.set(handle, {
        handle,
        runId: request.runId,
        attempt: request.attempt,
        boot,
        stage: 'accepted',
        request,
        plan: {
          writes: random.weighted({ own: 6, shared: sharedWeight, nothing: 1 }),
          ends:
            isFair || random.chance(0.8)
              ? 'well'
              : random.pick(['badly', 'badly', 'badly', 'killed', 'deadly']),
          isBlocked: !isFair && random.chance(0.12),
          isWarned: random.chance(0.1),
          keepHours: random.pick([0, 0.01, 24]),
          retry: retryOf(request.runId),
          review: reviewOf(request.runId, handle),
        },
        head: null,
        tested: null,
        facts: null,
      })
      return { boot }
    },

    cancel(handle: string) {
      const execution = attempts.get(handle)
      if (execution === undefined || execution.stage === 'done') return
      execution.stage = 'stopped'
      stopped.add(handle)
      recordResult(handle, 'failed')
    },

    /** Replaces the process. Some of its attempts may keep committing to the catalog. */
    reboot() {
      for (const { runId, stage } of attempts.values()) if (stage !== 'accepted') lossesOf(runId).runners += 1
      for (const execution of attempts.values())
        if (execution.stage !== 'done' && random.chance(0.5)) zombies.push(execution)
      attempts = new Map()
      boot = newId()
    },

    /** Performs one step of an attempt. Commits go through the API process of `sql`. */
    async progress(execution: Execution, sql: Sql, archives: (pipeline: string) => boolean): Promise<string> {
      switch (execution.stage) {
        case 'accepted':
          execution.stage = 'executing'
          return 'executes'
        case 'executing': {
          if (execution.plan.ends === 'deadly' && !zombies.includes(execution)) {
            this.reboot()
            return 'ends its runner'
          }
          if (execution.plan.ends === 'killed') {
            const { runId, attempt } = execution
            lossesOf(runId).engines += 1
            execution.facts = { runId, attempt, kind: 'engineLost', why: 'engine process ended (SIGKILL)' }
            execution.stage = 'done'
            return 'loses its engine'
          }
          if (execution.plan.ends === 'badly') {
            fail(execution)
            return 'fails'
          }
          if (execution.plan.writes !== 'nothing' && !(await commit(execution, sql))) {
            fail(execution)
            return 'fails to commit'
          }
          execution.stage = 'committed'
          return 'commits'
        }
        case 'committed':
          execution.tested = execution.head
          if (execution.head !== null) judged.set(execution.head, { isBlocked: execution.plan.isBlocked })
          tested.set(execution.handle, [...(tested.get(execution.handle) ?? []), execution.head])
          execution.stage = 'testing'
          return 'tests'
        case 'testing':
          execution.facts = executed(execution, archives(execution.request.pipeline))
          recordResult(execution.handle, 'executed')
          execution.stage = 'done'
          return 'is done'
        default:
          return 'waits'
      }
    },

    /** Commits to the branch again, after the tests or after the end of the attempt. */
    async meddle(execution: Execution, sql: Sql) {
      return commit(execution, sql)
    },
  }

  function fail(execution: Execution) {
    execution.facts = failed(execution)
    execution.stage = 'done'
    recordResult(execution.handle, 'failed')
  }

  async function commit(execution: Execution, sql: Sql): Promise<boolean> {
    const { request, plan } = execution
    const id = newId()
    const contentId = newId()
    // Recorded before the try, because a commit whose answer is lost may exist.
    committed.push({ commit: id, content: contentId, handle: execution.handle })
    const isDone = await commitToBranch(sql, {
      id,
      branch: request.branch,
      head: (await findBranch(sql, request.branch))?.head ?? null,
      table: {
        namespace: request.namespace,
        layer: 'gold',
        name: plan.writes === 'shared' ? 'shared' : request.pipeline,
      },
      tableUuid: newId(),
      snapshotId: '1',
      message: execution.handle,
      content: {
        kind: 'table',
        contentId,
        metadataLocation: `s3://sluice/${contentId}`,
        columns: [{ name: 'a', type: 'BIGINT' }],
        rowCount: 1,
        sizeBytes: 100,
      },
    })
    if (isDone) execution.head = id
    return isDone
  }
}

const failed = ({ runId, attempt, plan }: Execution): Outcome => ({
  runId,
  attempt,
  kind: 'failed',
  error: 'executing: the plan of the seed',
  retry: plan.retry,
})

function executed(execution: Execution, archivesLandingZones: boolean): Outcome {
  const { runId, attempt, request, plan, tested } = execution
  const test = (name: string, severity: TestResult['severity'], isPassed: boolean): TestResult => ({
    name,
    severity,
    isPassed,
    value: isPassed ? 0 : 3,
    durationMs: 1,
    error: null,
  })
  return {
    runId,
    attempt,
    kind: 'executed',
    testedCommit: tested,
    rowsWritten: tested === null ? 0 : 1,
    tests: [test('strict', 'error', !plan.isBlocked), test('mild', 'warn', !plan.isWarned)],
    inputTables: [],
    landingFileIds: request.landing.flatMap(({ files }) => files.map(({ id }) => id)),
    archivesLandingZones,
    keepFailedHours: plan.keepHours,
    review: plan.review,
  }
}
