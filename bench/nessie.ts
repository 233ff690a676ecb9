// Measures merges of branches into main over HTTP: Sluice, and Nessie 0.99 with its version store in Postgres and in memory. The
// branches have one or 10 changed tables each, and no pipeline has a test. Only the merges are timed, one after the other and 8
// at once. The branches of Sluice are rows added with SQL. Both Postgres servers have the same settings, with durable commits.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openDatabase, type Sql } from '../drizzle/client.ts'
import { startPostgres } from '../sidecars/supervisor/postgres.ts'
import { startService } from '../tools/service/service.ts'
import { databaseUrlOf } from './client.ts'
import { type Figures, figuresOf, printFigures, timed } from './figures.ts'
import { AT_ONCE, eachAtOnce, type MergeBranch, nessieAt, type Side, sluiceAt } from './merging-sides.ts'
import { IN_MEMORY, inPostgres, installNessie, startNessie } from './nessie-server.ts'

/**
 * Rounds by the number of tables. Each round merges this number of branches one after the other, and as many at once. The JVM
 * compiles the code of merges during the first rounds, which are not counted.
 */
const WORK = { 1: { uncounted: 8, rounds: 10, merges: 20 }, 10: { uncounted: 2, rounds: 8, merges: 12 } }

const SLUICE = 'Sluice'
const PEER = 'Nessie, Postgres'

export async function benchNessie() {
  const nessie = await installNessie()
  const stops: (() => Promise<unknown>)[] = [nessie.remove]
  const databaseAt = (url: string): Sql => {
    const database = openDatabase(url, { connections: 1, rawConnections: 1, application: 'bench' })
    stops.push(database.close)
    return database.sql
  }
  try {
    const service = await startService({ LOG_FORMAT: 'text' })
    stops.push(service.stop)
    const dataDir = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
    stops.push(() => rm(dataDir, { recursive: true }))
    const postgres = await startPostgres({ dataDir, log: () => {} })
    stops.push(postgres.stop)
    const databases = {
      [SLUICE]: databaseAt(databaseUrlOf(service.dataDir)),
      [PEER]: databaseAt(postgres.url),
    }
    await printDurability(databases)
    const persistent = await startNessie(nessie, inPostgres(postgres.url))
    stops.push(persistent.stop)
    const inMemory = await startNessie(nessie, IN_MEMORY)
    stops.push(inMemory.stop)
    const sides = {
      [SLUICE]: sluiceAt(service.url, databases[SLUICE]),
      [PEER]: nessieAt(persistent.url),
      'Nessie, in memory': nessieAt(inMemory.url),
    }
    for (const [tables, work] of Object.entries(WORK))
      await measure(sides, Object.values(databases), { tables: Number(tables), ...work })
  } finally {
    for (const stop of stops.toReversed()) await stop()
  }
}

interface Work {
  tables: number
  uncounted: number
  rounds: number
  merges: number
}

async function measure(
  sides: Record<string, Side>,
  databases: readonly Sql[],
  { tables, uncounted, rounds, merges }: Work,
) {
  const measured = Object.entries(sides).map(([name, side]) => new Measured(name, side))
  for (let round = 0; round < uncounted + rounds; round++) {
    const merging: [Measured, MergeBranch][] = []
    for (const each of measured)
      merging.push([each, await each.side.open({ kind: `round-${round}`, tables, count: 2 * merges })])
    for (const sql of databases) await sql`vacuum analyze`
    // The sides alternate, so that other load on the machine affects all equally.
    for (const [each, merge] of merging) {
      const alone = await timed(merges, merge)
      let refused = 0
      const together = await timed(1, () =>
        eachAtOnce({ from: merges, to: 2 * merges }, async (n) => (refused += await merge(n))),
      )
      if (round < uncounted) continue
      each.alone.push(...alone)
      each.together.push(...together)
      each.refused += refused
    }
  }
  print(tables, measured, merges)
}

class Measured {
  /** The milliseconds of each merge. */
  readonly alone: number[] = []
  /** The milliseconds of the merges at once in each round. */
  readonly together: number[] = []
  /** The number of refused attempts of the merges at once. */
  refused = 0

  constructor(
    readonly name: string,
    readonly side: Side,
  ) {}
}

function print(tables: number, measured: readonly Measured[], mergesOfRound: number) {
  console.log(`\n  ${tables} changed ${tables === 1 ? 'table' : 'tables'} in each branch`)
  const rows = measured.map(({ name, alone }): [string, Figures] => [name, figuresOf(alone)])
  printFigures(Object.fromEntries(rows), PEER)
  // A JVM that still compiles is faster in the last round.
  for (const { name, alone } of measured) {
    const [first, last] = [alone.slice(0, mergesOfRound), alone.slice(-mergesOfRound)].map(figuresOf)
    console.log(
      `  ${name}: p50 of the first round ${first?.p50.toFixed(1)} ms, of the last ${last?.p50.toFixed(1)} ms`,
    )
  }
  const rates = measured.map(({ alone, together }) => ({
    alone: (1_000 * alone.length) / sumOf(alone),
    together: (1_000 * together.length * mergesOfRound) / sumOf(together),
  }))
  const [sluice, ...peers] = rates
  console.log(`  merges/s${''.padEnd(20)}one by one   ${AT_ONCE} at once   refused attempts`)
  for (const [n, { name, refused }] of measured.entries())
    console.log(
      `  ${name.padEnd(24)}${cell(rates[n]?.alone, 0)}${cell(rates[n]?.together, 0)}${String(refused).padStart(15)}`,
    )
  for (const [n, peer] of peers.entries())
    console.log(
      `  ${`Sluice / ${measured[n + 1]?.name}`.padEnd(27)}${cell((sluice?.alone ?? 0) / peer.alone, 2)}${cell((sluice?.together ?? 0) / peer.together, 2)}`,
    )
}

const sumOf = (samples: readonly number[]) => samples.reduce((sum, ms) => sum + ms, 0)
const cell = (value: number | undefined, digits: number) => (value ?? Number.NaN).toFixed(digits).padStart(12)

/** Prints the settings of both databases that decide about durable commits. */
async function printDurability(databases: Record<string, Sql>) {
  for (const [name, sql] of Object.entries(databases)) {
    const settings = await sql<{ name: string; setting: string }[]>`
      select name, setting from pg_settings
      where name in ('fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers') order by name`
    console.log(`  ${name}: ${settings.map((row) => `${row.name} ${row.setting}`).join(', ')}`)
  }
}
