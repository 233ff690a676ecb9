import type { Tally } from '../../kit/tally.ts'
import { type Fleet, namesOf, openFleet, type Sizes } from './fleet.ts'

export const SIZES: Sizes = { api: 3, runner: 4, query: 2 }

/** All parts, sidecars first, so that replicas find them. */
export const ALL = [
  ...namesOf('runner', 1, SIZES.runner),
  ...namesOf('query', 1, SIZES.query),
  ...namesOf('api', 1, SIZES.api),
]

/**
 * Runs checks on a fleet of their own with these addresses, and with these parts already started. If a check fails, the log of
 * the fleet is shown.
 */
export async function withFleet(
  tally: Tally,
  title: string,
  { sizes = SIZES, started = [] }: { sizes?: Sizes; started?: readonly string[] },
  work: (fleet: Fleet) => Promise<void>,
): Promise<void> {
  tally.heading(title)
  const failuresBefore = tally.failures.length
  let fleet: Fleet | undefined
  await tally.check('the fleet starts', async () => {
    fleet = await openFleet(sizes)
    await fleet.start(started)
    return undefined
  })
  if (fleet === undefined) return
  const { log, stop } = fleet
  try {
    if (tally.failures.length === failuresBefore) await work(fleet)
  } finally {
    if (tally.failures.length > failuresBefore) tally.note(`Last log lines of the fleet:\n${log()}`)
    await tally.check('the fleet stops', async () => void (await stop()))
  }
}
