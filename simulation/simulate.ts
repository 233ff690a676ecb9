// Plays one seed. Two replicas, a runner and clients take steps in a random order with faults. The invariants are checked after
// every step; at the end, all work must finish.
import { createHash } from 'node:crypto'
import { limits } from '../app/core/limits.ts'
import type { Gate } from '../app/quality-tests/gate.ts'
import type { GateResult } from '../app/quality-tests/schema.ts'
import { listOf } from './branch-invariants.ts'
import {
  type DatabaseSnapshot,
  LOCK_TIMEOUT_MS,
  openSimulatedDatabase,
  type SimulatedDatabase,
} from './database.ts'
import { isIllegal } from './errors.ts'
import { type Facts, readFacts } from './facts.ts'
import { check, checkEnd, type ExpectedFiring, newMemory, type Violation } from './invariants.ts'
import { type Contents, openMemoryStore } from './memory-store.ts'
import { type Mutation, NO_MUTATION } from './mutations.ts'
import { type Connections, makeProcess, openConnections, type Plan } from './process.ts'
import { makeRandom, seededId } from './random.ts'
import { makeReplica, type Replica } from './replica.ts'
import { makeRunner } from './runner.ts'
import { drawVariant, keepLittle, type Scene, setUp, type Variant } from './scene.ts'
import { chooseStep, drainSteps, type Stage, type Step, stepsOnMain } from './steps.ts'

export interface Result {
  seed: number
  violations: Violation[]
  /** The events of the seed, one line per step. */
  story: string[]
  /** The same for every replay of a seed, whatever was played before. */
  digest: string
  steps: number
  runs: number
  /** The number of faults of each kind. */
  faults: Record<string, number>
}

export interface Bench {
  database: SimulatedDatabase
  /** Connections that outlive a seed. */
  spare: Connections[]
  /** Scenes by their variants, created at their first use. */
  scenes: Map<string, KeptScene>
}

interface KeptScene extends Scene {
  rows: DatabaseSnapshot
  objects: Contents
}

export const openBench = async (serverUrl: string): Promise<Bench> => ({
  database: await openSimulatedDatabase(serverUrl),
  spare: [],
  scenes: new Map(),
})

export async function closeBench({ database, spare }: Bench): Promise<void> {
  await Promise.all(spare.map((connections) => connections.close()))
  await database.drop()
}

const STEPS = 60
const START = Date.UTC(2026, 0, 5, 9, 0, 0)
/** Maximum number of history rows that a paused transaction numbers before others and commits after them. */
const IN_FLIGHT = 100
/** Rounds without faults within which all work must finish. */
const ROUNDS = 60

