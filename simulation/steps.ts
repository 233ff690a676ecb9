// The steps of all parts of a simulated world, and how often each is chosen.

import type { Clock } from '../app/core/clock.ts'
import type { RunId } from '../app/core/ids.ts'
import { formWith } from '../app/http/test-form.ts'
import type { Outcome } from '../app/runs/outcome.ts'
import { handleOf, seqOfRunner } from '../app/runs/service.ts'
import { inTransaction, type Sql } from '../drizzle/client.ts'
import { LEADER_LEASE_MS } from '../workers/leadership/leadership.ts'
import { beginEpoch, currentLeader, renewLease } from '../workers/leadership/store.ts'
import { BRANCH_STEPS, drawTarget, mergeableBranches } from './branch-steps.ts'
import type { Memory } from './invariants.ts'
import type { Mutation } from './mutations.ts'
import type { Random } from './random.ts'
import type { Duty, Followed, Replica, Role } from './replica.ts'
import { REVIEW_STEPS, reviewedRuns } from './review-steps.ts'
import type { Execution, Runner } from './runner.ts'
import type { Retention } from './scene.ts'

const DUTY_WEIGHTS: Readonly<Record<Duty, number>> = {
  logs: 1,
  runs: 4,
  'quality results': 1,
  'deleted pipelines': 3,
  'archived landing files': 1,
  'landing files to move': 1,
  'idempotency keys': 1,
  'lake branches': 3,
}

/** One operation of a replica, or of the world around the replicas if `replica` is null. */
export interface Step {
  title: string
  replica: Replica | null
  operation(): Promise<unknown>
  /** Called with the answer. */
  done?(value: unknown): void
  failed?(error: unknown): void
  /** Called after any end of the operation. */
  end?(): void
  /** The operation may open attempts. */
  mayStart?: boolean
}

export interface Stage {
  random: Random
  runner: Runner
  replicas: Replica[]
  memory: Memory
  /** The share of requests that name a branch of a user. */
  branchShare: number
  clock: Clock
  /** True when no more faults happen. */
  isFair: boolean
  /** Pipelines by name, with their ids as clients know them. */
  names: Map<string, string>
  /** Triggers that clients enable and disable. */
  triggers: { pipeline: string; id: string }[]
  webhooks: string[]
  reported: Outcome[]
  uploads: string[]
  requests: number
  /** Idempotency keys, and the time of their first use. */
  keys: Map<number, number>
  /** Executions that an operation under way uses. */
  busy: Set<Execution>
  archiving: Set<string>
  admin: Sql
  endBackends(pids: readonly number[]): Promise<void>
  advance(ms: number): Promise<void>
  restart(place: number): Promise<void>
  paused: { step: Step; title: string; left: number } | null
  /** Triggers that clients never change. At the end, each of their events must have its run. */
  expected: { triggerId: string; source: string }[]
  /** Null: the settings keep so much that the reaper finds nothing. */
  retention: Retention | null
  mutation: Mutation
}

const NAMESPACE = 'default'
const LAYER = 'gold'
const refOf = (name: string) => ({ namespace: NAMESPACE, layer: LAYER, name })
/** Clients create and delete this pipeline. */
const PASSING = 'passing'

const EFFECTS = ['cancelAttempt', 'pipelineDeleted', 'archivedInputs', 'movedObject'] as const

/** A step of the chosen replica; with a null `replica`, of the world around it. */
type Move = Omit<Step, 'replica'> & { replica?: null }
type Make = (stage: Stage, replica: Replica) => Move | null

const WEIGHTS = {
  request: 9,
  requestWithKey: 4,
  cancel: 3,
  write: 3,
  publish: 4,
  rollback: 1.5,
  upload: 7,
  removeFile: 1,
  create: 1.5,
  remove: 1.5,
  webhook: 4,
  toggle: 2,
  openBranch: 4,
  mergeBranch: 4,
  rebaseBranch: 1,
  deleteBranch: 0.7,
  approve: 3,
  reject: 1,
  expireReviews: 1,
  start: 16,
  observe: 28,
  apply: 20,
  live: 7,
  effect: 8,
  progress: 30,
  meddle: 2,
  reboot: 1.2,
  replay: 3,
  lead: 9,
  hear: 8,
  keepTime: 3,
  sweep: 2,
  schedule: 4,
  stuck: 1.5,
  clock: 16,
  stop: 0.7,
  reap: 0,
}
type Name = keyof typeof WEIGHTS

