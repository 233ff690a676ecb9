/**
 * The reaper's duty that rewrites small files of main's tables. A runner does the work on a branch while it has a free slot.
 * No run, trigger or statistic sees the work; main gets a commit by `maintenance`. See ADR 53.
 */

import type { Tokens } from '../../app/attempt-access/tokens.ts'
import type { Clock } from '../../app/core/clock.ts'
import type { Log } from '../../app/core/log.ts'
import { NotLeading, type Reaping } from '../../app/retention/store/reaping.ts'
import { failureOf, type Remote, type RunnerClient } from '../../app/rpc/clients.ts'
import {
  cancelMaintenance,
  failMaintenance,
  type MaintenanceBranch,
  maintainableTables,
  mergeMaintenance,
  openMaintenance,
} from '../../app/versions/store/maintenance.ts'
import type { SqlTx } from '../../drizzle/client.ts'
import { type TableName, tableKey } from '../../ground/names.ts'
import { keyIn } from '../../lake/iceberg/format/location.ts'
import { parseMetadata } from '../../lake/iceberg/format/metadata.ts'
import { type ManifestReader, makeManifestReader } from '../../lake/iceberg/read/scan.ts'
import { type MaintenanceRules, planMaintenance } from '../../lake/iceberg/write/maintenance.ts'
import { parseConfig, type TextFile } from '../../lake/pipeline/config.ts'
import type { MaintainTableResponse } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import type { MaintenanceOutcome } from '../messages/counted.ts'

/** Tables that one tick looks at. */
const TABLES_PER_TICK = 1_000
/** A tick begins no further table after this time, because clients may wait for the tick. */
const TICK_MS = 300_000
/** Time limit for one table. The files of a lost attempt are far younger than any file that the reaper removes. */
const TABLE_MS = 300_000

export interface MaintenanceOptions {
  runners: readonly Remote<RunnerClient>[]
  tokens: Tokens
  clock: Clock
  publicUrl: string
  lakeRoot: string
  tableBytes: number
  tickBytes: number
  newId(): string
  log: Log
  onOutcome(outcome: MaintenanceOutcome, bytes: number): void
}

/** Maintains tables one after the other, until a limit of the tick is reached or no runner has a free slot. */
export async function maintainTables(reaping: Reaping, options: MaintenanceOptions): Promise<void> {
  const reader = makeManifestReader((location) => bytesAt(reaping, location))
  const until = performance.now() + TICK_MS
  let bytesLeft = options.tickBytes
  for (const table of await maintainableTables(reaping.sql, TABLES_PER_TICK)) {
    reaping.checkRunning()
    if (performance.now() > until || bytesLeft <= 0) return
    const need = await needOf(reaping, table, { options, bytesLeft, reader })
    if (need === null) continue
    const bytes = await maintain(reaping, table, need, options)
    if (bytes === 'noRoom') return
    bytesLeft -= bytes
  }
}

interface Need {
  rules: MaintenanceRules
  sortColumns: string[]
}

/** Null: the table needs no maintenance, or Sluice cannot read it. */
async function needOf(
  reaping: Reaping,
  table: TableName & { metadataLocation: string },
  { options, bytesLeft, reader }: { options: MaintenanceOptions; bytesLeft: number; reader: ManifestReader },
): Promise<Need | null> {
  try {
    const text = new TextDecoder().decode(await bytesAt(reaping, table.metadataLocation))
    const metadata = parseMetadata(text)
    const rules = {
      bytesLimit: Math.min(options.tableBytes, bytesLeft),
      isKeyed: false,
    }
    // Files of a keyed table are small only if they are small without a key too.
    if ((await planMaintenance(metadata, rules, reader)) === null) return null
    const { config } = await configOf(reaping, table)
    const isKeyed = config.mergeStrategy !== 'append_only' && config.mergeStrategy !== 'full_refresh'
    const keyed = { ...rules, isKeyed }
    if ((await planMaintenance(metadata, keyed, reader)) === null) return null
    const key = config.mergeStrategy === 'snapshot' ? [config.partitionColumn] : config.uniqueKey
    return { rules: keyed, sortColumns: key.filter((name) => name !== '') }
  } catch (error) {
    options.log.warn('table not maintained: its files cannot be read', { table: tableKey(table), error })
    return null
  }
}