export async function simulate(
  bench: Bench,
  seed: number,
  mutation: Mutation = NO_MUTATION,
): Promise<Result> {
  const { database } = bench
  const random = makeRandom(seed)
  const chance = makeRandom(seed ^ 0x5eed)
  const ids = makeRandom(seed ^ 0x1d5)
  let time = START
  const newId = () => seededId(ids, new Date(time))
  const clock = { now: () => new Date(time), elapsed: () => time }
  const scene = await sceneOf(bench, drawVariant(random))
  const store = openMemoryStore(clock, scene.objects)
  const runner = makeRunner({ random: chance, newId })
  const memory = newMemory()
  const story: string[] = []
  const violations: Violation[] = []
  const faults: Record<string, number> = {}
  const replicas: Replica[] = []
  let started = 0
  const skews = [0, random.pick([0, 0, -1_500, 90_000])]

  const stage: Stage = {
    random,
    runner,
    replicas,
    memory,
    branchShare: random.pick([0.1, 0.3, 0.9]),
    clock,
    isFair: false,
    names: new Map(scene.names),
    triggers: scene.triggers,
    webhooks: scene.webhooks,
    reported: [],
    uploads: [],
    requests: 0,
    keys: new Map(),
    busy: new Set(),
    archiving: new Set(random.chance(0.6) ? ['first', 'second'] : ['first']),
    admin: database.admin,
    endBackends: database.endBackends,
    async advance(ms) {
      time += ms
      await database.setTime(time)
    },
    restart,
    paused: null,
    expected: scene.expected,
    retention: null,
    mutation,
  }
  const world = {
    runner,
    retention: () => stage.retention,
    now: () => time,
    holds: store.holds,
    archives: (pipeline: string) => stage.archiving.has(pipeline),
    depthLimit: limits.chainDepth,
  }

  const rewrite = (statement: string) => waitingShortly(mutation.rewrite(statement))

  /** Runs of the other replica often merge into main while the tests of a merge are evaluated. */
  async function performMeanwhile(place: number) {
    if (stage.paused !== null || !chance.chance(0.5)) return
    for (const next of stepsOnMain(stage, place)) {
      const step = next()
      if (step === null || violations.length > 0) continue
      await performStep(step, null)
      await checkFacts()
    }
  }

  /** The tests of a merge read the table `shared`, the changed tables, and one more. */
  const judgeMergeAt =
    (place: number): Gate =>
    async (tables, { commit, branch }) => {
      const changed = tables.map((table) => ({ name: table.name, content_id: contentOf(table) }))
      const reads = [...changed.map(({ name }) => name), 'shared', chance.pick(['first', 'second', 'third'])]
      const hasFailed = !stage.isFair && chance.chance(0.15)
      memory.branches.gated.push({ branch, commit, changes: listOf(changed), reads, hasFailed })
      await performMeanwhile(1 - place)
      return {
        results: hasFailed ? [FAILED_TEST] : [],
        reads: reads.map((name) => `default.gold.${name}`),
      }
    }

  async function restart(place: number) {
    const old = replicas[place]
    if (old !== undefined && !old.process.isDead) await old.process.kill()
    const connections = bench.spare.pop() ?? (await openConnections(database))
    await connections.forgetPlans()
    started += 1
    const replica: Replica = makeReplica({
      name: `replica-${place}:${started}`,
      process: makeProcess(database, connections, store, rewrite, () => {
        isRequested = true
      }),
      runner,
      clock: { now: () => new Date(time + (skews[place] ?? 0)), elapsed: () => time },
      newId,
      complain(message, error) {
        if (replica.process.isDead || error === undefined || !isIllegal(error)) return
        violations.push({
          invariant: 'the product logs no unexpected error',
          what: `${message}: ${textOf(error)}`,
        })
      },
      judgeMerge: judgeMergeAt(place),
      applied: (outcome) => mutation.outcome(outcome, memory.lastFacts),
    })
    replicas[place] = replica
  }

  let state = ''
  /** Whether a statement was sent since the last reading. Without a statement, nothing can have changed. */
  let isRequested = true
  async function checkFacts(): Promise<Facts> {
    if (!isRequested && memory.lastFacts !== null) return memory.lastFacts
    isRequested = false
    const reading = await readFacts(database.admin, {
      afterTransition: memory.lastTransition - IN_FLIGHT,
      since: memory.lastFacts === null ? '' : state,
    })
    state = reading.state
    const facts = reading.facts ?? memory.lastFacts
    if (facts === null) throw new Error('the first reading returned no facts')
    if (reading.facts !== null) violations.push(...check(facts, memory, world))
    return facts
  }

  async function performStep(step: Step, plan: Plan | null): Promise<void> {
    const { replica, title } = step
    if (replica === null) {
      story.push(title)
      await step.operation()
      return
    }
    const place = replicas.indexOf(replica)
    const ending = await replica.process.perform(step.operation, plan)
    settle(step, ending, `${place} ${title}`)
  }

  function settle(step: Step, ending: Awaited<ReturnType<Replica['process']['perform']>>, title: string) {
    const at = step.replica?.process.faultedAt
    const where = at ? ` [at: ${at}]` : ''
    if (ending.kind !== 'done' && ending.kind !== 'failed')
      faults[ending.kind] = (faults[ending.kind] ?? 0) + 1
    else if (at) faults.disconnected = (faults.disconnected ?? 0) + 1
    switch (ending.kind) {
      case 'done':
        story.push(`${title} -> ${short(ending.value)}${where}`)
        step.done?.(ending.value)
        break
      case 'failed':
        story.push(`${title} -> ${textOf(ending.error)}${where}`)
        step.failed?.(ending.error)
        if (isIllegal(ending.error))
          violations.push({
            invariant: 'only expected errors occur',
            what: `${title}: ${textOf(ending.error)}`,
          })
        break
      case 'crashed':
        story.push(`${title} -> the process dies${where}`)
        step.end?.()
        break
      case 'paused':
        story.push(`${title} -> the process is paused${where}`)
        stage.paused = { step, title, left: random.int(1, 8) }
        return
    }
    step.end?.()
  }

  async function wake() {
    const { paused } = stage
    if (paused === null || paused.step.replica === null) return
    stage.paused = null
    const { process } = paused.step.replica
    if (!stage.isFair && random.chance(0.25)) {
      await process.kill()
      story.push(`${paused.title}: the paused process is killed`)
      paused.step.end?.()
      return
    }
    settle(paused.step, await process.proceed(), `${paused.title} continues`)
  }

  await database.reset(scene.rows)
  await database.setTime(time)
  if (random.chance(0.5)) stage.retention = await keepLittle(random, database.admin)
  await restart(0)
  await restart(1)
  await checkFacts()
  let steps = 0
  while (steps < STEPS && violations.length === 0) {
    steps += 1
    if (stage.paused !== null && --stage.paused.left <= 0) await wake()
    else {
      const step = chooseStep(stage)
      memory.isStartUncertain = stage.paused?.step.mayStart === true
      await performStep(step, step.replica === null ? null : planOf(random, step, stage.paused !== null))
    }
    await checkFacts()
  }
  // No faults from here on: all work must finish.
  stage.isFair = true
  await wake()
  memory.isStartUncertain = true
  let facts = await checkFacts()
  for (let round = 0; round < ROUNDS && violations.length === 0; round++) {
    for (const step of drainSteps(stage, round)) {
      if (violations.length > 0) break
      const next = await step()
      if (next !== null) await performStep(next, null)
    }
    facts = await checkFacts()
    const isOver = facts.runs.every(({ status }) => /success|failed|cancelled/.test(status))
    if (isOver && facts.outbox.length === 0 && facts.events.length === 0 && round > 0) break
  }
  if (violations.length === 0) violations.push(...checkEnd(facts, memory, expectedFirings(stage, facts)))

  for (const replica of replicas) if (!replica.process.isDead) bench.spare.push(replica.process.connections)
  const digest = createHash('sha256')
    .update(JSON.stringify([story, facts]))
    .digest('hex')
    .slice(0, 16)
  return { seed, violations, story, digest, steps, runs: facts.runs.length, faults }
}

