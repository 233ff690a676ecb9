import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openDatabase } from '../../drizzle/client.ts'
import { testDatabase } from '../../tools/test/database.ts'
import { duringTests } from '../../tools/test/during.ts'
import { systemClock } from '../core/clock.ts'
import { type NewId, newId } from '../core/ids.ts'
import type { Log } from '../core/log.ts'
import { makeNamespaceService } from '../namespaces/service.ts'
import { openDiskStore } from '../objects/disk.ts'
import { makePipelineService, type PipelineDeps } from './service.ts'

export const quietLog: Log = { info() {}, warn() {}, error() {}, named: () => quietLog }

/** What the tests of these slices stand on: a database and an object store of their own, and the services on them. */
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
    triggers: { retireAllOf: async () => {} },
    eventRecorded: () => {},
  }
  return {
    /** Of the database. */
    url: database.url,
    db,
    sql,
    objects,
    /** Where the object store keeps its files. */
    root,
    namespaces,
    /** Pipelines whose runs were told to end. */
    cancelled,
    deps,
    /** The service, with some of its parts replaced. */
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

/** Those of a test file, from its first test to its last. */
export const useParts = () => duringTests(openParts)

/** So long that whoever does not wait for the disk is past it. */
const QUESTIONS_PER_FILE = 50

/**
 * Does something with an object store whose disk takes as long for a file as the database for many questions. Answers how
 * many files there were, and how many transactions began while the disk was taking one.
 */
export async function onSlowDisk(
  { sql }: Parts,
  work: (parts: Pick<Parts, 'sql' | 'objects'>) => Promise<unknown>,
) {
  const root = await mkdtemp(join(tmpdir(), 'sluice-slow-disk-'))
  const seen = { files: 0, early: 0 }
  let underWay = 0
  const objects = await openDiskStore(root, systemClock, async () => {
    underWay++
    for (let asked = 0; asked < QUESTIONS_PER_FILE; asked++) await sql`select`
    underWay--
    seen.files++
  })
  const watched = new Proxy(sql, {
    get(target, name) {
      if (name === 'begin' && underWay > 0) seen.early++
      return Reflect.get(target, name)
    },
  })
  try {
    await work({ sql: watched, objects })
    return seen
  } finally {
    await objects.close()
    await rm(root, { recursive: true })
  }
}

export const bytes = (text: string) => new TextEncoder().encode(text)

/** Rejects unless the promise rejects; answers what it was rejected with, for comparing status and message. */
export async function refusal(promise: Promise<unknown>): Promise<{ status?: number; message: string }> {
  try {
    await promise
  } catch (error) {
    if (error instanceof Error) return Object.assign(error, { message: error.message })
  }
  throw new Error('was not refused')
}
