/**
 * `npm run test:sail`: pipelines of a real service in Spark SQL, executed by Sail. PyPI provides Sail. Spark itself executes the same
 * pipelines in `npm run test:engines`.
 */
import { judgeBehaviour, judgeCorpus, judgeStrategies } from './engines/spark-pipelines.ts'
import { pythonWith } from './python.ts'
import { inScratch } from './scratch.ts'
import { type Service, startService } from './service.ts'
import { Tally } from './tally.ts'

export const SAIL = 'pysail==0.7.2'

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
  }
  await tally.check('the service stops', async () => service?.stop())
  return tally.conclude()
})
