/**
 * Foreign engines read tables of a real service through `/iceberg` and `/s3`. Each row must equal the row that another DuckDB
 * computes with the pipeline's query.
 */

import { pythonWith } from '../install/python.ts'
import type { Tally } from '../kit/tally.ts'
import { startService } from '../service/service.ts'
import { judge } from './engines/judge.ts'
import { judgeSnippets } from './engines/snippets.ts'
import { type Engine, type JudgedTable, makeTable, readableBy, TABLES } from './engines/tables.ts'

const PACKAGES = [
  'pyiceberg[pyarrow]==0.12.0',
  'duckdb==1.5.5',
  'duckdb-extension-httpfs==1.5.5',
  'duckdb-extension-avro==1.5.5',
  'duckdb-extension-iceberg==1.5.5',
  'chdb==4.4.0',
  'pysail==0.7.2',
  'pyspark-client==4.0.4',
]
const ENGINES = ['pyiceberg', 'duckdb', 'chdb', 'sail'] as const satisfies readonly Engine[]

/** Installs the engines, makes the tables, and lets each engine read all of them. */
export async function judgeByEngines(tally: Tally): Promise<void> {
  tally.heading('Tables read by other engines')
  let python: string | undefined
  let service: Awaited<ReturnType<typeof startService>> | undefined
  await tally.check('PyIceberg, DuckDB, chDB and Sail are installed', async () => {
    python = await pythonWith(PACKAGES)
    return undefined
  })
  await tally.check('the service starts, and its runs make the tables', async () => {
    service = await startService()
    for (const table of TABLES) await makeTable(service.url, table)
    return undefined
  })
  if (service === undefined) return
  const { url, stop } = service
  if (python !== undefined)
    for (const engine of ENGINES) {
      const tables = readableBy(engine)
      const groups = engine === 'sail' ? tables.map((table) => [table]) : [tables]
      for (const group of groups)
        await tally.check(`${engine} reads the rows of ${namesOf(group)}`, () =>
          judge({ python: python ?? '', engine, url, tables: group }),
        )
    }
  await tally.check('the service stops', stop)
  if (python !== undefined) await judgeSnippets(tally, { python, engines: ['duckdb', 'pyiceberg'] })
}

const namesOf = (tables: JudgedTable[]) => (tables.length === 1 ? tables[0]?.name : `${tables.length} tables`)