/** Weights for seeds in which the reaper has work. */
const WEIGHTS_OF_REAPING = { ...WEIGHTS, create: 5, remove: 5, reap: 40 }

/** Weights for seeds with most runs on branches: several runs of one branch execute at once, one after the other merges. */
const WEIGHTS_OF_BRANCHES: Partial<Record<Name, number>> = {
  request: 25,
  cancel: 1,
  publish: 1,
  upload: 1,
  openBranch: 2,
  mergeBranch: 2,
  rebaseBranch: 1,
  deleteBranch: 0.3,
  start: 25,
  observe: 50,
  progress: 50,
  apply: 30,
  live: 3,
  meddle: 1,
  reboot: 0.5,
  replay: 1,
  clock: 6,
}
/** From this share of requests on branches, a seed has these weights. */
const MOSTLY_ON_BRANCHES = 0.5

/** Weights of steps that lock contended rows. */
const RIVALS: Partial<Record<Name, number>> = {
  cancel: 3,
  apply: 4,
  start: 2,
  hear: 2,
  live: 1,
  publish: 1,
  mergeBranch: 2,
  approve: 3,
  reject: 1,
  lead: 2,
  reap: 1,
  clock: 1,
}

const MAKERS: Record<Name, Make> = {
  ...BRANCH_STEPS,
  ...REVIEW_STEPS,

  request: (stage, replica) => requestOf(stage, replica, drawTarget(stage)),

  requestWithKey(stage, replica) {
    const { byKey } = stage.memory.acknowledged
    const now = stage.clock.now().getTime()
    // A day after its first use, a key counts as new.
    const usedKeys = [...stage.keys].filter(([, first]) => now - first < 23 * 3_600_000).map(([key]) => key)
    const key =
      usedKeys.length > 0 && stage.random.chance(0.6) ? stage.random.pick(usedKeys) : ++stage.requests
    if (!stage.keys.has(key)) stage.keys.set(key, now)
    const pipeline = `${['first', 'second', 'third'][key % 3]}`
    return {
      title: `a client requests a run of ${pipeline} with key ${key}`,
      operation: () =>
        replica.runs.request(
          { ...pipelineRef(pipeline), trigger: `request-key-${key}` },
          { caller: '', operation: 'POST /api/v1/runs', key: String(key), requestHash: pipeline },
        ),
      done(value) {
        const run = runOf(value)
        const first = byKey.get(`key-${key}`)
        // Two different runs for one key are joined here, so that the check fails.
        byKey.set(`key-${key}`, first !== undefined && first !== run ? `${first} and ${run}` : run)
        stage.memory.acknowledged.runs.add(run)
      },
    }
  },

  cancel(stage, replica) {
    const all = stage.memory.lastFacts?.runs ?? []
    if (all.length === 0) return null
    const active = all.filter(({ status }) => status === 'pending' || status === 'running')
    const { id } = stage.random.pick(active.length > 0 && stage.random.chance(0.8) ? active : all)
    return {
      title: `a client cancels run ${id}`,
      operation: () => replica.runs.cancel(id),
      done: () => void stage.memory.acknowledged.cancelled.add(id),
    }
  },

  write(stage, replica) {
    const pipeline = stage.random.pick([...stage.names.keys()])
    const file = stage.random.pick(['pipeline.sql', 'tests/quality/mild.sql', 'notes.md'])
    const path = `${NAMESPACE}/pipelines/${LAYER}/${pipeline}/${file}`
    // The new source still reads the zone.
    const reads = pipeline === 'first' ? `from read_csv_auto('{{ landing_zone("inbox") }}')` : ''
    return {
      title: `a client writes ${file} of ${pipeline}`,
      operation: () => replica.files.write(path, `select ${stage.random.int(1, 99)} as a ${reads}`),
    }
  },

  publish(stage, replica) {
    const pipeline = stage.random.pick([...stage.names.keys()])
    return {
      title: `a client publishes ${pipeline}`,
      operation: () => replica.pipelines.publish(refOf(pipeline), 'again'),
      done(value) {
        const { kind, body } = value as { kind: string; body: { version: number } }
        const id = stage.names.get(pipeline)
        if (kind === 'published') recordVersion(stage, id, body.version)
      },
    }
  },

  rollback(stage, replica) {
    const pipeline = stage.random.pick([...stage.names.keys()])
    const version = stage.random.int(1, 3)
    return {
      title: `a client rolls ${pipeline} back to version ${version}`,
      operation: () => replica.pipelines.rollback(refOf(pipeline), { version }),
      done: (value) =>
        recordVersion(stage, stage.names.get(pipeline), (value as { new_version: number }).new_version),
    }
  },

  upload(stage, replica) {
    const name = stage.random.pick(['a.csv', 'b.csv', 'c.json'])
    return {
      title: `a client uploads ${name}`,
      operation: () =>
        replica.zones.upload({ namespace: NAMESPACE, name: 'inbox' }, formWith(new File(['x'], name))),
      done(value) {
        const { id } = value as { id: string }
        stage.uploads.push(id)
        stage.memory.acknowledged.uploads.add(id)
      },
    }
  },

  removeFile(stage, replica) {
    if (stage.uploads.length === 0) return null
    const id = stage.random.pick(stage.uploads)
    stage.memory.removals.add(id)
    return {
      title: `a client deletes file ${id}`,
      operation: () => replica.zones.removeFile({ namespace: NAMESPACE, name: 'inbox' }, id),
    }
  },

  create(stage, replica) {
    return {
      title: `a client creates ${PASSING}`,
      operation: () => replica.pipelines.create({ ...refOf(PASSING), layer: LAYER }),
      done: (value) => void stage.names.set(PASSING, (value as { id: string }).id),
    }
  },

  remove(stage, replica) {
    return {
      title: `a client deletes ${PASSING}`,
      operation: () => replica.pipelines.remove(refOf(PASSING)),
      done: () => void stage.names.delete(PASSING),
    }
  },

  webhook(stage, replica) {
    const token = stage.random.pick(stage.webhooks)
    return {
      title: 'a webhook is called',
      operation: () => replica.webhooks.call(token),
      done: (value) => void stage.memory.acknowledged.runs.add(runOf(value)),
    }
  },

  toggle(stage, replica) {
    const { pipeline, id } = stage.random.pick(stage.triggers)
    const change = stage.random.pick([
      { enabled: false },
      { enabled: true },
      { cooldown_seconds: stage.random.pick([0, 5, 600]) },
    ])
    return {
      title: `a client changes trigger ${id}: ${JSON.stringify(change)}`,
      operation: async () => void (await replica.triggers.update(refOf(pipeline), id, change)),
    }
  },

  start(stage, replica) {
    const slotUrls = Array.from({ length: stage.random.int(1, 4) }, () => stage.runner.url)
    return {
      title: `start runs in ${slotUrls.length} slots`,
      operation: () => replica.start(slotUrls),
      mayStart: true,
    }
  },

  observe(stage, replica) {
    const followed = [...replica.following.values()]
    if (followed.length === 0) return null
    return observation(stage, replica, stage.random.pick(followed))
  },

  apply(_, replica) {
    if (replica.queue.isEmpty()) return null
    return { title: 'apply outcomes', operation: () => replica.apply() }
  },

  live: (_, replica) => ({ title: 'renew the heartbeat', operation: () => replica.live() }),

  effect(stage, replica) {
    return effects(replica, stage.random.pick(EFFECTS))
  },

  progress(stage, replica) {
    const able = stage.runner.working().filter((execution) => !stage.busy.has(execution))
    if (able.length === 0) return null
    return progression(stage, replica, stage.random.pick(able))
  },

  meddle(stage, replica) {
    const able = [
      ...stage.runner.zombies,
      ...stage.runner.ended(),
      ...stage.runner.working().filter(({ stage: at }) => at === 'testing' || at === 'committed'),
    ].filter((execution) => !stage.busy.has(execution))
    if (able.length === 0) return null
    const execution = stage.random.pick(able)
    stage.busy.add(execution)
    return {
      title: `the runner commits to ${execution.handle} again`,
      operation: () => stage.runner.meddle(execution, replica.sql),
      end: () => void stage.busy.delete(execution),
    }
  },

  reboot: (stage) => ({
    title: 'the runner reboots',
    replica: null,
    operation: async () => stage.runner.reboot(),
  }),

  replay(stage, replica) {
    if (stage.reported.length === 0) return null
    const outcome = stage.random.pick(stage.reported)
    return {
      title: `an old message arrives again: ${outcome.kind} of ${handleOf(outcome.runId, outcome.attempt)}`,
      replica: null,
      operation: async () => replica.report(outcome),
    }
  },

  lead(stage, replica) {
    return leading(stage, replica, stage.random.pick(['triggers', 'scheduler', 'reaper'] as const))
  },

  hear: (_, replica) => ({
    title: 'consume events',
    operation: () => replica.evaluator.consumeEvents(),
  }),
  keepTime: (_, replica) => ({
    title: 'fire due triggers',
    operation: async () => (await replica.evaluator.evaluateTime()).runs,
  }),
  sweep: (_, replica) => ({
    title: 'sweep due triggers and held events',
    operation: async () => {
      await replica.evaluator.sweepDue()
      await replica.evaluator.retryHeld()
    },
  }),
  schedule: (_, replica) => ({
    title: 'scheduler tick',
    operation: () => replica.tickSchedules(),
  }),

  stuck: (_, replica) => ({
    title: 'fail stuck runs',
    operation: async () => (await replica.failStuck())?.ids,
  }),

  reap(stage, replica) {
    if (stage.retention === null) return null
    if (!replica.seats.has('reaper')) return leading(stage, replica, 'reaper')
    const duty = stage.random.weighted(DUTY_WEIGHTS)
    return { title: `reap ${duty}`, operation: () => replica.reap(duty) }
  },

  clock(stage) {
    const { random } = stage
    // No hours pass during a pause: after a day, the key of a paused request would count as new.
    const hours = stage.paused !== null ? 0 : stage.retention === null ? 0.5 : 2
    const ms = random.weighted({ moment: 10, seconds: 8, minutes: 3, hours })
    const by = {
      moment: [1, 900],
      seconds: [1_000, 12_000],
      minutes: [60_000, 900_000],
      hours: [3_600_000, 90_000_000],
    }
    const [from = 1, to = 1] = by[ms]
    const passed = random.int(from, to)
    return { title: `${passed} ms pass`, replica: null, operation: () => stage.advance(passed) }
  },

  stop(stage, replica) {
    const place = stage.replicas.indexOf(replica)
    return {
      title: `replica ${place} dies and another takes its place`,
      replica: null,
      operation: () => stage.restart(place),
    }
  },
}

