// Measures Spark and Trino on rows that Sluice wrote, and on the same rows written by Spark. BENCH_ROWS sets the number of rows.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../tools/kit/run.ts'
import { startService } from '../tools/service/service.ts'
import { javaOf, pythonWithEngines, sparkJars } from '../tools/test/engines/jvm.ts'
import { installTrino, startTrino } from '../tools/test/engines/trino.ts'
import { clientOf } from './client.ts'

const ROWS = Number(process.env.BENCH_ROWS ?? 1_000_000)
const SCRIPT = join(import.meta.dirname, 'engines-read.py')
const LIMIT_MS = 60 * 60_000

const SQL = `
  select i as id, (i * 7919) % 100003 as amount, 'customer ' || (i * 31) % 50000 as customer,
         timestamp '2024-01-01' + to_seconds(i) as seen, hash(i) % 1000 / 8.0 as score
  from range(${ROWS}) t(i)`

export async function benchEnginesRead() {
  const python = await pythonWithEngines()
  const jars = await sparkJars()
  await installTrino()
  const service = await startService({ LOG_FORMAT: 'text' })
  const trino = await startTrino(await javaOf(python))
  try {
    const client = clientOf(service.url)
    await client.create('ours', SQL)
    await client.runToSuccess('ours')
    await client.call('POST', '/branches', { name: 'bench' })
    const task = { url: service.url, jars, port: trino.port }
    for (const engine of ['spark', 'trino']) {
      console.log(`  ${ROWS} rows, ${engine}; seconds, best of three`)
      const { code, output } = await run({
        command: [python, SCRIPT, engine, JSON.stringify(task)],
        limitMs: LIMIT_MS,
      })
      if (code !== 0) throw new Error(output)
      for (const line of output.split('\n')) if (line.startsWith('  ')) console.log(line)
    }
  } finally {
    await trino.stop()
    await service.stop()
    // The virtual environment.
    await rm(join(python, '..', '..'), { recursive: true })
  }
}
