// Measures the cost of traces: runs of many pipelines at once, and queries one by one, with and without a collector, in turns. The
// collector of this process only counts.
import { openDatabase } from '../drizzle/client.ts'
import { startService } from '../tools/service/service.ts'
import { clientOf, databaseUrlOf } from './client.ts'
import { figuresOf, timed } from './figures.ts'
import { manyAtOnce, publish } from './run-latency.ts'

const ROUNDS = 3
const PIPELINES = 16
const WARM_UP = 50
const QUERIES = 500

interface Measured {
  runsPerSecond: number
  queryMs: number
}

export async function benchTraces() {
  let batches = 0
  const collector = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      await request.arrayBuffer()
      batches += 1
      return Response.json({})
    },
  })
  const sides: Record<string, { env: Record<string, string>; rounds: Measured[] }> = {
    'without traces': { env: {}, rounds: [] },
    'with traces': { env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url.origin }, rounds: [] },
  }
  try {
    for (let round = 0; round < ROUNDS; round++)
      for (const side of Object.values(sides)) side.rounds.push(await measure(side.env))
  } finally {
    await collector.stop(true)
  }
  const [plain, traced] = Object.values(sides).map(({ rounds }) => ({
    runsPerSecond: median(rounds.map((each) => each.runsPerSecond)),
    queryMs: median(rounds.map((each) => each.queryMs)),
  }))
  for (const [name, { rounds }] of Object.entries(sides)) {
    const each = rounds.map((one) => `${one.runsPerSecond.toFixed(1)} runs/s, ${one.queryMs.toFixed(2)} ms`)
    console.log(`  ${name.padEnd(16)}${each.join('; ')}`)
  }
  if (plain === undefined || traced === undefined) return
  console.log(
    `  medians: runs ${(plain.runsPerSecond / traced.runsPerSecond).toFixed(2)} times, query ${(traced.queryMs / plain.queryMs).toFixed(2)} times; ${batches} batches of spans`,
  )
}

async function measure(env: Record<string, string>): Promise<Measured> {
  const service = await startService(env)
  const database = openDatabase(databaseUrlOf(service.dataDir), {
    connections: 1,
    rawConnections: 4,
    application: 'bench',
  })
  try {
    const client = clientOf(service.url)
    const names = Array.from({ length: PIPELINES }, (_, n) => `one-${n}`)
    for (const name of names) await publish(client, name)
    const { perSecond } = await manyAtOnce(client, names, database.sql)
    const query = () => client.call('POST', '/query', { sql: 'select 1 as a' })
    await timed(WARM_UP, query)
    return { runsPerSecond: perSecond, queryMs: figuresOf(await timed(QUERIES, query)).p50 }
  } finally {
    await database.close()
    await service.stop()
  }
}

const median = (values: readonly number[]) => figuresOf(values).p50
