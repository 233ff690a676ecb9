// Two pipelines that archive the same files of a landing zone would take files from each other, and each table would lack some.
import type { Queryable, Tx } from '../../drizzle/client.ts'
import { tableKey } from '../../ground/names.ts'
import { BadGlob, matchesGlob, overlapGlobs } from '../../lake/pipeline/glob.ts'
import type { Visible } from '../core/access.ts'
import { failedPrecondition } from '../core/errors.ts'
import type { PipelineRef } from '../core/pipeline-ref.ts'
import type { ObjectStore } from '../objects/port.ts'
import { type DraftFile, readPinnedCode, sourceFileOf } from './draft-files.ts'
import { configOf } from './placement.ts'
import { type Selection, selectionsOf } from './references.ts'
import {
  type ArchivedFiles,
  archivedFiles,
  codeOfMainRun,
  lockArchiving,
  publishedReaders,
} from './store/archiving.ts'

/** Code that a pipeline would execute. */
interface ArchivingCode {
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
  if (wantedFiles(wanted).length === 0) return
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
  await refuseShared(db, objects, { ...wanted, files: wantedFiles(wanted) }, visible)
}

/**
 * Throws 409 if a run on main archives files of a zone whose name its template computes, and a published pipeline archives them too.
 * Publish does not know such a name.
 */
export async function refuseComputedArchiving(
  db: Queryable,
  objects: ObjectStore,
  { runId, ...files }: Pick<Selection, 'zone' | 'pattern'> & { runId: string },
): Promise<void> {
  const run = await codeOfMainRun(db, runId)
  if (run === undefined) return
  const { id: pipelineId, namespace, layer, name, type, pins } = run
  const ref = { namespace, layer, name }
  const code = await readPinnedCode(objects, ref, pins)
  if (!configOf(code, type).archiveLandingZones) return
  // Publish has compared the names in literal calls of the source, and tests archive nothing.
  if (selectionsOf(code, ref).some(({ zone }) => zone === files.zone)) return
  await refuseShared(db, objects, { ref, pipelineId, files: [{ ...files, isFiltered: false }] }, [])
}

/** The files that a success of this code archives, as far as its text names them. */
const wantedFiles = (wanted: ArchivingCode): Selection[] =>
  configOf(wanted.code, wanted.type).archiveLandingZones ? namedBy(wanted) : []

async function refuseShared(
  db: Queryable,
  objects: ObjectStore,
  {
    ref: { namespace },
    pipelineId,
    files,
  }: Pick<ArchivingCode, 'ref' | 'pipelineId'> & { files: readonly Selection[] },
  visible: Visible['pipelines'],
): Promise<void> {
  if (files.length === 0) return
  const zones = [...new Set(files.map(({ zone }) => zone))]
  const archived = await archivedFiles(db, zones)
  const others = [...new Set(archived.map((each) => each.pipelineId))]
  const readers = await publishedReaders(db, { namespace, zones, others })
  for (const { id, layer, name, type, version, pins } of readers) {
    if (id === pipelineId) continue
    const ref = { namespace, layer, name }
    const code = await readPinnedCode(objects, ref, pins)
    if (!configOf(code, type).archiveLandingZones) continue
    const named = namedBy({ ref, pipelineId: id, type, code })
    const computed = archived.filter(
      (each) =>
        each.pipelineId === id && each.version === version && named.every(({ zone }) => zone !== each.zone),
    )
    const shared = files.find((one) => [...named, ...computed].some((other) => areShared(one, other)))
    if (shared === undefined) continue
    const other = visible === 'all' || visible.includes(id) ? `pipeline ${tableKey(ref)}` : 'another pipeline'
    throw failedPrecondition(
      `landing zone ${shared.zone} is archived by ${other}: each file would reach only one of the two: give both a pattern in landing_zone() that matches other names, or set archive_landing_zones: false in one of them`,
    )
  }
}

/** The files that literal calls in the source select. */
const namedBy = ({ ref, type, code }: ArchivingCode): Selection[] =>
  selectionsOf(
    code.filter(({ name }) => name === sourceFileOf(type)),
    ref,
  )

/** Patterns that no name can match both are for different files. So are paths that the code changes: only a run knows their files. */
function areShared(one: Selection, other: Selection | ArchivedFiles): boolean {
  const isComputed = 'names' in other
  if (one.zone !== other.zone || one.isFiltered || (!isComputed && other.isFiltered)) return false
  const { pattern } = one
  if (pattern === undefined) return true
  try {
    if (isComputed) return other.names.some((name) => matchesGlob(pattern, name))
    return other.pattern === undefined || overlapGlobs(pattern, other.pattern)
  } catch (error) {
    // An invalid pattern fails the run.
    if (error instanceof BadGlob) return !isComputed && pattern === other.pattern
    throw error
  }
}
