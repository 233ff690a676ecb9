// Rows of other slices, for tests of the catalog.
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { newId } from '../core/ids.ts'
import type { TestAttempt, TestCatalog } from '../iceberg/test-catalog.ts'
import { commitToBranch, findBranch } from './store/branches.ts'
import { openUserBranch } from './store/user-branches.ts'

type TestZone = { id: string; name: string }

/** Inserts the run of an attempt and its open attempt. `watermark` is the newest landing file that the attempt may read. */
export async function aRun(
  sql: Sql,
  { runId, branch }: Pick<TestAttempt, 'runId' | 'branch'>,
  { pins = {}, watermark = 1_000_000 }: { pins?: Record<string, string>; watermark?: number } = {},
) {
  const pipelineId = newId()
  await sql`
    insert into pipeline (id, namespace, layer, name, type, draft_snapshot, draft_machine_version, draft_dirty)
    values (${pipelineId}, 'default', 'gold', ${`pipeline-${pipelineId}`}, 'sql', '{}', 1, false)`
  await sql`
    insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones,
      snapshot, machine_version, status)
    values (${runId}, ${pipelineId}, 'default', 'gold', 'target', 'sql', 'manual', ${sql.json(pins)}, '[]',
      '{}', 1, 'running')`
  await sql`
    insert into run_attempt (run_id, attempt, pipeline_id, branch, base_commit, landing_watermark, runner_url)
    values (${runId}, 1, ${pipelineId}, ${branch}, 0, ${watermark}, 'http://127.0.0.1')`
}

export async function aZone(sql: Sql, name: string): Promise<TestZone> {
  const id = newId()
  await sql`insert into landing_zone (id, namespace, name) values (${id}, 'default', ${name})`
  return { id, name }
}

export async function anUpload(
  { sql, objects }: TestCatalog,
  zone: TestZone,
  filename: string,
  content: string,
) {
  const path = `default/landing/${zone.name}/${filename}`
  const { versionId, size } = await objects.put(path, new TextEncoder().encode(content))
  const id = newId()
  const [row] = await sql<{ seq: string }[]>`
    insert into landing_file (id, zone_id, filename, original_name, path, version_id, size_bytes, content_type)
    values (${id}, ${zone.id}, ${filename}, ${filename}, ${path}, ${versionId}, ${size}, 'text/csv')
    returning seq`
  return { id, path, versionId, seq: Number(row?.seq) }
}

/** Commits a new content of a table of default.gold to an open branch, from its head by default. No file has the rows. */
export async function commitToTestBranch(sql: Sql, branch: string, table: string, from?: string | null) {
  const [id, contentId] = [newId(), newId()]
  const committed = await commitToBranch(sql, {
    id,
    branch,
    head: from === undefined ? ((await findBranch(sql, branch))?.head ?? null) : from,
    table: { namespace: 'default', layer: 'gold', name: table },
    tableUuid: newId(),
    snapshotId: '9007199254740993',
    message: 'a commit',
    content: {
      kind: 'table',
      contentId,
      metadataLocation: `s3://sluice/${contentId}`,
      columns: [{ name: 'a', type: 'BIGINT' }],
      rowCount: 3,
      sizeBytes: 2 ** 40,
    },
  })
  return { id, contentId, committed }
}

/** Opens a branch of a user on main at `base`. */
export const openTestBranch = (tx: SqlTx, name: string, base: number) =>
  openUserBranch(tx, {
    name,
    kind: 'user',
    base,
    from: null,
    description: '',
    createdBy: null,
    expiresInHours: null,
  })
