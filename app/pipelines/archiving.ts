// Two pipelines that archive the same files of a landing zone would take files from each other, and each table would lack some.
import type { Queryable, Tx } from '../../drizzle/client.ts'
import { tableKey } from '../../lake/pipeline/names.ts'
import type { Visible } from '../core/access.ts'
import { failedPrecondition } from '../core/errors.ts'
import type { PipelineRef } from '../core/pipeline-ref.ts'
import type { ObjectStore } from '../objects/port.ts'
import { type DraftFile, readPinnedCode, sourceFileOf } from './draft-files.ts'
import { configOf } from './placement.ts'
import { type Selection, selectionsOf } from './references.ts'
import { lockArchiving, publishedReaders } from './store/archiving.ts'

/** Code that a pipeline would execute. */
export interface ArchivingCode {
  ref: PipelineRef
  pipelineId: string
  type: string
  code: readonly DraftFile[]
}

/**
 * Throws 409 if a published pipeline archives the same files. Holds a lock until the transaction ends, so of two pipelines that
 * are published at once the second is refused. Call it before a lock of a pipeline. The error names only a visible pipeline.
 */
export async function claimArchiving(
  tx: Tx,
  objects: ObjectStore,
  wanted: ArchivingCode,
  visible: Visible['pipelines'],
): Promise<void> {
  if (archivedBy(wanted).length === 0) return
  await lockArchiving(tx, wanted.ref.namespace)
  await refuseSharedArchiving(tx, objects, wanted, visible)
}

/** Like `claimArchiving`, without the lock. */
export async function refuseSharedArchiving(
  db: Queryable,
  objects: ObjectStore,
  wanted: ArchivingCode,
  visible: Visible['pipelines'],
): Promise<void> {
  const own = archivedBy(wanted)
  if (own.length === 0) return
  const zones = [...new Set(own.map(({ zone }) => zone))]
  const { namespace } = wanted.ref
  for (const { id, layer, name, type, pins } of await publishedReaders(db, { namespace, zones })) {
    if (id === wanted.pipelineId) continue
    const ref = { namespace, layer, name }
    const code = await readPinnedCode(objects, ref, pins)
    const theirs = archivedBy({ ref, pipelineId: id, type, code })
    const shared = own.find((one) => theirs.some((other) => areShared(one, other)))
    if (shared === undefined) continue
    const other = visible === 'all' || visible.includes(id) ? `pipeline ${tableKey(ref)}` : 'another pipeline'
    throw failedPrecondition(
      `landing zone ${shared.zone} is archived by ${other}: each file would reach only one of the two: give both a different pattern in landing_zone(), or set archive_landing_zones: false in one of them`,
    )
  }
}

/** The files that a success of this code archives. */
function archivedBy({ ref, type, code }: ArchivingCode): Selection[] {
  if (!configOf(code, type).archiveLandingZones) return []
  return selectionsOf(
    code.filter(({ name }) => name === sourceFileOf(type)),
    ref,
  )
}

/** Different patterns are taken for different files. So are paths that the code changes, because only a run knows their files. */
const areShared = (one: Selection, other: Selection): boolean =>
  one.zone === other.zone &&
  !one.isFiltered &&
  !other.isFiltered &&
  (one.pattern === undefined || other.pattern === undefined || one.pattern === other.pattern)