function requestOf(stage: Stage, replica: Replica, target: ReturnType<typeof drawTarget>): Move {
  const pipeline = stage.random.pick([...stage.names.keys()])
  const trigger = `request-${++stage.requests}`
  return {
    title: `a client requests a run of ${pipeline} (${trigger}) on ${target.branch ?? 'main'}`,
    operation: () => replica.runs.request({ ...pipelineRef(pipeline), trigger, ...target }),
    done: (value) => void stage.memory.acknowledged.runs.add(runOf(value)),
  }
}

/** Chooses a step that is possible now. Often replaces a dead process first. */
export function chooseStep(stage: Stage): Step {
  const { random, replicas } = stage
  const dead = replicas.findIndex(({ process }) => process.isDead)
  if (dead >= 0 && random.chance(0.5))
    return { title: `replica ${dead} starts again`, replica: null, operation: () => stage.restart(dead) }
  const able = replicas.filter(({ process }) => !process.isDead && !process.isPaused)
  for (;;) {
    const replica = able.length === 0 ? null : random.pick(able)
    // While one replica is paused inside a transaction, the other often chooses steps that lock the same rows.
    const weights = stage.paused !== null && random.chance(0.5) ? RIVALS : weightsOf(stage)
    const name = replica === null ? random.pick(['clock', 'reboot'] as const) : random.weighted(weights)
    const move = MAKERS[name](stage, replica as Replica)
    if (move !== null) return { replica, ...move }
  }
}

