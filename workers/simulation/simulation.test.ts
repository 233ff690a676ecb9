import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { startTestPostgres, type TestPostgres } from '../../tools/test/test-postgres.ts'
import { MUTATIONS, type Mutation, NO_MUTATION } from './mutations.ts'
import { type Bench, closeBench, openBench, simulate } from './simulate.ts'

// The first seeds of those that `npm run simulate` plays: hundreds in CI, ten thousand on demand.
setDefaultTimeout(240_000)

/** A few; `.ci/run` plays hundreds. */
const SEEDS = 8

let server: TestPostgres
const benches: Bench[] = []
/** A server of its own: what else its transactions do would be read as news. */
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

test(`the invariants hold in ${SEEDS} seeds, in which every protection that can be taken away from a statement is there`, async () => {
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
        `seed ${seed}: ${violations.map(({ invariant, what }) => `${invariant}: ${what}`).join('\n')}\nagain: npm run simulate -- --seed ${seed} --verbose\n${story.slice(-20).join('\n')}`,
      )
  }
  expect([...faults].sort()).toEqual(['crashed', 'disconnected', 'paused'])
  // One whose words have changed takes nothing away, and says nothing of what would miss it.
  expect([...rewritten]).toEqual([])
})

const isOfStatements = ({ rewrite }: Mutation) => rewrite !== NO_MUTATION.rewrite

test('a seed is the same story in another database, whatever has been played before it', async () => {
  const fresh = await newBench()
  const used = benches[0] ?? (await newBench())
  for (const seed of [3, 17]) {
    const [one, other] = [await simulate(used, seed), await simulate(fresh, seed)]
    expect(other.story).toEqual(one.story)
    expect(other.digest).toBe(one.digest)
  }
})

describe('a protection that is taken away is missed', () => {
  /** The quick ones; `npm run simulate -- --mutations` tries all. */
  const QUICK = [
    'leave branches open',
    'leave attempts open',
    'keep events that have fired',
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
