import { join } from 'node:path'
import { run } from '../../kit/run.ts'
import type { Tally } from '../../kit/tally.ts'
import { type Judged, type Judgement, judge } from './judge.ts'
import { call, makeTable, runWith } from './tables.ts'
import { type Author, forAuthor, model, nextModel, WRITTEN } from './writes.ts'

const SCRIPT = join(import.meta.dirname, 'writers.py')
const WRITE_LIMIT_MS = 10 * 60_000
const BRANCH = 'engines'
const AUTHORS: Author[] = ['spark', 'trino', 'pyiceberg']
const READERS = ['sluice', 'pyiceberg', 'duckdb', 'trino', 'spark'] as const

export interface Engines {
  python: string
  url: string
  settings: Record<string, unknown>
}

/** Engines write tables on a branch. All readers must agree on the branch, after the merge, after the owner's run and after maintenance. */
export async function judgeForeignWrites(tally: Tally, engines: Engines): Promise<void> {
  const { url } = engines
  tally.heading('Tables written by Spark, Trino and PyIceberg on a branch')
  await tally.check('runs make the tables, and a branch opens', async () => {
    for (const { name, settings, first } of WRITTEN)
      await makeTable(url, { name, settings, versions: [first] })
    await call(url, 'POST', '/branches', { name: BRANCH })
    return undefined
  })
  for (const author of AUTHORS)
    await tally.check(`${author} writes on the branch`, () => write(engines, author))
  await allRead(tally, engines, { place: 'the branch', warehouse: `sluice@${BRANCH}` })
  await tally.check('the diff of the branch has each table, and the branch merges', async () => {
    const { tables } = await call(url, 'GET', `/branches/${BRANCH}/diff`)
    const missing = WRITTEN.filter(
      ({ name }) => !tables.some((table: { name: string }) => table.name === name),
    )
    if (missing.length > 0) return `missing in the diff: ${missing.map(({ name }) => name)}`
    const { status } = await call(url, 'POST', `/branches/${BRANCH}/merge`, {})
    return status === 'merged' ? undefined : status
  })
  await allRead(tally, engines, { place: 'main', readers: ['sluice'] })
  await tally.check('the next runs of the owners succeed', async () => {
    for (const { name, settings, next } of WRITTEN) await runWith(url, name, `${settings}\n${next}`)
    return undefined
  })
  await allRead(tally, engines, { place: 'main after the runs', readers: ['sluice', 'duckdb'], isNext: true })
  await tally.check('maintenance succeeds', async () => {
    const { failures } = await call(url, 'POST', '/admin/retention/run')
    return failures.length === 0 ? undefined : JSON.stringify(failures)
  })
  await allRead(tally, engines, { place: 'main after maintenance', isNext: true })
}

async function write({ python, url, settings }: Engines, author: Author) {
  const tables = WRITTEN.filter((table) => table.author === author).map(forAuthor)
  const task = { url, warehouse: `sluice@${BRANCH}`, ...settings, tables }
  const { code, output } = await run({
    command: [python, SCRIPT, author, JSON.stringify(task)],
    limitMs: WRITE_LIMIT_MS,
  })
  return code === 0 ? undefined : output
}

interface Reading {
  place: string
  warehouse?: string
  readers?: readonly Judgement['engine'][]
  /** Whether the owner has run again. */
  isNext?: boolean
}

async function allRead(
  tally: Tally,
  { python, url, settings }: Engines,
  { place, warehouse, readers = READERS, isNext = false }: Reading,
) {
  const tables = WRITTEN.map(
    (table): Judged => ({
      name: table.name,
      versions: [`from ${table.name}`],
      refusedBy: table.refusedBy,
      prepare: [...model(table), ...(isNext ? nextModel(table) : [])],
      warehouse,
    }),
  )
  for (const engine of readers) {
    const readable = tables.filter(({ refusedBy }) => !refusedBy?.some((refusing) => refusing === engine))
    await tally.check(`${engine} reads the written rows of ${place}`, () =>
      judge({ python, engine, url, tables: readable, settings }),
    )
  }
}
