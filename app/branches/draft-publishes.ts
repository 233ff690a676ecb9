// Publishes of the drafts behind the tables of a branch, which commit with its merge.
import { tableKey } from '../../ground/names.ts'
import type { Access } from '../core/access.ts'
import { failedPrecondition } from '../core/errors.ts'
import type { PreparedPublish } from '../pipelines/publish.ts'
import type { PipelineService } from '../pipelines/service.ts'
import type { BranchDraft } from './store.ts'

interface Publishing {
  /** Name of the branch. */
  name: string
  message: string | undefined
  drafts: readonly BranchDraft[]
  by: { access: Access }
}

/** Validates drafts with the files that their runs executed. Throws 409 for a draft that cannot be published. */
export async function preparedPublishes(
  pipelines: Pick<PipelineService, 'preparePublish'>,
  { name, message = `merge of branch ${name}`, drafts, by: { access: by } }: Publishing,
): Promise<{ table: string; prepared: PreparedPublish }[]> {
  const visible = await by.visible()
  const publishes: { table: string; prepared: PreparedPublish }[] = []
  for (const { namespace, layer, name: pipeline, pins, publishedSince } of drafts) {
    const ref = { namespace, layer, name: pipeline }
    // The files of the run would undo that version.
    if (publishedSince !== null)
      throw failedPrecondition(
        `version ${publishedSince} of pipeline ${tableKey(ref)} is newer than its draft on branch ${name}: run the draft on the branch again, or merge without publish_drafts`,
      )
    const prepared = await pipelines.preparePublish(ref, { message, visible, by, pins })
    if ('kind' in prepared)
      throw failedPrecondition(
        `draft of pipeline ${tableKey(ref)} cannot be published: ${prepared.body.error}: correct it and run it on branch ${name} again, or merge without publish_drafts`,
      )
    publishes.push({ table: tableKey(ref), prepared })
  }
  return publishes
}