function weightsOf(stage: Stage): Partial<Record<Name, number>> {
  const isReaping = stage.retention !== null
  const usual = isReaping ? WEIGHTS_OF_REAPING : WEIGHTS
  const weights =
    stage.branchShare > MOSTLY_ON_BRANCHES ? { ...WEIGHTS_OF_BRANCHES, reap: isReaping ? 20 : 0 } : usual
  const often = mergeableBranches(stage).length > 0 ? { ...weights, mergeBranch: 25 } : weights
  return reviewedRuns(stage).length > 0 ? { ...often, approve: 15, reject: 3 } : often
}

/** The steps of one round, in which every part with work has its turn. Each step is made at its turn. */
export function drainSteps(stage: Stage, round: number): (() => Promise<Step | null>)[] {
  const { memory, runner, triggers } = stage
  const facts = memory.lastFacts
  const turn =
    (make: Make, place = 0) =>
    async (): Promise<Step | null> => {
      const replica = stage.replicas[place]
      const move = replica === undefined ? null : make(stage, replica)
      return replica === undefined || move === null ? null : { replica, ...move }
    }
  const both = (make: Make) => [turn(make, 0), turn(make, 1)]
  const kinds = new Set(facts?.outbox.map(({ kind }) => kind))
  const hasEvents = (facts?.events.length ?? 0) > 0
  const isWaiting = hasEvents || facts?.runs.some(({ waiting }) => waiting)
  return [
    ...[0, 1].map((place) => async () => {
      if (stage.replicas[place]?.process.isDead) await stage.restart(place)
      return null
    }),
    turn(() => ({
      title: 'time passes',
      replica: null,
      operation: () => stage.advance(round < 4 ? 4_000 : 20_000),
    })),
    ...(round > 0 ? [] : triggers).map(({ pipeline, id }) =>
      turn((_, replica) => ({
        title: `trigger ${id} is switched off`,
        operation: async () => void (await replica.triggers.update(refOf(pipeline), id, { enabled: false })),
      })),
    ),
    ...both(MAKERS.live),
    ...(hasEvents ? [turn((_, replica) => leading(stage, replica, 'triggers')), turn(MAKERS.hear)] : []),
    ...(isWaiting
      ? [
          turn((_, replica) => ({
            title: 'start',
            operation: () => replica.start(Array(3).fill(runner.url)),
          })),
        ]
      : []),
    ...Array.from({ length: 5 }, () => [...both(followAll), turn(workAll)]).flat(),
    ...both(MAKERS.apply),
    turn((_, replica) =>
      mergeableBranches(stage).length > 0 ? BRANCH_STEPS.mergeBranch(stage, replica) : null,
    ),
    ...reviewedRuns(stage).map(() =>
      turn((_, replica) => (reviewedRuns(stage).length > 0 ? REVIEW_STEPS.approve(stage, replica) : null)),
    ),
    ...EFFECTS.filter((kind) => kinds.has(kind)).map((kind) => turn((_, replica) => effects(replica, kind))),
  ]
}