/** The configuration of the draft. An outdated key only changes the order of rows inside files. */
async function configOf({ objects }: Reaping, { namespace, layer, name }: TableName) {
  const fileNamed = async (path: string): Promise<TextFile | undefined> => {
    const bytes = await objects.read(`${namespace}/pipelines/${layer}/${name}/${path}`)
    return bytes === null ? undefined : { path, text: new TextDecoder().decode(bytes) }
  }
  const config = await fileNamed('config.yaml')
  const source = (await fileNamed('pipeline.sql')) ?? (await fileNamed('pipeline.py'))
  return parseConfig({ ...(config && { config }), ...(source && { source }) })
}

/** Returns the number of bytes that were rewritten, also in vain. */
async function maintain(
  reaping: Reaping,
  table: TableName,
  need: Need,
  options: MaintenanceOptions,
): Promise<number | 'noRoom'> {
  const { log, onOutcome } = options
  const runId = options.newId()
  const work: MaintenanceBranch = { branch: `run-${runId}-1`, runId, table }
  const started = performance.now()
  await written(reaping, async (tx) => openMaintenance(tx, work))
  try {
    const done = await rewritten(work, need, options)
    if (done === 'noRoom' || done.commit === '') {
      await written(reaping, (tx) => cancelMaintenance(tx, work))
      return done === 'noRoom' ? done : 0
    }
    const { filesBefore, filesAfter } = done
    const bytes = Number(done.bytesBefore)
    const message = `maintenance of ${tableKey(table)}: ${filesBefore} files became ${filesAfter}`
    const reason = await written(reaping, (tx) =>
      mergeMaintenance(tx, work, { commit: done.commit, message }),
    )
    const facts = { table: tableKey(table), filesBefore, filesAfter, bytes, ms: since(started) }
    if (reason === null) {
      log.info('table maintained', facts)
      onOutcome('replaced', bytes)
      return bytes
    }
    await written(reaping, (tx) => failMaintenance(tx, work))
    log.info('maintenance of a table abandoned: a later tick tries again', { ...facts, reason })
    onOutcome('abandoned', 0)
    return bytes
  } catch (error) {
    if (error instanceof NotLeading) throw error
    await written(reaping, (tx) => failMaintenance(tx, work))
    log.warn('maintenance of a table failed: a later tick tries again', { table: tableKey(table), error })
    onOutcome('failed', 0)
    return need.rules.bytesLimit
  }
}

const since = (started: number) => Math.round(performance.now() - started)

/** Asks the runners in turn. `noRoom`: none has a free slot, so runs have priority. */
async function rewritten(
  { branch, runId, table }: MaintenanceBranch,
  { rules, sortColumns }: Need,
  { runners, tokens, publicUrl, lakeRoot, clock }: MaintenanceOptions,
): Promise<MaintainTableResponse | 'noRoom'> {
  const request = {
    namespace: table.namespace,
    layer: table.layer,
    tableName: table.name,
    bytesLimit: BigInt(rules.bytesLimit),
    isKeyed: rules.isKeyed,
    sortColumns,
  }
  for (const { service } of runners) {
    const expiresAt = new Date(clock.now().getTime() + TABLE_MS)
    const lake = {
      catalogUrl: `${publicUrl}/catalog`,
      objectsUrl: `${publicUrl}/lake/objects`,
      warehouse: `sluice@${branch}`,
      catalogId: tokens.catalogId,
      lakeRoot,
      token: tokens.attempt({ branch, runId, attempt: 1, target: table, expiresAt }),
    }
    try {
      return await service.maintainTable({ ...request, lake }, { signal: AbortSignal.timeout(TABLE_MS) })
    } catch (error) {
      const failure = failureOf(error)
      if (failure !== 'noRoom' && failure !== 'unreachable' && failure !== 'notOffered') throw error
    }
  }
  return 'noRoom'
}

async function written<T>({ write }: Reaping, work: (tx: SqlTx) => Promise<T>): Promise<T> {
  const done = await write(async (tx) => ({ value: await work(tx) }))
  if (done === null) throw new NotLeading('another replica leads the reaper')
  return done.value
}

async function bytesAt({ objects }: Reaping, location: string): Promise<Uint8Array> {
  const bytes = await objects.read(keyIn(location))
  if (bytes === null) throw new Error(`lake file ${location} is missing`)
  return bytes
}
