import postgres from 'postgres'
import type { Tally } from '../../kit/tally.ts'
import { until } from '../../kit/until.ts'
import { contradictions } from './facts.ts'
import { type Fleet, namesOf } from './fleet.ts'
import { SIZES, withFleet } from './fleet-check.ts'
import { clientOf, type Load, nothingAcknowledged, prepare, publish, startLoad } from './load.ts'
import { previousVersion } from './previous-version.ts'

/** Operations of clients between two steps. */
const OPERATIONS = 20
const OLD_APIS = namesOf('api', 1, SIZES.api)
const NEW_APIS = namesOf('api', 1 + SIZES.api, SIZES.api)
const SIDECARS = [...namesOf('query', 1, SIZES.query), ...namesOf('runner', 1, SIZES.runner)]
const REVIEWED = 'reviewed'
const ASKED = 'asked'

/** Upgrades a fleet from an earlier version, under load. Clients repeat idempotent requests. */
export async function judgeUpgrade(tally: Tally): Promise<void> {
  const title = 'Rolling upgrade from an earlier version'
  const sizes = { ...SIZES, api: 2 * SIZES.api }
  await withFleet(tally, title, { sizes }, async (fleet) => {
    let root = ''
    await tally.check('the previous version starts', async () => {
      const previous = await previousVersion()
      console.log(`  ${previous.commit.slice(0, 8)}`)
      root = previous.root
      await fleet.start(SIDECARS, root)
      // Replicas of earlier versions that start together race for the creation of the bucket.
      for (const name of OLD_APIS) await fleet.start([name], root)
      return undefined
    })
    if (root === '') return
    await prepare(fleet.url)
    const acknowledged = nothingAcknowledged()
    const load = startLoad(fleet.url, true, acknowledged)
    try {
      await upgrade(tally, fleet, load)
    } finally {
      await load.stop()
    }
    console.log(`  ${load.done()} operations, ${acknowledged.runs.size} runs, ${load.queries()} queries`)
    await tally.check('nothing is lost and nothing has happened twice', async () => {
      const sql = postgres(fleet.databaseUrl, { max: 1, onnotice: () => {} })
      const found = await contradictions(sql, clientOf(fleet.url, true), acknowledged, 0)
      await sql.end()
      return found.join('\n') || undefined
    })
  })
}

async function upgrade(tally: Tally, fleet: Fleet, load: Load): Promise<void> {
  const client = clientOf(fleet.url, true)
  /** Clients work on, without a problem, after this step. */
  const step = (title: string, work: () => Promise<unknown>) =>
    tally.check(title, async () => {
      const problems = load.problems.length
      await work()
      const done = load.done()
      await until(() => load.done() >= done + OPERATIONS)
      return load.problems.slice(problems).join('\n') || undefined
    })

  await step('new replicas start beside old ones', () => fleet.start(NEW_APIS))
  await step('old and new replicas end runs beside each other', async () => {
    await publish(client, ASKED, 'select 1 as n')
    for (const name of [...OLD_APIS, ...NEW_APIS]) {
      // A replica starts the runs that it is asked for. Under load, the others may take every run of the clients.
      const own = clientOf(fleet.urlOf(name), true)
      await until(
        async () => {
          const body = { namespace: 'default', layer: 'gold', pipeline: ASKED }
          const { run_id } = await own.call<{ run_id: string }>('POST', '/runs', body)
          await until(
            () => own.call<RunState>('GET', `/runs/${run_id}`),
            ({ status }) => status === 'success',
          )
          return endedRuns(fleet.urlOf(name))
        },
        (runs) => runs > 0,
      )
    }
  })
  await step('old replicas stop', async () => {
    for (const name of OLD_APIS) await fleet.end(name)
  })
  let id = ''
  await step('a run executes on an old runner and waits for its review', async () => {
    await publish(client, REVIEWED, 'select 1 as n', 'merge: review\n')
    const body = { namespace: 'default', layer: 'gold', pipeline: REVIEWED }
    id = (await client.call<{ run_id: string }>('POST', '/runs', body, REVIEWED)).run_id
    await until(
      () => client.call<RunState>('GET', `/runs/${id}`),
      ({ phase }) => phase === 'review',
    )
  })
  for (const name of SIDECARS)
    await step(`${name} is replaced by its new version`, async () => {
      await fleet.end(name)
      await fleet.start([name])
    })
  await tally.check('the run waits for its review beside new runners', async () => {
    const reviewed = () => client.call<RunState>('GET', `/runs/${id}`)
    await until(reviewed, ({ phase }) => phase === 'review')
    await client.call('POST', `/runs/${id}/approve`, {})
    await until(reviewed, ({ status }) => status === 'success')
    return undefined
  })
}

interface RunState {
  status: string
  phase: string | null
}

/** Runs that this replica has ended. */
async function endedRuns(url: string): Promise<number> {
  const metrics = await (await fetch(`${url}/metrics`)).text()
  return Number(/^sluice_runs_total\{status="success"\} (\d+)$/m.exec(metrics)?.[1] ?? 0)
}
