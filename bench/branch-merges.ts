// Measures merges of branches of one and of 100 tables into main, with durable commits, one after the other and 8 at once. The
// limit, measured in the same benchmark, is one transaction that locks main and writes the same rows in raw INSERTs and UPDATEs.
// No pipeline has a test, so no time of a runner is included.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type MergeService, makeMergeService } from '../app/branches/merges.ts'
import { UNLIMITED } from '../app/core/access.ts'
import { newId } from '../app/core/ids.ts'
import { migrate, openDatabase, type Sql } from '../drizzle/client.ts'
import { startPostgres } from '../sidecars/supervisor/postgres.ts'
import { type Figures, figuresOf, printFigures } from './figures.ts'

const WARM_UP = 10
/** The number of merges of each kind, by the number of tables. */
const MERGES = { 1: 400, 100: 60 }
const AT_ONCE = 8

const anybody = {
  name: null,
  isAdmin: true,
  access: UNLIMITED,
  reader: null,
  signal: new AbortController().signal,
}

export async function benchBranchMerges() {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const server = await startPostgres({ dataDir, log: () => {} })
  try {
    await migrate(server.url)
    const database = openDatabase(server.url, {
      connections: 1,
      rawConnections: AT_ONCE + 1,
      application: 'bench',
    })
    const { sql } = database
    const merges = makeMergeService({
      sql,
      newId,
      gate: async () => ({ results: [], reads: [] }),
      pipelines: { preparePublish: () => Promise.reject(new Error('the benchmark publishes nothing')) },
      resources: undefined,
    })
    for (const [tables, count] of Object.entries(MERGES)) await measure(sql, merges, Number(tables), count)
    await database.close()
  } finally {
    await server.stop()
    await rm(dataDir, { recursive: true, force: true })
  }
}

interface Measured extends Figures {
  perSecond: number
}

async function measure(sql: Sql, merges: MergeService, tables: number, count: number) {
  const total = WARM_UP + count
  for (const kind of ['sluice', 'bare', 'together']) await addBranches(sql, { kind, tables, count: total })
  await sql`vacuum analyze`
  const ways: Record<string, (n: number) => Promise<unknown>> = {
    'merge of a branch': (n) => merges.merge(`sluice-${tables}-${n}`, {}, anybody),
    'bare INSERTs and UPDATEs': (n) => mergeBare(sql, `bare-${tables}-${n}`),
  }
  const samples = new Map<string, number[]>()
  // The two alternate, so that other load on the machine affects both equally.
  for (let n = 0; n < total; n++)
    for (const [name, merge] of Object.entries(ways)) {
      const since = performance.now()
      await merge(n)
      if (n >= WARM_UP) samples.set(name, [...(samples.get(name) ?? []), performance.now() - since])
    }
  const since = performance.now()
  let next = 0
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (next < total) await merges.merge(`together-${tables}-${next++}`, {}, anybody)
    }),
  )
  const together = (1_000 * total) / (performance.now() - since)

  console.log(`\n  ${tables} ${tables === 1 ? 'table' : 'tables'} in each branch`)
  const rows = Object.fromEntries([...samples].map(([name, each]) => [name, measuredOf(each)]))
  printFigures(rows, 'bare INSERTs and UPDATEs')
  for (const [name, { perSecond }] of Object.entries(rows))
    console.log(`  ${name}: ${perSecond.toFixed(0)} merges/s`)
  console.log(`  merge of a branch, ${AT_ONCE} at once: ${together.toFixed(0)} merges/s`)
}

const measuredOf = (samples: readonly number[]): Measured => ({
  ...figuresOf(samples),
  perSecond: (1_000 * samples.length) / samples.reduce((sum, ms) => sum + ms, 0),
})

/** Opens branches at the head of main. Each branch has changed tables of its own, which also exist on main. */
export async function addBranches(
  sql: Sql,
  { kind, tables, count }: { kind: string; tables: number; count: number },
) {
  const prefix = `${kind}-${tables}-`
  await sql.begin(async (tx) => {
    await tx`
      create temporary table made on commit drop as
      select ${prefix} || b as branch, ${prefix} || b || '-' || t as name, gen_random_uuid() as before,
        gen_random_uuid() as after
      from generate_series(0, ${count - 1}::int) b, generate_series(1, ${tables}::int) t`
    await tx`
      insert into lake_content (id, table_uuid, metadata_location, snapshot_id, columns, row_count, size_bytes)
      select id, gen_random_uuid(), 'sluice://lake/' || id, '1', '[{"name": "a", "type": "BIGINT"}]', 1, 100
      from (select before as id from made union all select after from made) content`
    const [main] = await tx<{ number: string }[]>`
      update lake_ref set number = number + 1 where name = 'main' returning number`
    const number = main?.number ?? '0'
    await tx`
      insert into main_entry (namespace, layer, name, content_id, from_commit)
      select 'default', 'gold', name, before, ${number} from made`
    await tx`insert into lake_ref (name, kind, base) select distinct branch, 'user', ${number}::bigint from made`
    await tx`
      insert into branch_entry (ref, namespace, layer, name, content_id, base_content)
      select branch, 'default', 'gold', name, after, before from made`
  })
}

/** The rows of a merge without any check. */
const mergeBare = (sql: Sql, branch: string) =>
  sql.begin(async (tx) => {
    const [main] = await tx<{ number: string }[]>`select number from lake_ref where name = 'main' for update`
    const number = Number(main?.number) + 1
    const id = newId()
    await Promise.all([
      tx`
        update main_entry live set to_commit = ${number} from branch_entry own
        where own.ref = ${branch} and live.to_commit is null and live.namespace = own.namespace
          and live.layer = own.layer and live.name = own.name`,
      tx`
        insert into main_entry (namespace, layer, name, content_id, from_commit)
        select namespace, layer, name, content_id, ${number} from branch_entry where ref = ${branch}`,
      tx`
        insert into lake_commit (id, ref, number, base, message, tables)
        select ${id}, ${branch}, ${number}, ${number - 1}, 'bare',
          array(select namespace || '.' || layer || '.' || name from branch_entry where ref = ${branch} order by 1)`,
      tx`update lake_ref set state = 'merged', closed_at = clock_timestamp() where name = ${branch}`,
      tx`update lake_ref set number = ${number}, head = ${id} where name = 'main'`,
    ])
  })
