import { LRUCache } from 'lru-cache'
import type { Sql } from '../../drizzle/client.ts'
import type { Clock } from '../core/clock.ts'
import { definitionOf, leafStatesOf } from './definitions.ts'
import type { Counts, MachineName } from './schema.ts'
import { COUNT_MAX, COUNT_SCAN, type InstanceFilter } from './store/instance.ts'
import { STORES } from './store/machines.ts'

/** Requests within this time share one count. */
const COUNT_MS = 1_000
const COUNTS_CACHED = 256

/**
 * Counts instances by state, for every state of the machine. The database counts each filter at most once a second, for any
 * number of callers. A caller who sees only some instances always gets a separate count, so that no counts are disclosed.
 */
export function makeCounts(sql: Sql, clock: Clock) {
  const counted = new LRUCache<string, { at: number; counts: Promise<Counts> }>({ max: COUNTS_CACHED })

  return (machine: MachineName, filter: InstanceFilter): Promise<Counts> => {
    if (filter.visiblePipelines !== undefined) return countNow(sql, machine, filter)
    const key = JSON.stringify([machine, filter.namespace, filter.layer, filter.pipeline, filter.q])
    const now = clock.elapsed()
    const cached = counted.get(key)
    if (cached !== undefined && now - cached.at < COUNT_MS) return cached.counts
    const counts = countNow(sql, machine, filter)
    counted.set(key, { at: now, counts })
    counts.catch(() => counted.delete(key))
    return counts
  }
}

async function countNow(sql: Sql, machine: MachineName, filter: InstanceFilter): Promise<Counts> {
  const rows = await STORES[machine].count(sql, filter)
  const isCut = rows.reduce((sum, row) => sum + row.count, 0) >= COUNT_SCAN
  const counts: Counts = Object.fromEntries(
    leafStatesOf(definitionOf(machine)).map(({ path }) => [path, { count: 0, more: false }]),
  )
  for (const { state, count, cut } of rows) {
    const isMany = machine === 'run' && count > COUNT_MAX
    counts[state] = { count: isMany ? COUNT_MAX : count, more: isMany || isCut || cut }
  }
  return counts
}
