import assert from 'node:assert/strict'
import { newId, type PipelineId, type RunId } from '../app/core/ids.ts'
import { outcomesOf, requestedRuns } from '../app/runs/service.ts'
import type { Sql } from '../drizzle/client.ts'
import { NO_TRACE } from '../ground/telemetry/trace.ts'
import { store } from '../machines/advance.ts'
import { DRAFT_MACHINE_VERSION, newDraft } from '../machines/draft.ts'

/**
 * Inserts `count` published pipelines of `default.gold` as rows, and returns their names. Each version pins three files, as the
 * version of a small pipeline does. The first is named `p` and the number `first`.
 */
export async function addPublished(sql: Sql, count: number, first = 0): Promise<string[]> {
  const rows = Array.from({ length: count }, (_, n) => ({
    id: newId(),
    version: newId(),
    name: `p${first + n}`,
  }))
  await sql`
    insert into pipeline (id, namespace, layer, name, type, draft_snapshot, draft_machine_version, draft_dirty, published_version)
    select p.id, 'default', 'gold', p.name, 'sql', ${sql.json({ ...(store(newDraft()) as object) })}, ${DRAFT_MACHINE_VERSION}, false, 1
    from jsonb_to_recordset(${sql.json(rows)}) as p(id uuid, name text)`
  await sql`
    insert into pipeline_version (id, pipeline_id, version_number, message, pipeline_type, published_versions, landing_zones)
    select p.version, p.id, 1, '', 'sql', jsonb_build_object(
      'default/pipelines/gold/' || p.name || '/pipeline.sql', gen_random_uuid(),
      'default/pipelines/gold/' || p.name || '/config.yaml', gen_random_uuid(),
      'default/pipelines/gold/' || p.name || '/tests/quality/one-row.sql', gen_random_uuid()), '[]'
    from jsonb_to_recordset(${sql.json(rows)}) as p(id uuid, version uuid, name text)`
  return rows.map((row) => row.name)
}

/** Requests a run of each pipeline in one transaction, as due schedules do. Returns the ids of the runs. */
export async function requestRuns(sql: Sql, chosen: readonly { id: PipelineId }[]): Promise<RunId[]> {
  const requests = chosen.map(({ id }) => ({
    id: newId() as RunId,
    pipelineId: id,
    trigger: 'schedule:0 * * * *',
    cause: { scheduleId: newId(), due: new Date() },
    chainDepth: 0,
    landingFileId: null,
    trace: NO_TRACE,
  }))
  const outcomes = outcomesOf(await sql.begin((tx) => requestedRuns(tx, requests)))
  assert([...outcomes.values()].every((outcome) => outcome === 'requested'))
  return requests.map(({ id }) => id)
}
