import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openDatabase } from '../../drizzle/client.ts'
import { duringTests } from '../../tools/kit/during.ts'
import { testDatabase } from '../../tools/service/database.ts'
import { systemClock } from '../core/clock.ts'
import { type NewId, newId } from '../core/ids.ts'
import type { Log } from '../core/log.ts'
import { makeNamespaceService } from '../namespaces/service.ts'
import { openDiskStore } from '../objects/disk.ts'
import { makeLakeReader } from '../versions/lake-reader.ts'
import { makeMetadataFiles } from '../versions/metadata-files.ts'
import { makeRestores } from '../versions/restores.ts'
import { makePipelineService, type PipelineDeps } from './service.ts'

export const quietLog: Log = { info() {}, warn() {}, error() {}, named: () => quietLog }

/** The environment of slice tests: a database, an object store, and the services on them. */
export async function openParts() {
  const database = await testDatabase()
  const { db, sql, close } = openDatabase(database.url, {
    connections: 8,
    rawConnections: 2,
    application: 'test',
  })
  const root = await mkdtemp(join(tmpdir(), 'sluice-objects-'))
  const objects = await openDiskStore(root, systemClock)
  const namespaces = makeNamespaceService({ db })
  const cancelled: string[] = []
  const deps: PipelineDeps & { newId: NewId; eventRecorded(): void } = {
    db,
    sql,
    objects,
    newId,
    log: quietLog,
    requireNamespace: (name) => namespaces.requireExisting(name),
    validate: async () => null,
    runs: { cancelAllOf: async (id) => void cancelled.push(id) },
    restore: makeRestores({
      db,
      objects,
      files: makeMetadataFiles({ objects, newId }),
      reader: makeLakeReader(objects),
      clock: systemClock,
      newId,
    }).restore,
    triggers: { retireAllOf: async () => {} },
    eventRecorded: () => {},
  }
  return {
    /** The address of the database. */
    url: database.url,
    db,
    sql,
    objects,
    /** The directory of the object store. */
    root,
    namespaces,
    /** Pipelines whose runs were cancelled. */
    cancelled,
    deps,
    /** The service, with some dependencies replaced. */
    pipelines: (replaced: Partial<PipelineDeps> = {}) => makePipelineService({ ...deps, ...replaced }),
    close: async () => {
      await close()
      await objects.close()
      await database.drop()
      await rm(root, { recursive: true, force: true })
    },
  }
}

export type Parts = Awaited<ReturnType<typeof openParts>>

/** One environment per test file, opened before the first test and closed after the last. */
export const useParts = () => duringTests(openParts)

/** Number of queries per file. They take so long that code which does not wait for the disk has moved on. */
const QUERIES_PER_FILE = 50

/**
 * Runs `work` with an object store whose writes take as long as many database queries. Returns the number of files, and the
 * number of transactions that began during a write.
 */
export async function onSlowDisk(
  { sql }: Parts,
  work: (parts: Pick<Parts, 'sql' | 'objects'>) => Promise<unknown>,
) {
  const root = await mkdtemp(join(tmpdir(), 'sluice-slow-disk-'))
  const counts = { files: 0, early: 0 }
  let underWay = 0
  const objects = await openDiskStore(root, systemClock, async () => {
    underWay++
    for (let query = 0; query < QUERIES_PER_FILE; query++) await sql`select`
    underWay--
    counts.files++
  })
  const watched = new Proxy(sql, {
    get(target, name) {
      if (name === 'begin' && underWay > 0) counts.early++
      return Reflect.get(target, name)
    },
  })
  try {
    await work({ sql: watched, objects })
    return counts
  } finally {
    await objects.close()
    await rm(root, { recursive: true })
  }
}

export const bytes = (text: string) => new TextEncoder().encode(text)

/** Returns the error of a rejected promise, to compare its status and message. Throws if the promise resolves. */
export async function refusal(promise: Promise<unknown>): Promise<{ status?: number; message: string }> {
  try {
    await promise
  } catch (error) {
    if (error instanceof Error) return Object.assign(error, { message: error.message })
  }
  throw new Error('was not refused')
}