/** The steps of one replica that request a run on main and let all runs end. */
export function stepsOnMain(stage: Stage, place: number): (() => Step | null)[] {
  const turn = (make: Make) => (): Step | null => {
    const replica = stage.replicas[place]
    if (replica === undefined || replica.process.isDead || replica.process.isPaused) return null
    const move = make(stage, replica)
    return move && { replica, ...move }
  }
  return [
    turn((_, replica) => requestOf(stage, replica, {})),
    turn((_, replica) => ({
      title: 'start',
      operation: () => replica.start(Array(2).fill(stage.runner.url)),
      mayStart: true,
    })),
    ...Array.from({ length: 6 }, () => [turn(followAll), turn(workAll)]).flat(),
    turn(MAKERS.apply),
  ]
}

function followAll(stage: Stage, replica: Replica): Move | null {
  const followed = [...replica.following.values()]
  if (followed.length === 0) return null
  return {
    title: `${replica.name} reads the news of ${followed.length} attempts`,
    replica: null,
    async operation() {
      for (const one of followed) await observation(stage, replica, one).operation()
    },
  }
}

function workAll({ runner, archiving }: Stage, { sql }: Replica): Move | null {
  if (runner.working().length === 0) return null
  return {
    title: 'the runner works',
    async operation() {
      for (const execution of runner.working())
        await runner.progress(execution, sql, (name) => archiving.has(name))
    },
  }
}

const effects = (replica: Replica, kind: (typeof EFFECTS)[number]): Move => ({
  title: `effects: ${kind}`,
  operation: () => replica.perform(kind),
})

