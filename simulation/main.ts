// `npm run simulate -- --seeds 10000 --from 1 --processes 2`: plays many seeds and prints the steps of each failing one. `npm
// run simulate -- --seed 4711 --verbose`: plays one seed again and prints every step. `npm run simulate -- --mutations`:
// removes the product's protections one at a time, and checks that each is noticed.
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { startTestPostgres } from '../tools/service/test-postgres.ts'
import { MUTATIONS, NO_MUTATION } from './mutations.ts'
import { playAll, playPart, printResult } from './parts.ts'
import { type Bench, closeBench, openBench, type Result, simulate } from './simulate.ts'

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '200' },
    from: { type: 'string', default: '1' },
    processes: { type: 'string', default: '1' },
    part: { type: 'boolean', default: false },
    seed: { type: 'string' },
    mutation: { type: 'string' },
    mutations: { type: 'boolean', default: false },
    verbose: { type: 'boolean', default: false },
  },
})

/** Number of seeds within which a check must notice a removed protection. */
const MISSED_WITHIN = 300

/** `--from random`: seeds that no earlier run has played. A failure prints its seed. */
const from = values.from === 'random' ? randomInt(1, 2 ** 30) : Number(values.from)
const range = { from, count: Number(values.seeds) }
const isOne = values.mutations || values.seed !== undefined || values.part
// Child processes play many seeds, each with its own server.
process.exitCode = isOne ? await withServer() : await playAll(range, Number(values.processes))
// Exits explicitly, because connections of processes that died in a simulation stay open.
process.exit()

async function withServer(): Promise<number> {
  const server = await startTestPostgres()
  const open = () => openBench(server.url)
  try {
    if (values.mutations) return await playMutations(open)
    return values.seed === undefined ? await playPart(range, open) : await playOne(Number(values.seed), open)
  } finally {
    await server.stop()
  }
}

async function playOne(seed: number, open: () => Promise<Bench>): Promise<number> {
  const bench = await open()
  const mutation = MUTATIONS.find(({ name }) => name === values.mutation) ?? NO_MUTATION
  const result = await simulate(bench, seed, mutation)
  printResult(result, values.verbose)
  console.log(`digest ${result.digest}, ${result.runs} runs, faults ${JSON.stringify(result.faults)}`)
  await closeBench(bench)
  return result.violations.length === 0 ? 0 : 1
}

async function playMutations(open: () => Promise<Bench>): Promise<number> {
  let missed = 0
  const chosen = MUTATIONS.filter(({ name }) => values.mutation === undefined || name === values.mutation)
  for (const mutation of chosen) {
    const bench = await open()
    let caught: Result | null = null
    for (let seed = from; caught === null && seed < from + MISSED_WITHIN; seed++) {
      const result = await simulate(bench, seed, mutation)
      if (result.violations.length > 0) caught = result
    }
    await closeBench(bench)
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
