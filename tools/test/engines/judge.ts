import { join } from 'node:path'
import { run } from '../../kit/run.ts'
import type { Engine, JudgedTable } from './tables.ts'

const SCRIPT = join(import.meta.dirname, 'readers.py')
const LIMIT_MS = 10 * 60_000

export interface Judged extends JudgedTable {
  /** The warehouse that the engine reads; without: main. */
  warehouse?: string
  /** Statements that make the expected rows in DuckDB, before the query of the last version. */
  prepare?: string[]
}

export interface Judgement {
  python: string
  engine: Engine | 'sluice'
  url: string
  tables: Judged[]
  /** Further parameters of the engine, such as its port. */
  settings?: Record<string, unknown>
}

/** The differences between the rows that an engine reads and the expected rows; undefined: none. */
export async function judge({ python, engine, url, tables, settings }: Judgement) {
  const task = {
    url,
    ...settings,
    tables: tables.map(({ name, versions, without, warehouse, prepare }) => ({
      name,
      query: versions.at(-1),
      without,
      warehouse,
      prepare,
    })),
  }
  const { code, output } = await run({
    command: [python, SCRIPT, engine, JSON.stringify(task)],
    limitMs: LIMIT_MS,
  })
  return code === 0 ? undefined : output
}
