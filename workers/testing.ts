// Shared by the tests of workers: pipelines to run, and contents of their tables.

import { newId, type PipelineId, type RunId } from '../app/core/ids.ts'
import { makeNotices, makeRunService } from '../app/runs/service.ts'
import { commitToBranch, findBranch } from '../app/versions/store/branches.ts'
import type { Sql } from '../drizzle/client.ts'
import { store } from '../machines/advance.ts'
import { DRAFT_MACHINE_VERSION, newDraft } from '../machines/draft.ts'
import type { SubmitPipelineRequest } from '../proto/gen/sluice/runner/v1/runner_pb.ts'

/** Inserts a published pipeline as rows. Its runs pin nothing, because no test reads files. */
export async function addPipeline(
  sql: Sql,
  name: string,
  { landingZones, nudge }: { landingZones: string[]; nudge(about: 'runRequested' | 'outbox'): void },
) {
  const id = newId() as PipelineId
  await sql`
    insert into pipeline (id, namespace, layer, name, type, draft_snapshot, draft_machine_version, draft_dirty, published_version)
    values (${id}, 'default', 'gold', ${name}, 'sql', ${sql.json({ ...(store(newDraft()) as object) })}, ${DRAFT_MACHINE_VERSION}, false, 1)`
  await sql`
    insert into pipeline_version (id, pipeline_id, version_number, message, pipeline_type, published_versions, landing_zones)
    values (${newId()}, ${id}, 1, '', 'sql', '{}', ${sql.json(landingZones)})`
  const runs = makeRunService({
    sql,
    newId,
    notices: makeNotices(sql, () => {}),
    runnable: async () => ({
      pipelineId: id,
      pipelineType: 'sql',
      versionNumber: 1,
      pins: {},
      landingZones,
      placement: null,
    }),
    nudge,
  })
  const request = async (trigger = 'manual', branch = 'main') =>
    (await runs.request({ namespace: 'default', layer: 'gold', pipeline: name, trigger, branch }))
      .run_id as RunId
  return { id, runs, request }
}

/** Commits new content of the pipeline's table to the attempt's branch, as a runner does. Returns the id of the commit. */
export async function commitContent(sql: Sql, request: SubmitPipelineRequest): Promise<string> {
  const branch = `run-${request.runId}-${request.attempt}`
  const id = newId()
  const contentId = newId()
  await commitToBranch(sql, {
    id,
    branch,
    head: (await findBranch(sql, branch))?.head ?? null,
    table: { namespace: request.namespace, layer: 'gold', name: request.pipelineName },
    tableUuid: newId(),
    snapshotId: '1',
    message: 'test',
    content: {
      kind: 'table',
      contentId,
      metadataLocation: `s3://sluice/${contentId}`,
      columns: [{ name: 'a', type: 'BIGINT' }],
      rowCount: 1,
      sizeBytes: 100,
    },
  })
  return id
}
