// A lake that tests can age artificially, with the reaper's lake duties.
import { afterEach, beforeEach, expect, setDefaultTimeout } from 'bun:test'
import assert from 'node:assert'
import { readdir, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { TableName } from '../../ground/names.ts'
import { keyIn } from '../../lake/iceberg/format/location.ts'
import { parseMetadata, type TableMetadata } from '../../lake/iceberg/format/metadata.ts'
import { directObjects } from '../../workers/runtime/object-calls.ts'
import { addPipeline } from '../../workers/testing.ts'
import { openTestCatalog, type TestAttempt, type TestCatalog } from '../iceberg/test-catalog.ts'
import type { ReaperObjects } from '../retention/store/reaping.ts'
import { reapingNow } from '../retention/test-rows.ts'
import { expireSnapshots } from './snapshot-expiry.ts'
import { closeBranches, headOfMain } from './store/branches.ts'
import { expireLakeHistory } from './store/history.ts'
import { tableAt } from './store/tables.ts'
import { removeUnreferencedFiles } from './unreferenced-files.ts'

type Operation = 'append' | 'overwrite'

/** A table with helpers that run its pipeline. */
export interface SomeTable {
  table: TableName
  /** Starts a run with an open attempt. */
  begin(): Promise<TestAttempt>
  /** Executes a run from its start to its merge. Returns the number of its commit on main. */
  write(query: string, operation?: Operation): Promise<number>
  /** Merges a commit of an attempt and ends its run. Returns the number of the commit on main; null: a conflict failed the run. */
  merge(attempt: TestAttempt, commit: string): Promise<number | null>
  /** Closes an attempt without a merge and fails its run. */
  fail(attempt: TestAttempt): Promise<void>
  /** The current rows of main. */
  rows(): Promise<unknown[]>
  /** The table's metadata on main. */
  metadata(): Promise<TableMetadata>
  /** Keys of the files in the table's directories. */
  files(): Promise<string[]>
}

export const newId = () => crypto.randomUUID()

/** Call once per test file. Each test gets its own lake, because a tick processes the whole lake. */
export function agingLake() {
  setDefaultTimeout(120_000)
  const lake = {} as { catalog: TestCatalog }
  let tables = 0

  beforeEach(async () => {
    lake.catalog = await openTestCatalog()
    ages.length = 0
  })
  afterEach(() => lake.catalog.close())

  async function someTable(): Promise<SomeTable> {
    const { sql } = lake.catalog
    const table: TableName = { namespace: 'default', layer: 'gold', name: `t${tables++}` }
    const { id: pipelineId } = await addPipeline(sql, table.name, { landingZones: [], nudge: () => {} })
    const identifier = { namespace: ['default', 'gold'], name: table.name }

    async function begin() {
      const attempt = await lake.catalog.attempt(table)
      await sql`
        insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones, snapshot,
          machine_version, status, attempt, waiting)
        values (${attempt.runId}, ${pipelineId}, 'default', 'gold', ${table.name}, 'sql', 'manual', '{}', '[]', '{}', 1,
          'running', 1, false)`
      await sql`
        insert into run_attempt (run_id, attempt, pipeline_id, branch, base_commit, landing_watermark, runner_url)
        values (${attempt.runId}, 1, ${pipelineId}, ${attempt.branch}, 0, 0, '')`
      return attempt
    }
    async function end({ runId }: TestAttempt, status: 'success' | 'failed') {
      await sql`update run set status = ${status}, finished_at = clock_timestamp() where id = ${runId}`
      await sql`update run_attempt set state = 'closed', closed_at = clock_timestamp() where run_id = ${runId}`
    }
    async function fail(attempt: TestAttempt) {
      await sql.begin((tx) => closeBranches(tx, [attempt.branch]))
      await end(attempt, 'failed')
    }
    async function merge(attempt: TestAttempt, commit: string) {
      const outcome = await lake.catalog.merge(attempt, commit)
      if (outcome !== 'merged') {
        expect(outcome).toBe('conflict')
        await fail(attempt)
        return null
      }
      await end(attempt, 'success')
      const [row] = await sql<{ number: number }[]>`
        select number::int as number from lake_commit where id = ${commit}`
      assert(row !== undefined)
      return row.number
    }
    return {
      table,
      begin,
      // A merge conflict leads to another execution, as in the dispatcher.
      async write(query, operation = 'overwrite') {
        for (let conflicts = 0; conflicts < 20; conflicts++) {
          const attempt = await begin()
          const { commit } = await attempt.write(query, operation)
          const number = await merge(attempt, commit)
          if (number !== null) return number
        }
        throw new Error('20 conflicts')
      },
      merge,
      fail,
      async rows() {
        const { token, client } = await lake.catalog.reader()
        return lake.catalog.rows(token, (await client.loadTable(identifier)).metadata)
      },
      async metadata() {
        const found = await tableAt(sql, await headOfMain(sql), table)
        assert(found !== null)
        const file = await lake.catalog.objects.text(keyIn(found.metadataLocation))
        assert(file !== null)
        return parseMetadata(file.text)
      },
      async files() {
        const { objects } = await lake.catalog.objects.list(`_lake/default/gold/${table.name}-`, {
          limit: 10_000,
        })
        return objects.map(({ key }) => key)
      },
    }
  }

  /** The times and amounts of artificial aging. */
  const ages: { at: number; ms: number }[] = []

  /** Makes all rows and files older by this many days. */
  async function age(days: number) {
    const { sql } = lake.catalog
    ages.push({ at: Date.now(), ms: days * 86_400_000 })
    const shift = sql`${days} * interval '1 day'`
    await sql`update lake_commit set created_at = created_at - ${shift}`
    await sql`update lake_ref set created_at = created_at - ${shift}, closed_at = closed_at - ${shift},
      kept_until = kept_until - ${shift}`
    await sql`update run set created_at = created_at - ${shift}, finished_at = finished_at - ${shift}`
    const entries = await readdir(join(lake.catalog.objectsRoot, '_lake'), {
      recursive: true,
      withFileTypes: true,
    })
    for (const entry of entries) {
      if (!entry.isFile()) continue
      const path = join(entry.parentPath, entry.name)
      const { mtimeMs } = await stat(path)
      await utimes(path, new Date(), new Date(mtimeMs - days * 86_400_000))
    }
  }

  /** Reads metadata files with their snapshot times shifted by the same ages. */
  const agedObjects = (): ReaperObjects => {
    const direct = directObjects(lake.catalog.objects)
    return {
      ...direct,
      async read(key) {
        const bytes = await direct.read(key)
        if (bytes === null || !key.endsWith('.metadata.json')) return bytes
        const aged = new TextDecoder().decode(bytes).replaceAll(/(?<="timestamp-ms":)\d+/g, (text) => {
          const since = ages.filter(({ at }) => at >= Number(text))
          return String(since.reduce((time, { ms }) => time - ms, Number(text)))
        })
        return new TextEncoder().encode(aged)
      },
    }
  }

  const reaping = (objects: ReaperObjects = agedObjects()) => reapingNow(lake.catalog.sql, objects)

  /** Performs all lake duties of one reaper tick. */
  async function tick(objects?: ReaperObjects) {
    const work = await reaping(objects)
    await expireSnapshots(work, newId)
    await expireLakeHistory(work)
    await removeUnreferencedFiles(work)
    return work.reaped
  }

  const count = async (name: string) => {
    const [row] = await lake.catalog.sql`select count(*)::int as rows from ${lake.catalog.sql(name)}`
    return Number(row?.rows)
  }

  return { lake, someTable, age, agedObjects, reaping, tick, count }
}
