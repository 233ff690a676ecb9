// Joins two tables that are larger than the memory of the engine, as runs of the service. ROWS is the number of rows of each
// side (20 million unless it is set; a row has 144 bytes without compression). MEMORY is the limit of the engine, and SPILL that
// of its temporary files. The checksum of the join equals the one that DuckDB computes without a join.
import { DuckDBInstance } from '@duckdb/node-api'
import { startService } from '../tools/service/service.ts'
import { clientOf } from './client.ts'

const ROWS = Number(process.env.ROWS ?? 20_000_000)
const MEMORY = process.env.MEMORY ?? '1GB'
const TEMP = process.env.SPILL ?? '16GB'
/** A key of 8 bytes, a payload of 128 bytes, and a number of 8 bytes. */
const ROW_BYTES = 144
/** A prime that does not divide ROWS, so that multiples of it visit each key once, in a scattered order. */
const STEP = 982_451_653
const GB = 1e9

/** A side of the join: all keys in an order of its own, each with a payload that compresses well. */
const side = (key: string, salt: number) =>
  `select key, repeat(printf('%016x', (hash(key + ${salt}) >> 1)::bigint), 8) as payload, key % 1000 as number
from (select ${key} as key from range(${ROWS}) as r(n))`

const LEFT = side('n', 0)
const RIGHT = side(`(n * ${STEP}) % ${ROWS}`, 7)
const JOINED = `count(*)::varchar as rows, bit_xor(hash(a.payload, b.payload))::varchar as checksum,
  sum(a.number + b.number)::varchar as numbers`

export async function benchLargeJoin() {
  const service = await startService({
    LOG_FORMAT: 'text',
    ENGINE_MEMORY_LIMIT: MEMORY,
    ENGINE_TEMP_LIMIT: TEMP,
    RUNNER_CONCURRENCY: '1',
  })
  try {
    const client = clientOf(service.url)
    const bytes = 2 * ROWS * ROW_BYTES
    console.log(`  2 x ${ROWS} rows, ${(bytes / GB).toFixed(1)} GB; engine: ${MEMORY} of memory`)
    const run = async (name: string, sql: string) => {
      await client.create(name, sql)
      const since = performance.now()
      const { id } = await client.runToSuccess(name)
      const seconds = (performance.now() - since) / 1_000
      const { logs } = await client.call<{ logs: { message: string }[] }>('GET', `/runs/${id}/logs`)
      const log = logs.map(({ message }) => message)
      const cost = log.findLast((line) => line.startsWith('cost:'))
      console.log(`  ${name.padEnd(8)}${seconds.toFixed(0).padStart(6)} s   ${cost}`)
      return log
    }
    await run('left_side', LEFT)
    await run('right_side', RIGHT)
    const lines = await run(
      'joined',
      `select ${JOINED} from {{ ref('gold.left_side') }} a join {{ ref('gold.right_side') }} b using (key)`,
    )
    const progress = lines.filter((line) => line.includes('of the input read'))
    console.log(`  ${progress.length} lines of progress, for example:`)
    for (const share of [0.1, 0.5, 0.9])
      console.log(`    ${progress[Math.floor(progress.length * share)] ?? 'none'}`)
    const { rows } = await client.call<{ rows: object[] }>('POST', '/query', {
      sql: 'select * from gold.joined',
    })
    const expected = await expectedResult()
    const isEqual = JSON.stringify(rows[0]) === JSON.stringify(expected)
    if (!isEqual) throw new Error(`the join is ${JSON.stringify(rows)}, expected ${JSON.stringify(expected)}`)
    console.log(`  the result equals the one without a join: ${JSON.stringify(expected)}`)
  } finally {
    await service.stop()
  }
}

/** Each key has one row on each side, so the joined rows can be computed without a join. */
async function expectedResult(): Promise<unknown> {
  const instance = await DuckDBInstance.create(':memory:')
  try {
    const connection = await instance.connect()
    const payload = (salt: number) => `repeat(printf('%016x', (hash(n + ${salt}) >> 1)::bigint), 8)`
    const reader = await connection.runAndReadAll(
      `select count(*)::varchar as rows, bit_xor(hash(a.payload, b.payload))::varchar as checksum, sum(a.number + b.number)::varchar as numbers
       from (select {payload: ${payload(0)}, number: n % 1000} as a, {payload: ${payload(7)}, number: n % 1000} as b
             from range(${ROWS}) as r(n))`,
    )
    return reader.getRowObjectsJson()[0]
  } finally {
    instance.closeSync()
  }
}
