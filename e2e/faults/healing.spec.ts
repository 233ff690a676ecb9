// Every part is killed in every phase of a run. The run succeeds exactly once, main never shows half of it, and no branch or
// attempt stays open.
import { expect, test } from '@playwright/test'
import { holding, startTree, type Tree, until } from './tree.ts'

const ROWS = 1_000
/** Seconds of work for one thread, so that a kill happens during execution. */
const SLOW = `select range as a from range(${ROWS})
where (select max(hash(x.range, y.range)) from range(20000) x, range(15000) y) is not null`

let tree: Tree
test.beforeAll(async () => {
  tree = await startTree()
})
test.afterAll(() => tree.stop())

const PARTS: Record<string, () => Promise<void>> = {
  'the API process': async () => void process.kill(await tree.pidOf('api'), 'SIGKILL'),
  'the runner': async () => void process.kill(await tree.pidOf('runner'), 'SIGKILL'),
  Postgres: async () => void process.kill(await tree.pidOf('postgres'), 'SIGKILL'),
  // SIGUSR2 terminates the worker threads without notice, like a crash.
  'the dispatcher thread': async () => void process.kill(await tree.pidOf('api'), 'SIGUSR2'),
}

/** Brings a run into a phase and holds it there until `release`. */
const PHASES: Record<
  string,
  (id: () => Promise<string>) => Promise<{ id: string; release(): Promise<void> }>
> = {
  async pending(request) {
    const sql = await tree.connect()
    const held = holding(sql, 'lock table run_attempt in share mode')
    await held.taken
    const id = await request()
    expect((await tree.run(id)).status).toBe('pending')
    return { id, release: held.release }
  },
  async executing(request) {
    const id = await request()
    await until(
      () => tree.run(id),
      ({ phase }) => phase === 'executing',
    )
    return { id, release: async () => {} }
  },
  async merging(request) {
    const sql = await tree.connect()
    const held = holding(sql, `select 1 from lake_ref where name = 'main' for update`)
    await held.taken
    const id = await request()
    const watch = await tree.connect()
    await until(
      () => watch`
        select 1 from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%lake_ref%for update%'`,
      (rows) => rows.length > 0,
    )
    await watch.end({ timeout: 1 }).catch(() => {})
    return { id, release: held.release }
  },
}

for (const [part, kill] of Object.entries(PARTS)) {
  for (const [phase, bring] of Object.entries(PHASES)) {
    test(`killing ${part} while a run is ${phase} does not fail the run`, async () => {
      const name = `${part}_${phase}`.toLowerCase().replaceAll(' ', '_')
      await publish(name, phase === 'executing' ? SLOW : `select range as a from range(${ROWS})`)
      const { id, release } = await bring(() => tree.requestRun(name))
      const reader = readingThroughout(name)
      await kill()
      await release()

      expect(await tree.ended(id), tree.log()).toMatchObject({ status: 'success', error: null })
      const counts = await reader.stop()
      expect([...counts].filter((count) => count !== 0 && count !== ROWS)).toEqual([])
      // The API may still be looking for a query service.
      expect(
        await until(
          () => rowsOf(name),
          (rows) => rows !== null,
        ),
      ).toBe(ROWS)
      const sql = await tree.connect()
      expect(await sql`select 1 from main_entry where name = ${name}`).toHaveLength(1)
      expect(await sql`select 1 from transition where entity_id = ${id} and "to" = 'success'`).toHaveLength(1)
      expect(await sql`select name from lake_ref where state = 'open' and name <> 'main'`).toHaveLength(0)
      await sql.end({ timeout: 1 })
    })
  }
}

test('four runs on one stream each succeed once after their runner dies', async () => {
  const names = ['one', 'two', 'three', 'four'].map((n) => `together_${n}`)
  for (const name of names) await publish(name, SLOW.replace('15000', '5000'))
  const readers = names.map(readingThroughout)
  const ids = await Promise.all(names.map(tree.requestRun))
  const runs = () => Promise.all(ids.map(tree.run))
  // As many runs as there are slots have begun; the others wait for a slot.
  await until(runs, (all) => all.some(({ phase }) => phase === 'executing'))
  process.kill(await tree.pidOf('runner'), 'SIGKILL')

  const ended = await Promise.all(ids.map((id) => tree.ended(id, 200_000)))
  for (const one of ended) expect(one, tree.log()).toMatchObject({ status: 'success', error: null })
  const sql = await tree.connect()
  for (const [n, name] of names.entries()) {
    const counts = await readers[n]?.stop()
    expect([...(counts ?? [])].filter((count) => count !== 0 && count !== ROWS)).toEqual([])
    expect(
      await until(
        () => rowsOf(name),
        (rows) => rows !== null,
      ),
    ).toBe(ROWS)
    expect(await sql`select 1 from main_entry where name = ${name}`).toHaveLength(1)
  }
  const steps = await sql<{ event: string; to: string }[]>`
    select event, "to" from transition where entity_id = any(${ids}::uuid[])`
  expect(steps.filter(({ to }) => to === 'success')).toHaveLength(ids.length)
  expect(steps.filter(({ event }) => event === 'runnerLost').length).toBeGreaterThan(0)
  expect(await sql`select name from lake_ref where state = 'open' and name <> 'main'`).toHaveLength(0)
  expect(await sql`select 1 from run_attempt where state = 'open'`).toHaveLength(0)
  await sql.end({ timeout: 1 })
})

test('a log stream that becomes unreadable ends with an error event @sse.error', async () => {
  await publish('unreadable', SLOW)
  // The lock keeps the run from ending before the table is renamed.
  const held = holding(await tree.connect(), `select 1 from lake_ref where name = 'main' for update`)
  await held.taken
  const id = await tree.requestRun('unreadable')
  const response = await fetch(`${tree.url}/api/v1/runs/${id}/logs`, {
    headers: { accept: 'text/event-stream' },
  })
  const sql = await tree.connect()
  await sql`alter table run_log rename to run_log_elsewhere`
  let events = ''
  try {
    events = await response.text()
  } finally {
    await sql`alter table run_log_elsewhere rename to run_log`
    await held.release()
    await sql.end({ timeout: 1 })
  }
  expect(events.trimEnd().split('\n\n').at(-1)).toMatch(/^event: error\ndata: {"message":".+"}$/)
  // The dispatcher requests the lines before the error again and follows the run to its end.
  expect((await tree.ended(id)).status).toBe('success')
})

/** Retries while the service is still recovering. */
const publish = (name: string, source: string) =>
  until(
    () => tree.publish(name, source),
    () => true,
  )

/** Number of rows that a reader sees; null while the table does not exist or the query fails. */
async function rowsOf(name: string): Promise<number | null> {
  const { status, body } = await tree.call<{ rows: { n: number }[] }>('POST', '/query', {
    sql: `select count(*) as n from gold.${name}`,
  })
  return status === 200 ? (body.rows[0]?.n ?? null) : null
}

/** Reads the table repeatedly and collects every row count. */
function readingThroughout(name: string) {
  const counts = new Set<number>()
  let isStopped = false
  const ended = (async () => {
    while (!isStopped) {
      const count = await rowsOf(name).catch(() => null)
      if (count !== null) counts.add(count)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  })()
  return {
    async stop() {
      isStopped = true
      await ended
      return counts
    },
  }
}
