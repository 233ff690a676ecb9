// The inputs of one run, and the results of its quality tests.
import { alias } from 'drizzle-orm/pg-core'
import type { Sql } from '../../../drizzle/client.ts'
import { COUNT, computed, only, pick, select } from '../../../drizzle/rows.ts'
import { landingFiles, landingZones } from '../../../drizzle/schema/landing.ts'
import { qualityResults, runs } from '../../../drizzle/schema/run.ts'
import type { RunInputs, RunTests } from '../schema.ts'

const RESULT = {
  ...pick(qualityResults, 'name', 'severity', 'status', 'value', 'error', 'samples'),
  duration_ms: qualityResults.durationMs,
  expected: computed<0>('0'),
}

/** The results of the latest attempt that executed its tests, ordered by name. */
export const resultsOf = async (sql: Sql, id: string): Promise<RunTests['results']> => [
  ...((await select(sql, RESULT)`
    from quality_result where run_id = ${id} order by name`) as unknown as RunTests['results']),
]

/** Landing files in one answer. */
const FILES_SHOWN = 1_000

const file = alias(landingFiles, 'f')
const FILE = {
  ...pick(file, 'id', 'filename'),
  ...pick(alias(landingZones, 'z'), 'namespace'),
  zone: alias(landingZones, 'z').name,
  size_bytes: file.sizeBytes,
  archived: computed<boolean>('f.archived_by_run is not null'),
}

/** Null: no such run. */
export async function inputsOf(sql: Sql, id: string): Promise<RunInputs | null> {
  const [run] = await select(sql, pick(runs, 'pins', 'attempt'))`from run where id = ${id}`
  if (run === undefined) return null
  const ofAttempt = sql`run_id = ${id} and attempt = ${run.attempt}`
  const [files, counted] = await Promise.all([
    select(sql, FILE)`
      from run_file i join landing_file f on f.id = i.landing_file_id join landing_zone z on z.id = f.zone_id
      where ${ofAttempt} order by f.seq limit ${FILES_SHOWN}`,
    select(sql, { count: COUNT })`from run_file where ${ofAttempt}`,
  ])
  const code = Object.entries(run.pins).map(([path, versionId]) => ({ path, version_id: versionId }))
  return {
    code: code.toSorted((a, b) => a.path.localeCompare(b.path)),
    landing_files: [...files],
    landing_file_count: only(counted).count,
  }
}