/** A follower looks at its attempt and reports news, sometimes twice. */
function observation(stage: Stage, replica: Replica, followed: Followed): Move {
  const { attempt } = followed
  const handle = handleOf(attempt.runId, attempt.attempt)
  return {
    title: `follow ${handle}`,
    replica: null,
    operation: async () => {
      const outcome = nextOutcome(stage, followed)
      if (outcome === null) return
      if (outcome.kind !== 'accepted' && outcome.kind !== 'entered') replica.following.delete(handle)
      replica.report(outcome)
      stage.reported.push(outcome)
      if (!stage.isFair && stage.random.chance(0.15)) replica.report(outcome)
      if (stage.random.chance(0.3))
        replica.appendLine({
          runId: attempt.runId,
          seq: seqOfRunner(attempt.attempt, followed.receivedPhases.size + 1),
          at: stage.clock.now(),
          level: 'info',
          message: outcome.kind,
        })
    },
  }
}

function nextOutcome({ runner, random, isFair }: Stage, followed: Followed): Outcome | null {
  const { runId, attempt } = followed.attempt
  const id = { runId, attempt }
  if (followed.boot === null) {
    if (!isFair && random.chance(0.06)) return { ...id, kind: 'refused', retryAfterMs: 250 }
    const answer = runner.submit(followed.attempt, isFair)
    if (answer === 'noRoom') return { ...id, kind: 'refused', retryAfterMs: 250 }
    if (!isFair && random.chance(0.05))
      return { ...id, kind: 'lost', why: 'the runner did not confirm the submission', hasBegun: false }
    followed.boot = answer.boot
    return { ...id, kind: 'accepted', runnerBoot: answer.boot }
  }
  const execution = runner.at(handleOf(runId, attempt))
  if (execution === null || execution.boot !== followed.boot || runner.boot !== followed.boot)
    return { ...id, kind: 'lost', why: 'the runner restarted', hasBegun: followed.receivedPhases.size > 0 }
  const news = (phase: 'executing' | 'testing'): Outcome | null => {
    if (followed.receivedPhases.has(phase)) return null
    followed.receivedPhases.add(phase)
    return { ...id, kind: 'entered', phase }
  }
  switch (execution.stage) {
    case 'accepted':
      return null
    case 'executing':
      return news('executing')
    case 'committed':
    case 'testing':
      return news('testing')
    case 'done':
      return execution.facts
    case 'stopped':
      return { ...id, kind: 'failed', error: 'the attempt was stopped' }
  }
}

function progression(stage: Stage, replica: Replica, execution: Execution): Move {
  stage.busy.add(execution)
  return {
    title: `the runner continues ${execution.handle}`,
    operation: () => stage.runner.progress(execution, replica.sql, (name) => stage.archiving.has(name)),
    end: () => void stage.busy.delete(execution),
  }
}

/** Renews and challenges leases with the statements of workers/leadership, without the lock of a leader's connection. */
function leading(stage: Stage, { sql, seats, name: holder, process }: Replica, role: Role): Move {
  return {
    title: `lead the ${role}`,
    operation: async () => {
      const lease = seats.get(role)
      if (lease !== undefined) {
        if (await renewLease(sql, lease, LEADER_LEASE_MS)) return 'renewed'
        seats.delete(role)
      }
      const leader = await currentLeader(sql, role, LEADER_LEASE_MS)
      if (leader !== undefined && !leader.hasExpired) return 'led by another'
      // Ends the old leader's backend first, because a leader paused in a transaction holds a lock on the row.
      const old = stage.paused?.step.replica?.process
      if (
        old !== process &&
        [...(old?.connections.wires ?? [])].some(({ pid }) => pid === leader?.backendPid)
      )
        await stage.endBackends([leader?.backendPid ?? 0])
      const challenge = {
        role,
        holder,
        leaseMs: LEADER_LEASE_MS,
        observedEpoch: leader?.epoch ?? null,
        isOwn: false,
      }
      const epoch = await inTransaction(sql, (tx) => beginEpoch(tx, challenge))
      if (epoch === null) return 'led by another'
      seats.set(role, { role, epoch })
      return `leads in epoch ${epoch}`
    },
  }
}

const pipelineRef = (pipeline: string) => ({ namespace: NAMESPACE, layer: LAYER as 'gold', pipeline })
const runOf = (value: unknown) => (value as { run_id: string }).run_id as RunId

function recordVersion(stage: Stage, pipelineId: string | undefined, version: number) {
  // Another pipeline may have the name PASSING by now, so its versions are not recorded.
  if (pipelineId !== undefined && pipelineId !== stage.names.get(PASSING))
    stage.memory.acknowledged.versions.push(`${pipelineId} ${version}`)
}
