// Merges without HTTP, runners and access rights, for tests.
import type { Sql } from '../../drizzle/client.ts'
import { UNLIMITED } from '../core/access.ts'
import { newId } from '../core/ids.ts'
import type { Gate } from '../quality-tests/gate.ts'
import { type MergeDeps, type Merger, makeMergeService } from './merges.ts'

const UNPUBLISHED = async (): Promise<never> => {
  throw new Error('this test publishes nothing')
}

const UNTESTED: Gate = async () => ({ results: [], reads: [] })

/** A caller with all rights. */
export const ADA: Merger = {
  name: 'ada',
  isAdmin: true,
  access: UNLIMITED,
  reader: null,
  signal: new AbortController().signal,
}

export function mergesOf(sql: Sql, gate: Gate = UNTESTED, more: Partial<MergeDeps> = {}) {
  const service = makeMergeService({
    sql,
    newId,
    gate,
    pipelines: { preparePublish: UNPUBLISHED },
    resources: undefined,
    ...more,
  })
  return {
    service,
    merge: (branch: string, by = ADA) => service.merge(branch, {}, by),
    rebase: (branch: string, by = ADA) => service.rebase(branch, by),
  }
}
