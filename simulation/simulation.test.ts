import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { startTestPostgres, type TestPostgres } from '../tools/service/test-postgres.ts'
import { MUTATIONS, type Mutation, NO_MUTATION } from './mutations.ts'
import { type Bench, closeBench, openBench, simulate } from './simulate.ts'

// Plays the first seeds of `npm run simulate`: CI plays hundreds, and ten thousand can be played on demand.
setDefaultTimeout(240_000)

/** Few seeds; `.ci/run` plays hundreds. */
const SEEDS = 12

let server: TestPostgres
const benches: Bench[] = []
/** A separate server, because transactions of other databases on it would look like new facts. */
beforeAll(async () => {
  server = await startTestPostgres()
})
afterAll(async () => {
  for (const bench of benches) await closeBench(bench)
  await server.stop()
})

async function newBench(): Promise<Bench> {
  const bench = await openBench(server.url)
  benches.push(bench)
  return bench
}

test(`the invariants hold in ${SEEDS} seeds, and every mutation finds its statement`, async () => {
  const bench = await newBench()
  const faults = new Set<string>()
  const rewritten = new Set(MUTATIONS.filter(isOfStatements).map(({ name }) => name))
  const looking: Mutation = {
    ...NO_MUTATION,
    rewrite(statement) {
      for (const { name, rewrite } of MUTATIONS)
        if (rewritten.has(name) && rewrite(statement) !== statement) rewritten.delete(name)
      return statement
    },
  }
  for (let seed = 1; seed <= SEEDS; seed++) {
    const { violations, story, ...result } = await simulate(bench, seed, looking)
    for (const kind of Object.keys(result.faults)) faults.add(kind)
    if (violations.length > 0)
      throw new Error(
        `seed ${seed}: ${violations.map(({ invariant, what }) => `${invariant}: ${what}`).join('\n')}\nreplay: npm run simulate -- --seed ${seed} --verbose\n${story.slice(-20).join('\n')}`,
      )
  }
  expect([...faults].sort()).toEqual(['crashed', 'disconnected', 'paused'])
  // A mutation whose pattern no longer matches removes no protection, so its run would prove nothing.
  expect([...rewritten]).toEqual([])
})

const isOfStatements = ({ rewrite }: Mutation) => rewrite !== NO_MUTATION.rewrite

test('a seed plays the same story in any database, whatever ran before', async () => {
  const fresh = await newBench()
  const used = benches[0] ?? (await newBench())
  const [one, other] = [await simulate(used, 17), await simulate(fresh, 17)]
  expect(other.story).toEqual(one.story)
  expect(other.digest).toBe(one.digest)
})

describe('a check notices a removed protection', () => {
  /** The mutations that are noticed quickly; `npm run simulate -- --mutations` tries all. */
  const QUICK = [
    'leave branches open',
    'leave attempts open',
    'leave consumed events in the queue',
    'write no history',
  ]
  for (const mutation of MUTATIONS.filter(({ name }) => QUICK.includes(name)))
    test(mutation.name, async () => {
      const bench = await newBench()
      let isMissed = false
      for (let seed = 1; seed <= 40 && !isMissed; seed++)
        isMissed = (await simulate(bench, seed, mutation)).violations.length > 0
      expect(isMissed).toBe(true)
    })
})
