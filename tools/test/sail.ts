/**
 * `npm run test:sail`: pipelines of a real service in Spark SQL, executed by Sail. PyPI provides Sail. Spark itself executes the same
 * pipelines in `npm run test:engines`.
 */
import { readdir, readFile, readlink } from 'node:fs/promises'
import { judgeDemo } from './engines/spark-demo.ts'
import {
  ended,
  judgeBehaviour,
  judgeCorpus,
  judgeStrategies,
  publish,
  runToEnd,
  SPARK,
  startEndless,
} from './engines/spark-pipelines.ts'
import { call } from './engines/tables.ts'
import { pythonWith } from './python.ts'
import { inScratch } from './scratch.ts'
import { type Service, startService } from './service.ts'
import { Tally } from './tally.ts'
import { until } from './until.ts'

export const SAIL = 'pysail==0.7.2'

/** The processes of Sail of a service. Each works in the data directory. */
async function sailsOf({ dataDir }: Service): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const isSail = async (pid: string) => {
    const [command, directory] = await Promise.all([
      readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => ''),
      readlink(`/proc/${pid}/cwd`).catch(() => ''),
    ])
    return command.includes('pysail') && directory.startsWith(dataDir)
  }
  const found = await Promise.all(pids.map(async (pid) => ((await isSail(pid)) ? [Number(pid)] : [])))
  return found.flat()
}

/** SQL of users reaches no other server through Sail. */
async function judgeSandbox(tally: Tally, { url }: Service): Promise<void> {
  tally.heading('Sandbox of Sail')
  await tally.check('a query cannot call another server of this machine', async () => {
    let visits = 0
    const server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch() {
        visits += 1
        return new Response('{"secret": 1}\n')
      },
    })
    try {
      const query = `select * from json.\`http://127.0.0.1:${server.port}/secret.json\``
      await publish(url, 'spying', { ...SPARK, 'pipeline.sql': query })
      const { status } = await runToEnd(url, 'spying')
      return status === 'failed' && visits === 0 ? undefined : `${status}, ${visits} visits`
    } finally {
      await server.stop(true)
    }
  })
}

/** A silent engine is lost after a minute. */
const LOSS_LIMIT_MS = 90_000

/** The engine of a run is killed, or does not answer any more. */
async function judgeLoss(tally: Tally, service: Service): Promise<void> {
  const { url } = service
  tally.heading('Lost processes of Sail')
  await tally.check('a run whose Sail is killed is executed again', async () => {
    const id = await startEndless(url, 'killed')
    const [pid] = await until(
      () => sailsOf(service),
      (pids) => pids.length > 0,
    )
    process.kill(pid ?? 0, 'SIGKILL')
    await until(
      () => call(url, 'GET', `/runs/${id}/logs`),
      ({ logs }) =>
        logs.some(({ message }: { message: string }) => message.includes('engine lost in attempt 1')),
    )
    await call(url, 'POST', `/runs/${id}/cancel`)
    const { status } = await ended(url, id)
    return status === 'cancelled' ? undefined : status
  })
  await tally.check('a run whose Sail stands still is executed again', async () => {
    const id = await startEndless(url, 'stopped')
    for (const pid of await sailsOf(service)) process.kill(pid, 'SIGSTOP')
    await until(
      () => call(url, 'GET', `/runs/${id}/logs`),
      ({ logs }) =>
        logs.some(({ message }: { message: string }) => /lost in attempt 1: .*not answer/.test(message)),
      LOSS_LIMIT_MS,
    )
    await call(url, 'POST', `/runs/${id}/cancel`)
    const { status } = await ended(url, id)
    await until(
      () => sailsOf(service),
      (pids) => pids.length === 0,
    )
    return status === 'cancelled' ? undefined : status
  })
}

await inScratch(async () => {
  const tally = new Tally()
  let service: Service | undefined
  tally.heading('Requirements')
  await tally.check('the service finds Sail', async () => {
    const python = await pythonWith([SAIL])
    let isFound = false
    service = await startService({ PYTHON_BIN: python }, (line) => {
      isFound ||= line.includes('engine spark: Sail')
    })
    return isFound ? undefined : service.log()
  })
  if (service) {
    const spark = { url: service.url, engine: 'Sail' }
    await judgeStrategies(tally, spark)
    await judgeCorpus(tally, spark)
    await judgeBehaviour(tally, spark)
    await judgeDemo(tally, spark)
  }
  if (service) {
    await judgeSandbox(tally, service)
    await judgeLoss(tally, service)
  }
  await tally.check('the service stops', async () => service?.stop())
  return tally.conclude()
})
