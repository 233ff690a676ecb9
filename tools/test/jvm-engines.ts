/**
 * `npm run test:engines`: Spark and Trino read tables of a real service and write to branches of it. Other engines read each
 * written table as well. Maven and PyPI provide the engines.
 */
import { judgeForeignWrites } from './engines/foreign-writes.ts'
import { judgeIncrementalReads } from './engines/incremental.ts'
import { judge } from './engines/judge.ts'
import { javaOf, pythonWithEngines, sparkJars } from './engines/jvm.ts'
import { makeTable, readableBy, TABLES } from './engines/tables.ts'
import { installTrino, startTrino, type Trino } from './engines/trino.ts'
import { inScratch } from './scratch.ts'
import { type Service, startService } from './service.ts'
import { Tally } from './tally.ts'

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
  return tally.conclude()
})
