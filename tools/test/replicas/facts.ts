/** Compares the database with the answers of clients: nothing is lost and nothing has happened twice (docs/architecture.md). */
import type postgres from 'postgres'
import { until } from '../../kit/until.ts'
import { type Acknowledged, type Client, PUBLISHED, SCHEDULED, UPLOADS } from './load.ts'

/** Fewer than the service keeps of a pipeline. */
const KEPT_VERSIONS = 20

/** Waits until no run is active and no file or event waits for its run, then returns every contradiction. */
export async function contradictions(
  sql: postgres.Sql,
  client: Client,
  acknowledged: Acknowledged,
  firings: number,
): Promise<string[]> {
  await until(
    () => sql`
      select 1 from run where status in ('pending', 'running')
      union all select 1 from landing_file where archived_by_run is null
      union all select 1 from trigger_event`,
    (rows) => rows.length === 0,
  )
  const found: string[] = []
  const expectEqual = (what: string, actual: unknown, expected: unknown) => {
    if (!Bun.deepEquals(actual, expected))
      found.push(`${what}: ${JSON.stringify(actual)}, expected ${JSON.stringify(expected)}`)
  }
  const rowsOf = async (pipeline: string, columns: string) =>
    (
      await client.call<{ rows: object[] }>('POST', '/query', {
        sql: `select ${columns} from gold.${pipeline}`,
      })
    ).rows[0]

  const ids = [...acknowledged.runs.values()].map(({ id }) => id)
  expectEqual('I2: distinct runs of keys', new Set(ids).size, acknowledged.runs.size)
  const ends = await sql`
    select status, count(*)::int as runs from run where id = any(${ids}::uuid[]) group by status`
  expectEqual('I1: ends of acknowledged runs', [...ends], [{ status: 'success', runs: ids.length }])
  for (const pipeline of new Set([...acknowledged.runs.values()].map((run) => run.pipeline))) {
    const [requested] = await sql`select count(*)::int as runs from run where pipeline = ${pipeline}`
    const rows = await rowsOf(pipeline, 'count(*)::int as runs')
    expectEqual(`I2: requests and runs of ${pipeline}`, requested?.runs, runsOf(acknowledged, pipeline))
    expectEqual(`I3: rows and runs of ${pipeline}`, rows, requested)
  }
  const [merges] = await sql`
    select count(*)::int as runs, count(distinct merged_commit)::int as commits from run
    where merged_commit is not null`
  expectEqual('I3: commits and merged runs', merges?.commits, merges?.runs)
  const [open] = await sql`select count(*)::int as attempts from run_attempt where state = 'open'`
  expectEqual('I1: open attempts', open?.attempts, 0)

  const uploads = acknowledged.uploads.length
  const [files] = await sql`
    select count(*)::int as files, count(archived_by_run)::int as archived from landing_file`
  expectEqual('I6: files and archived files', files, { files: uploads, archived: uploads })
  expectEqual(
    `I6: rows of gold.${UPLOADS}`,
    await rowsOf(UPLOADS, 'count(*)::int as rows, count(distinct n)::int as files'),
    { rows: uploads, files: uploads },
  )
  const [events] = await sql`
    select count(*)::int as runs, count(distinct trigger_event)::int as events from run
    where trigger_id is not null`
  expectEqual('I2: events and runs of the trigger', events?.runs, events?.events)
  const [scheduled] = await sql`select count(*)::int as runs from run where pipeline = ${SCHEDULED}`
  expectEqual('I2: due times and runs of the schedule', scheduled?.runs, firings)

  const versions = await sql<{ number: number }[]>`
    select v.version_number as number from pipeline_version v join pipeline p on p.id = v.pipeline_id
    where p.name = ${PUBLISHED} order by v.version_number desc limit ${KEPT_VERSIONS}`
  const numbers = Array.from({ length: acknowledged.versions.length }, (_, n) => n + 1)
  expectEqual('I7: acknowledged versions', acknowledged.versions, numbers)
  expectEqual(
    'I7: last stored versions',
    versions.map(({ number }) => number),
    numbers.reverse().slice(0, KEPT_VERSIONS),
  )
  return found
}

const runsOf = ({ runs }: Acknowledged, pipeline: string) =>
  [...runs.values()].filter((run) => run.pipeline === pipeline).length