/**
 * Replaces the lock timeout that a transaction sets with the timeout of all sessions. A longer wait is useless, because a
 * paused holder releases no lock.
 */
const waitingShortly = (statement: string) =>
  statement.replace(
    /set_config\('lock_timeout', (\$\d+), true\)/,
    `set_config('lock_timeout', case when $1 <> '' then '${LOCK_TIMEOUT_MS}' end, true)`,
  )

/** The scene of a variant. Its ids and times are the same for all seeds. */
async function sceneOf(bench: Bench, variant: Variant): Promise<KeptScene> {
  const name = JSON.stringify(variant)
  const existing = bench.scenes.get(name)
  if (existing !== undefined) return existing
  const { database } = bench
  await database.reset()
  await database.setTime(START)
  const ids = makeRandom(START)
  const newId = () => seededId(ids, new Date(START))
  const clock = { now: () => new Date(START), elapsed: () => START }
  const store = openMemoryStore(clock)
  const connections = await openConnections(database)
  const replica = makeReplica({
    name: 'before',
    process: makeProcess(
      database,
      connections,
      store,
      (statement) => statement,
      () => {},
    ),
    runner: makeRunner({ random: ids, newId }),
    clock,
    newId,
    complain(message, error) {
      throw new Error(`scene set-up failed: ${message}`, { cause: error })
    },
    judgeMerge: async () => ({ results: [], reads: [] }),
    applied: (outcome) => outcome,
  })
  const scene = await setUp(replica, variant)
  await connections.close()
  const stored = { ...scene, rows: await database.snapshot(), objects: store.contents() }
  bench.scenes.set(name, stored)
  return stored
}

/** Plans whether, where and how an operation fails. */
function planOf(random: ReturnType<typeof makeRandom>, step: Step, isAnyPaused: boolean): Plan | null {
  // Pauses are most useful in transactions that lock contended rows.
  const isContended = /^apply|cancels|merges branch|approves|rejects/.test(step.title)
  if (!random.chance(isContended ? 0.3 : 0.14)) return null
  const kind = random.weighted({ crash: 3, disconnect: 4, pause: isContended ? 12 : 5 })
  const at = random.int(1, random.pick([3, 6, 12]))
  const when = random.pick(['before', 'after'] as const)
  if (kind === 'pause') return isAnyPaused ? null : { at, fault: { kind } }
  return { at, fault: { kind, when } }
}

function expectedFirings(stage: Stage, facts: Facts): ExpectedFiring[] {
  return stage.expected.flatMap(({ triggerId, source }) => {
    if (source === 'uploads')
      return [...stage.memory.acknowledged.uploads].map((event) => ({
        triggerId,
        event,
        what: `upload ${event}`,
      }))
    return [...facts.runs, ...stage.memory.removedRows.runs.values()]
      .filter(
        ({ pipeline, branch, status }) => pipeline === source && branch === 'main' && status === 'success',
      )
      .map(({ id }) => ({ triggerId, event: id, what: `success ${id} of ${source}` }))
  })
}

const contentOf = (table: object): string => ('contentId' in table ? String(table.contentId) : '')

const FAILED_TEST = {
  table: 'default.gold.shared',
  name: 'strict',
  status: 'failed',
  severity: 'error',
  value: 1,
  expected: 0,
  duration_ms: 1,
  error: null,
  samples: [],
} as const satisfies Omit<GateResult, 'samples'> & { samples: [] }

const short = (value: unknown) =>
  value === undefined ? 'done' : (JSON.stringify(value) ?? 'done').slice(0, 160)
const textOf = (error: unknown): string =>
  error instanceof Error
    ? `${error.name} ${'code' in error ? error.code : ''} ${error.message.split('\n')[0]?.slice(0, 120)}${error.cause ? ` (${textOf(error.cause)})` : ''}`
    : String(error)
