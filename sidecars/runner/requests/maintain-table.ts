import { randomUUID } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { Code, ConnectError } from '@connectrpc/connect'
import { layerOf, type TableName } from '../../../ground/names.ts'
import type { TableMetadata } from '../../../lake/iceberg/format/metadata.ts'
import type { TableFile } from '../../../lake/iceberg/read/scan.ts'
import { pathsOf } from '../../../lake/iceberg/read/table-sql.ts'
import {
  bytesOf,
  type MaintenancePlan,
  type MaintenanceRules,
  planMaintenance,
  rewriteGroup,
} from '../../../lake/iceberg/write/maintenance.ts'
import { SMALL_MANIFESTS_LIMIT } from '../../../lake/iceberg/write/manifest-writer.ts'
import { replacedFiles } from '../../../lake/iceberg/write/new-files.ts'
import { planReplacement } from '../../../lake/iceberg/write/write.ts'
import type { OpenFiles, WrittenFile } from '../../../lake/iceberg/write/write-engine.ts'
import type { MaintainTableRequest } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import type { Attempts } from '../attempt/attempts.ts'
import { EnginesBusy } from '../engine/engine-lease.ts'
import {
  type AttemptResources,
  type AttemptResourcesOptions,
  openAttemptResources,
} from '../session/attempt-resources.ts'
import { openInstance } from '../session/lake-session.ts'
import { commitPlan, storeFiles, writeEngine } from '../write/table-write.ts'

// Maintenance of one table: rewrites its small files on a branch, while this runner has a free slot.

export type Maintain = ReturnType<typeof makeMaintain>

interface Maintained {
  /** The branch's commit; empty when the table needs no maintenance. */
  commit: string
  filesBefore: number
  filesAfter: number
  bytesBefore: bigint
  bytesAfter: bigint
}

const NOTHING: Maintained = { commit: '', filesBefore: 0, filesAfter: 0, bytesBefore: 0n, bytesAfter: 0n }

/** Makes the function that maintains tables. It throws ConnectError. */
export function makeMaintain(
  options: AttemptResourcesOptions,
  attempts: Pick<Attempts, 'slots' | 'waitsFor'>,
) {
  /** Throws when a run could need the capacity. */
  const checkFree = () => {
    if (attempts.slots().freeSlots < 1 || attempts.waitsFor() !== null)
      throw new ConnectError('maintenance yields to runs: no slot is free', Code.ResourceExhausted)
  }

  return async function maintain(request: MaintainTableRequest, signal: AbortSignal): Promise<Maintained> {
    const { lake } = request
    const layer = layerOf(request.layer)
    if (lake === undefined || layer === undefined)
      throw new ConnectError('lake or layer is missing', Code.InvalidArgument)
    checkFree()
    const name = { namespace: request.namespace, layer, name: request.tableName }
    let resources: AttemptResources | null = null
    try {
      resources = await openAttemptResources(options, lake, signal)
      return await maintainWith(resources, { name, request, checkFree }, signal)
    } catch (error) {
      if (error instanceof EnginesBusy) throw new ConnectError(error.message, Code.ResourceExhausted)
      throw error
    } finally {
      await resources?.clear()
    }
  }
}

interface Maintenance {
  name: TableName
  request: MaintainTableRequest
  checkFree(): void
}

async function maintainWith(
  resources: AttemptResources,
  { name, request, checkFree }: Maintenance,
  signal: AbortSignal,
): Promise<Maintained> {
  const { lake } = resources
  const table = await lake.catalog.load(name)
  if (table === null) return NOTHING
  const rules = rulesOf(request)
  const plan = await planMaintenance(table, rules, lake.reader)
  if (plan === null) return NOTHING
  const rewritten: WrittenFile[] = []
  let deletedRows = 0
  const directory = join(resources.directory, 'written')
  mkdirSync(directory)
  const open = await openAll(plan.groups.flat(), resources, signal)
  for (const group of plan.groups) {
    checkFree()
    const written = rewritten.length
    const order = request.sortColumns
    const done = await rewriteGroup({ table, group, rules, open, directory, written, order })
    rewritten.push(...done.files)
    deletedRows += done.deletedRows
  }
  const replaced = plan.groups.flat()
  return {
    commit: await commit({ name, table, plan, rewritten, deletedRows }, resources),
    filesBefore: replaced.length,
    filesAfter: rewritten.length,
    bytesBefore: BigInt(bytesOf(replaced)),
    bytesAfter: BigInt(rewritten.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)),
  }
}

const rulesOf = ({ bytesLimit, isKeyed }: MaintainTableRequest): MaintenanceRules => ({
  bytesLimit: Number(bytesLimit),
  isKeyed,
})

/** Opens one instance that can read all these files. The result finds each of them there. */
async function openAll(
  files: readonly TableFile[],
  { lake, engine, directory }: AttemptResources,
  signal: AbortSignal,
): Promise<OpenFiles> {
  const locals = await lake.openFiles(files.map(({ file }) => file))
  const instance = await openInstance(engine, [], directory, signal, { paths: pathsOf(locals) })
  const localOf = new Map(files.map(({ file }, i) => [file.location, locals[i]]))
  return async (some) => ({
    engine: writeEngine(engine, instance, signal),
    files: some.flatMap(({ file }) => localOf.get(file.location) ?? []),
  })
}

interface Rewritten {
  name: TableName
  table: TableMetadata
  plan: MaintenancePlan
  rewritten: readonly WrittenFile[]
  deletedRows: number
}

async function commit(
  { name, table, plan: { groups, mergesManifests }, rewritten, deletedRows }: Rewritten,
  { lake }: AttemptResources,
): Promise<string> {
  const { files, placed } = storeFiles(rewritten, table.location, lake)
  const plan = await planReplacement({
    metadata: table,
    isStaged: false,
    files,
    deletedRows,
    replaced: replacedFiles(groups.flat()),
    smallManifestsLimit: mergesManifests ? 2 : SMALL_MANIFESTS_LIMIT,
    at: Date.now(),
    uuid: randomUUID(),
    reader: lake.reader,
  })
  return commitPlan(plan, placed, name, lake)
}
