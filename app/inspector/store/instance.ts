// Common parts of the lists, counts and lookups of runs, drafts and triggers.
import type { InferSelectModel } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import { COUNT, computed, nullable, pick, type RowOf, select } from '../../../drizzle/rows.ts'
import { pipelines } from '../../../drizzle/schema/pipeline.ts'
import type { runs } from '../../../drizzle/schema/run.ts'
import { transitions } from '../../../drizzle/schema/system.ts'
import type { Part, Sql } from '../../../drizzle/sql.ts'
import { andVisibleId } from '../../../drizzle/visibility.ts'
import type { Page } from '../../core/pagination.ts'
import type { MachineName } from '../schema.ts'

/** Maximum counted instances of one state. Beyond this number, the inspector only reports that there are more. */
export const COUNT_MAX = 10_000
/** Maximum rows that are read where no index counts: live runs, drafts, triggers. */
export const COUNT_SCAN = 100_000

export interface InstanceFilter {
  namespace?: string
  layer?: string
  pipeline?: string
  /** Part of `namespace.layer.pipeline`, or the beginning of an id. */
  q?: string
  /** Ids of the pipelines whose instances the caller sees; undefined: all pipelines. */
  visiblePipelines?: readonly string[]
}

export interface InstanceStore<Found extends Instance> {
  /** `states` are leaf states; null: all states. */
  list(
    sql: Sql,
    filter: InstanceFilter,
    states: readonly string[] | null,
    page: Page,
  ): Promise<readonly ListedRow[]>
  count(sql: Sql, filter: InstanceFilter): Promise<readonly CountedState[]>
  find(sql: Sql, id: string): Promise<Found | undefined>
}

type Run = InferSelectModel<typeof runs>

export interface ListedRow extends Pick<Run, 'id' | 'namespace' | 'layer' | 'pipeline' | 'createdAt'> {
  state: string
  live: boolean
  note: string
  attempt: number | null
  movedAt: Date | null
  durationMs: number | null
}

/** The columns that all kinds share. Each kind has further columns, which are shown unchanged. */
export interface Instance
  extends Pick<Run, 'id' | 'namespace' | 'layer' | 'pipeline' | 'pipelineId' | 'createdAt' | 'snapshot'> {
  machine: MachineName
  machineVersion: number
  isPipelineDeleted: boolean
  note: string
  now: Date
}

const p = alias(pipelines, 'p')
/** Columns of the pipeline `p` of a draft or a trigger. */
export const OF_PIPELINE = { ...pick(p, 'namespace', 'layer'), pipeline: p.name }
/** Columns of a single instance. */
export const FOUND = {
  pipelineId: p.id,
  isPipelineDeleted: computed<boolean>('p.deleted_at is not null'),
  now: computed<Date>('clock_timestamp()'),
}
/** Requires the join of `latestMove`. */
export const MOVED_AT = nullable(alias(transitions, 'moved').at)
/** For columns that only runs have. */
export const NONE = computed<null>('null')

/** Joins the time of an instance's latest step. */
export const latestMove = (sql: Sql, machine: MachineName, id: Part) => sql`
  left join lateral (select m.at from transition m where m.machine = ${machine} and m.entity_id = ${id}
    order by m.id desc limit 1) moved on true`

const COUNTED = {
  state: computed<string>('state'),
  count: COUNT,
  /** True if counting stopped at its limit, so that more instances may exist. */
  cut: computed<boolean>('false'),
}
export type CountedState = RowOf<typeof COUNTED>

/** Counts rows by their column `state`. */
export const countedStates = (sql: Sql, rows: Part) =>
  select(sql, COUNTED)`from (${rows} limit ${COUNT_SCAN}) counted group by state`

/** Conditions on a pipeline `p`. */
export const pipelineLike = (
  sql: Sql,
  { namespace, layer, pipeline, q, visiblePipelines }: InstanceFilter,
): Part => sql`
  ${namespace === undefined ? sql`` : sql`and p.namespace = ${namespace}`}
  ${layer === undefined ? sql`` : sql`and p.layer = ${layer}`}
  ${pipeline === undefined ? sql`` : sql`and p.name = ${pipeline}`}
  ${andVisibleId(sql, sql`p.id`, visiblePipelines ?? 'all')}
  ${q === undefined ? sql`` : sql`and ${nameLike(sql, q)}`}`

/** For drafts and triggers: conditions on their pipeline `p`, or on the beginning of their own id. */
export function ownFilter(sql: Sql, id: Part, { q, ...names }: InstanceFilter): Part {
  const range = q === undefined ? null : idRange(q)
  if (q === undefined || range === null) return pipelineLike(sql, { ...names, q })
  return sql`${pipelineLike(sql, names)} and (${nameLike(sql, q)} or ${id} between ${range.first} and ${range.last})`
}

const nameLike = (sql: Sql, q: string) =>
  sql`p.namespace || '.' || p.layer || '.' || p.name like ${`%${q.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`}`

/** The range of ids that begin with a text; null: no id can begin with this text. */
export function idRange(text: string): { first: string; last: string } | null {
  const digits = text.toLowerCase().replaceAll('-', '')
  if (!/^[0-9a-f]{4,32}$/.test(digits)) return null
  const uuid = (filled: string) => filled.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  return { first: uuid(digits.padEnd(32, '0')), last: uuid(digits.padEnd(32, 'f')) }
}
