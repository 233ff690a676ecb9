// `npm run simulate -- --seeds 10000 --from 1 --processes 2`: many seeds; the first that fails is told with its steps.
// `npm run simulate -- --seed 4711 --verbose`: one seed again, step by step, as it was.
// `npm run simulate -- --mutations`: takes the product's protections away one at a time, and looks whether it is missed.
import { parseArgs } from 'node:util'
import { startTestPostgres } from '../../.setup/test-postgres.ts'
import { openSimulatedDatabase } from './database.ts'
import { MUTATIONS, NO_MUTATION } from './mutations.ts'
import { type Bench, type Result, simulate } from './simulate.ts'

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '200' },
    from: { type: 'string', default: '1' },
    processes: { type: 'string', default: '1' },
    seed: { type: 'string' },
    mutation: { type: 'string' },
    mutations: { type: 'boolean', default: false },
    verbose: { type: 'boolean', default: false },
  },
})

/** Seeds in which a protection that is gone must have been missed. */
const MISSED_WITHIN = 300
/** Failing seeds told in full. */
const TOLD = 3

const server = await startTestPostgres()
const { url } = server
try {
  process.exitCode = await act()
} finally {
  await server.stop()
}
// Connections of processes that died in a simulation are nobody's to close.
process.exit()

async function act(): Promise<number> {
  const [from, count, processes] = [Number(values.from), Number(values.seeds), Number(values.processes)]
  if (values.mutations) return mutated()
  if (values.seed !== undefined) return one(Number(values.seed))
  return processes > 1 ? spread(from, count, processes) : many(from, count)
}

async function one(seed: number): Promise<number> {
  const bench = await open()
  const mutation = MUTATIONS.find(({ name }) => name === values.mutation) ?? NO_MUTATION
  const result = await simulate(bench, seed, mutation)
  tell(result)
  console.log(`digest ${result.digest}, ${result.runs} runs, faults ${JSON.stringify(result.faults)}`)
  await close(bench)
  return result.violations.length === 0 ? 0 : 1
}

async function many(from: number, count: number): Promise<number> {
  const bench = await open()
  const failed: number[] = []
  const faults: Record<string, number> = {}
  let steps = 0
  let runs = 0
  const startedAt = performance.now()
  for (let seed = from; seed < from + count; seed++) {
    const result = await simulate(bench, seed)
    steps += result.steps
    runs += result.runs
    for (const [kind, times] of Object.entries(result.faults)) faults[kind] = (faults[kind] ?? 0) + times
    if (result.violations.length > 0) {
      failed.push(seed)
      if (failed.length <= TOLD) tell(result)
      else console.log(`FAILED seed ${seed}: ${result.violations[0]?.invariant}`)
      // Whatever it left half done is not the next one's.
      for (const spare of bench.spare.splice(0)) void spare.close()
    }
    if ((seed - from + 1) % 250 === 0)
      console.log(
        `${seed - from + 1} seeds, ${failed.length} failed, ${Math.round((performance.now() - startedAt) / 1_000)} s`,
      )
  }
  const seconds = (performance.now() - startedAt) / 1_000
  console.log(
    `${count} seeds from ${from} in ${seconds.toFixed(1)} s (${(seconds / count).toFixed(3)} s each): ${steps} steps, ${runs} runs, faults ${JSON.stringify(faults)}`,
  )
  if (failed.length > 0) console.log(`failing seeds: ${failed.join(' ')}`)
  console.log(`${count - failed.length} passed, ${failed.length} failed`)
  await close(bench)
  return failed.length === 0 ? 0 : 1
}

/** The same in several processes, each with a server of its own. */
async function spread(from: number, count: number, processes: number): Promise<number> {
  const share = Math.ceil(count / processes)
  const parts = Array.from({ length: processes }, (_, part) => ({
    from: from + part * share,
    count: Math.min(share, count - part * share),
  })).filter((part) => part.count > 0)
  const startedAt = performance.now()
  const ends = await Promise.all(
    parts.map(async (part) => {
      const child = Bun.spawn(
        [process.execPath, import.meta.path, `--from=${part.from}`, `--seeds=${part.count}`],
        { stdout: 'pipe', stderr: 'inherit' },
      )
      let output = ''
      for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
        process.stdout.write(text)
        output += text
      }
      return { code: await child.exited, output }
    }),
  )
  const passed = ends.reduce(
    (sum, { output }) => sum + Number(/(\d+) passed, \d+ failed\s*$/.exec(output)?.[1] ?? 0),
    0,
  )
  console.log(`${count} seeds in ${Math.round((performance.now() - startedAt) / 1_000)} s`)
  console.log(`${passed} passed, ${count - passed} failed`)
  return passed === count && ends.every(({ code }) => code === 0) ? 0 : 1
}

async function mutated(): Promise<number> {
  let missed = 0
  const chosen = MUTATIONS.filter(({ name }) => values.mutation === undefined || name === values.mutation)
  for (const mutation of chosen) {
    const bench = await open()
    let caught: Result | null = null
    for (
      let seed = Number(values.from);
      caught === null && seed < Number(values.from) + MISSED_WITHIN;
      seed++
    ) {
      const result = await simulate(bench, seed, mutation)
      if (result.violations.length > 0) caught = result
    }
    await close(bench)
    if (caught === null) missed += 1
    console.log(
      caught === null
        ? `NOT NOTICED in ${MISSED_WITHIN} seeds: ${mutation.name}`
        : `noticed by seed ${caught.seed}: ${mutation.name}: ${caught.violations[0]?.invariant}: ${caught.violations[0]?.what.slice(0, 140)}`,
    )
  }
  console.log(`${chosen.length - missed} passed, ${missed} failed`)
  return missed === 0 ? 0 : 1
}

function tell({ seed, story, violations }: Result) {
  if (violations.length > 0 || values.verbose) {
    console.log(violations.length > 0 ? `FAILED seed ${seed}` : `seed ${seed}`)
    const lines = values.verbose ? story : story.slice(-25)
    for (const line of lines) console.log(`  ${line}`)
  }
  for (const { invariant, what } of violations.slice(0, 5)) console.log(`  VIOLATED ${invariant}: ${what}`)
  if (violations.length > 0) console.log(`  again: npm run simulate -- --seed ${seed} --verbose`)
}

async function open(): Promise<Bench> {
  return { database: await openSimulatedDatabase(url), spare: [] }
}

async function close(bench: Bench) {
  await Promise.all(bench.spare.map((spare) => spare.close()))
  await bench.database.drop()
}
