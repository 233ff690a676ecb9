/** The pipelines of the demo in Spark SQL, compared with the demo's own. */
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Tally } from '../../kit/tally.ts'
import { differenceOf, SPARK, type SparkService, succeed } from './spark-pipelines.ts'
import { call } from './tables.ts'

const ROOT = join(import.meta.dirname, '..', '..', '..')
const DATA = join(ROOT, 'node_modules', 'vega-datasets', 'data')
const FILES = { flights: 'flights-3m.parquet', airports: 'airports.csv' }

/** One decimal, and the error of its representation. */
const ROUNDING = 0.1001

/** A path in Spark SQL has no options, so the header is a row. Spark keeps doubled quotes as they are, and Sail does not. */
const AIRPORTS = `select _c0 as iata,
  case when _c1 like '"%"' then replace(substring(_c1, 2, length(_c1) - 2), '""', '"') else _c1 end as name, _c2 as city, _c3 as state, _c4 as country,
  cast(_c5 as double) as latitude, cast(_c6 as double) as longitude
from csv.\`{{ landing_zone('airports') }}\` where _c0 <> 'iata'`

/** The demo's SQL reads tables of three layers. Here each engine has its own tables in one layer. */
const ofDemo = async (path: string, engine: string) =>
  (await readFile(join(ROOT, 'examples', 'flights', path, 'pipeline.sql'), 'utf8')).replace(
    /ref\('(\w+)\.(\w+)'\)/g,
    `ref('gold.demo_$1_$2_${engine}')`,
  )

/** The demo's queries in the words of Spark SQL. */
const inSpark = (sql: string) =>
  sql
    .replace(/extract\(hour from departed_at\)::integer/, 'cast(extract(hour from departed_at) as int)')
    .replace(/([\w.]+|\([^()]*\))::integer/g, 'cast($1 as int)')
    .replace(/quantile_cont\(/g, 'percentile(')
    .replace('group by all', 'group by origin, destination, cast(extract(hour from departed_at) as int)')

const PIPELINES: Record<string, (engine: 'duckdb' | 'spark') => Promise<string>> = {
  bronze_flights: async (engine) =>
    engine === 'duckdb'
      ? ofDemo('bronze/flights', engine)
      : "select * from parquet.`{{ landing_zone('flights') }}`",
  bronze_airports: async (engine) => (engine === 'duckdb' ? ofDemo('bronze/airports', engine) : AIRPORTS),
  silver_flights: (engine) => ofDemo('silver/flights', engine),
  gold_route_delays: (engine) => ofDemo('gold/route_delays', engine),
}

/** Runs the demo in both engines. All tables must have equal rows. */
export async function judgeDemo(tally: Tally, { url, engine }: SparkService): Promise<void> {
  tally.heading(`The demo in ${engine}`)
  await tally.check('its files are uploaded', async () => {
    for (const [name, file] of Object.entries(FILES)) {
      await call(url, 'POST', '/landing-zones', { namespace: 'default', name })
      const form = new FormData()
      form.append('file', Bun.file(join(DATA, file)), basename(file))
      const answer = await fetch(`${url}/api/v1/landing-zones/default/${name}/files`, {
        method: 'POST',
        body: form,
      })
      if (!answer.ok) return `${answer.status} ${await answer.text()}`
    }
    return undefined
  })
  for (const [name, textOf] of Object.entries(PIPELINES))
    await tally.check(`${name.replace('_', '.')} has equal rows`, async () => {
      const [duckdb, spark] = [`demo_${name}_duckdb`, `demo_${name}_spark`]
      await succeed(url, duckdb, { 'pipeline.sql': await textOf('duckdb') })
      const run = await succeed(url, spark, { ...SPARK, 'pipeline.sql': inSpark(await textOf('spark')) })
      console.log(`         ${run.lines.find((line) => / rows? in /.test(line))}`)
      return differenceOf(url, duckdb, spark, name === 'gold_route_delays' ? ['p95_delay'] : [])
    })
  // Engines interpolate in another order, and 149.55 may become 149.5 or 149.6.
  await tally.check('the percentiles of gold.route_delays differ by a rounding at most', async () => {
    const join = 'join gold.demo_gold_route_delays_spark s using (origin, destination, hour)'
    const sql = `select count(*) as n, max(abs(d.p95_delay - s.p95_delay)) as most from gold.demo_gold_route_delays_duckdb d ${join}`
    const { rows } = await call(url, 'POST', '/query', { sql })
    return rows[0].n > 0 && rows[0].most < ROUNDING ? undefined : JSON.stringify(rows)
  })
}
