import { join } from 'node:path'
import { run } from '../../kit/run.ts'
import type { Tally } from '../../kit/tally.ts'
import type { Engines } from './foreign-writes.ts'
import { call, makeTable } from './tables.ts'

const SCRIPT = join(import.meta.dirname, 'snapshots.py')
const LIMIT_MS = 10 * 60_000
const TABLE = 'appended'
/** More than 8 small files, so that runs combine files. */
const RUNS = 12
const ROWS_PER_RUN = 50

/** Every kept state of an append_only table, and the rows that follow one after the other, in each reader. */
export async function judgeIncrementalReads(tally: Tally, engines: Engines): Promise<void> {
  tally.heading('Snapshots of an append_only table')
  await tally.check('runs append rows and combine files', async () => {
    const versions = Array.from(
      { length: RUNS },
      (_, index) =>
        `select range::int as id from range(${index * ROWS_PER_RUN}, ${(index + 1) * ROWS_PER_RUN})`,
    )
    await makeTable(engines.url, { name: TABLE, settings: '-- @merge_strategy: append_only', versions })
    return undefined
  })
  await tally.check('each state equals as_of, and appends are read once', async () => {
    const { history } = await call(engines.url, 'GET', `/tables/default/gold/${TABLE}/history`)
    const states = []
    for (const { commit, snapshot_id } of history.toReversed())
      states.push({ snapshot_id, ids: await idsAt(engines, commit) })
    const task = { url: engines.url, table: TABLE, ...engines.settings, states }
    const { code, output } = await run({
      command: [engines.python, SCRIPT, JSON.stringify(task)],
      limitMs: LIMIT_MS,
    })
    if (states.length !== RUNS) return `${states.length} states instead of ${RUNS}`
    return code === 0 ? undefined : output
  })
}

async function idsAt({ url }: Engines, commit: number): Promise<number[]> {
  const sql = `select id from gold.${TABLE} order by id`
  const { rows } = await call(url, 'POST', '/query', { sql, limit: RUNS * ROWS_PER_RUN, as_of: commit })
  return rows.map(({ id }: { id: number }) => id)
}
