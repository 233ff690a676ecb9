/**
 * `npm run test:sail`: pipelines of a real service in Spark SQL, executed by Sail. PyPI provides Sail. Spark itself executes the same
 * pipelines in `npm run test:engines`.
 */
import { readdir, readFile, readlink } from 'node:fs/promises'
import { installed } from '../install/apt.ts'
import { pythonWith } from '../install/python.ts'
import { inScratch } from '../kit/scratch.ts'
import { Tally } from '../kit/tally.ts'
import { until } from '../kit/until.ts'
import { type Service, startService } from '../service/service.ts'
import { judgeDemo } from './engines/spark-demo.ts'
import {
  differenceOf,
  ended,
  judgeBehaviour,
  judgeCorpus,
  judgeStrategies,
  publish,
  runToEnd,
  SPARK,
  startEndless,
  succeed,
} from './engines/spark-pipelines.ts'
import { call } from './engines/tables.ts'

const SAIL = 'pysail==0.7.2'

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
async function judgeSandbox(tally: Tally, service: Service): Promise<void> {
  const { url } = service
  tally.heading('Sandbox of Sail')
  await tally.check('Sail listens on no port of this machine', async () => {
    const id = await startEndless(url, 'hidden')
    const sails = await until(
      () => sailsOf(service),
      (pids) => pids.length > 0,
    )
    const shared = await readlink('/proc/self/ns/net')
    const own = await Promise.all(sails.map((pid) => readlink(`/proc/${pid}/ns/net`)))
    await call(url, 'POST', `/runs/${id}/cancel`)
    await ended(url, id)
    // The program that makes the network stays outside of it.
    return own.some((network) => network !== shared) ? undefined : own.join(' ')
  })
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

const JOIN = `select a.v as v, count(*) as n, sum(a.id) as s, max(b.v) as m
  from {{ ref('gold.wide') }} a join {{ ref('gold.wide') }} b on a.id = b.id group by a.v`

/** Runs with `engine: auto` on a runner with little memory. */
async function judgeAuto(tally: Tally, python: string): Promise<void> {
  tally.heading('Runs that move from DuckDB to Sail')
  let service: Service | undefined
  await tally.check('a service with little memory starts', async () => {
    service = await startService({
      PYTHON_BIN: python,
      RUNNER_CONCURRENCY: '1',
      ENGINE_MEMORY_LIMIT: '150MB',
      AUTO_SPILL_LIMIT: '5MB',
    })
    const query = 'select range as id, md5(range::varchar) as v from range(1000000)'
    await succeed(service.url, 'wide', { 'pipeline.sql': query })
    return undefined
  })
  if (service === undefined) return
  const { url, stop } = service
  const auto = { 'config.yaml': 'engine: auto' }
  await tally.check('a run that spills too much moves, and its rows are those of DuckDB', async () => {
    await succeed(url, 'in_duckdb', { 'pipeline.sql': JOIN })
    const { lines } = await succeed(url, 'moved', { ...auto, 'pipeline.sql': JOIN })
    const isMoved = lines.some((line) => /^DuckDB lacks memory, so Sail .*AUTO_SPILL_LIMIT/.test(line))
    return isMoved ? differenceOf(url, 'in_duckdb', 'moved') : lines.join('\n')
  })
  await tally.check('a run that fits stays in DuckDB', async () => {
    const { lines } = await succeed(url, 'small', { ...auto, 'pipeline.sql': 'select 5 // 2 as a' })
    return lines.some((line) => line.startsWith('session on')) ? lines.join('\n') : undefined
  })
  await tally.check('a run whose query Sail does not know fails with both reasons', async () => {
    const query = `${JOIN} qualify row_number() over (order by a.v) > 0`
    await publish(url, 'stuck', { ...auto, 'pipeline.sql': query })
    const { status, lines } = await runToEnd(url, 'stuck')
    const isTold = lines.some((line) => line.startsWith('DuckDB lacks memory'))
    return status === 'failed' && isTold ? undefined : `${status}\n${lines.join('\n')}`
  })
  await tally.check('the service with little memory stops', stop)
}

/** A silent engine is lost after a minute. */
const LOSS_LIMIT_MS = 90_000
/** Moments after the start of a session: its query is parsed at first, then executed. */
const KILLED_AFTER_MS = [0, 25, 50, 75, 100, 150, 200, 300]

/** The engine of a run is killed, or does not answer any more. */
async function judgeLoss(tally: Tally, service: Service): Promise<void> {
  const { url } = service
  tally.heading('Lost processes of Sail')
  await tally.check('a run whose Sail is killed is executed again, at each moment of its query', async () => {
    for (const afterMs of KILLED_AFTER_MS) {
      const id = await startEndless(url, 'killed')
      const [pid] = await until(
        () => sailsOf(service),
        (pids) => pids.length > 0,
      )
      await Bun.sleep(afterMs)
      process.kill(pid ?? 0, 'SIGKILL')
      await until(
        () => call(url, 'GET', `/runs/${id}/logs`),
        ({ logs }) =>
          logs.some(({ message }: { message: string }) => message.includes('engine lost in attempt 1')),
      )
      await call(url, 'POST', `/runs/${id}/cancel`)
      const { status } = await ended(url, id)
      if (status !== 'cancelled') return `killed after ${afterMs} ms: ${status}`
      await until(
        () => sailsOf(service),
        (pids) => pids.length === 0,
      )
    }
    return undefined
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
  let python = ''
  tally.heading('Requirements')
  await tally.check('bubblewrap, which makes the network of Sail', async () => {
    const find = () => Bun.which('bwrap')
    if (find() === null) await installed('bubblewrap', find)
    return undefined
  })
  await tally.check('the service finds Sail', async () => {
    python = await pythonWith([SAIL])
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
  if (python !== '') await judgeAuto(tally, python)
  return tally.conclude()
})
