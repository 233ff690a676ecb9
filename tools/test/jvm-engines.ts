/**
 * `npm run test:engines`: Spark and Trino read tables of a real service and write to branches of it. Other engines read each
 * written table as well. Maven and PyPI provide the engines.
 */

import { inScratch } from '../kit/scratch.ts'
import { Tally } from '../kit/tally.ts'
import { type Service, startService } from '../service/service.ts'
import { judgeForeignWrites } from './engines/foreign-writes.ts'
import { judgeIncrementalReads } from './engines/incremental.ts'
import { judge } from './engines/judge.ts'
import { hadoopForS3, javaOf, pythonWithEngines, sparkJars } from './engines/jvm.ts'
import { judgeSnippets } from './engines/snippets.ts'
import { type SparkConnect, startSparkConnect } from './engines/spark-connect.ts'
import { CORPUS } from './engines/spark-corpus.ts'
import { judgeDemo } from './engines/spark-demo.ts'
import {
  ended,
  judgeBehaviour,
  judgeCorpus,
  judgeStrategies,
  startEndless,
} from './engines/spark-pipelines.ts'
import { makeTable, readableBy, TABLES } from './engines/tables.ts'
import { installTrino, startTrino, type Trino } from './engines/trino.ts'

/** Every n-th query of the corpus: Spark needs seconds for each, and Sail executes all of them in `npm run test:sail`. */
const CORPUS_STEP = 5

/** Pipelines in Spark SQL, on a cluster that is lost at the end. */
async function judgeSparkConnect(tally: Tally, python: string, jars: readonly string[]): Promise<void> {
  tally.heading('Pipelines in Spark SQL')
  let cluster: SparkConnect | undefined
  let service: Service | undefined
  await tally.check('a Spark Connect server starts, and the service uses it', async () => {
    cluster = await startSparkConnect(python, [...jars, ...(await hadoopForS3())])
    service = await startService({ SPARK_REMOTE: cluster.remote })
    return undefined
  })
  if (cluster && service) {
    const { url } = service
    const spark = { url, engine: 'Spark' }
    await judgeStrategies(tally, spark)
    await judgeCorpus(
      tally,
      spark,
      CORPUS.filter((_, index) => index % CORPUS_STEP === 0),
    )
    await judgeBehaviour(tally, spark)
    await judgeDemo(tally, spark)
    await tally.check('a run fails when its cluster is lost, and leaves no trace', async () => {
      const id = await startEndless(url, 'lost')
      await cluster?.stop()
      const { status, error } = await ended(url, id)
      return status === 'failed' && /does not answer/.test(error ?? '') ? undefined : `${status}: ${error}`
    })
  }
  await tally.check('the service of Spark stops', async () => service?.stop())
  await cluster?.stop()
}

await inScratch(async () => {
  const tally = new Tally()
  let python = ''
  let jars: string[] = []
  let service: Service | undefined
  let trino: Trino | undefined

  tally.heading('Requirements')
  await tally.check('Python packages of Spark, Trino, PyIceberg and DuckDB', async () => {
    python = await pythonWithEngines()
    return undefined
  })
  await tally.check('the Iceberg runtime of Spark', async () => {
    jars = await sparkJars()
    return undefined
  })
  await tally.check('Trino', async () => {
    await installTrino()
    trino = await startTrino(await javaOf(python))
    return undefined
  })
  await tally.check('the service starts, and its runs make the tables', async () => {
    service = await startService()
    for (const table of TABLES) await makeTable(service.url, table)
    return undefined
  })

  if (service && trino) {
    const url = service.url
    const settings = { jars, port: trino.port }
    tally.heading('Tables read by Spark and Trino')
    for (const engine of ['spark', 'trino'] as const) {
      const tables = readableBy(engine)
      await tally.check(`${engine} reads the rows of ${tables.length} tables`, () =>
        judge({ python, engine, url, tables, settings }),
      )
    }
    await judgeIncrementalReads(tally, { python, url, settings })
    await judgeForeignWrites(tally, { python, url, settings })
  }
  await tally.check('the service stops', async () => service?.stop())
  await trino?.stop()
  if (jars.length > 0) await judgeSnippets(tally, { python, engines: ['spark'] })
  if (jars.length > 0) await judgeSparkConnect(tally, python, jars)
  return tally.conclude()
})
