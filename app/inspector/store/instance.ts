// What runs, drafts and triggers have in common where they are listed, counted and found.
import type { InferSelectModel } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import { COUNT, computed, nullable, pick, type RowOf, select } from '../../../drizzle/rows.ts'
import { pipelines } from '../../../drizzle/schema/pipeline.ts'
import type { runs } from '../../../drizzle/schema/run.ts'
import { transitions } from '../../../drizzle/schema/system.ts'
import type { Part, Sql } from '../../../drizzle/sql.ts'
import { andSeenId } from '../../../drizzle/visibility.ts'
import type { Page } from '../../core/pagination.ts'
import type { MachineName } from '../schema.ts'

/** Instances of one state that are counted, beyond which the inspector says that there are more. */
export const COUNT_MAX = 10_000
/** Rows that are looked at where no index counts: live runs, drafts, triggers. */
export const COUNT_SCAN = 100_000

export interface InstanceFilter {
  namespace?: string
  layer?: string
  pipeline?: string
  /** Part of `namespace.layer.pipeline`, or the beginning of an id. */
  q?: string
  /** Ids of the pipelines whose instances the caller sees; left out, all. */
  seen?: readonly string[]
}

export interface InstanceStore<Found extends Instance> {
  /** `states` are leaf states; null: all. */
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

/** An instance has more columns than these, those of its own kind, which are shown as they are. */
export interface Instance
  extends Pick<Run, 'id' | 'namespace' | 'layer' | 'pipeline' | 'pipelineId' | 'createdAt' | 'snapshot'> {
  machine: MachineName
  machineVersion: number
  isPipelineDeleted: boolean
  note: string
  now: Date
}

const p = alias(pipelines, 'p')
/** The pipeline `p` of a draft or a trigger. */
export const OF_PIPELINE = { ...pick(p, 'namespace', 'layer'), pipeline: p.name }
/** Of an instance that is found. */
export const FOUND = {
  pipelineId: p.id,
  isPipelineDeleted: computed<boolean>('p.deleted_at is not null'),
  now: computed<Date>('clock_timestamp()'),
}
/** Where `latestMove` is joined. */
export const MOVED_AT = nullable(alias(transitions, 'moved').at)
/** For what only runs have. */
export const NONE = computed<null>('null')

/** Joins the time of an instance's latest step. */
export const latestMove = (sql: Sql, machine: MachineName, id: Part) => sql`
  left join lateral (select m.at from transition m where m.machine = ${machine} and m.entity_id = ${id}
    order by m.id desc limit 1) moved on true`

const COUNTED = {
  state: computed<string>('state'),
  count: COUNT,
  /** There may be more: counting stopped at its limit. */
  cut: computed<boolean>('false'),
}
export type CountedState = RowOf<typeof COUNTED>

/** Counts rows with a `state`. */
export const countedStates = (sql: Sql, rows: Part) =>
  select(sql, COUNTED)`from (${rows} limit ${COUNT_SCAN}) counted group by state`

/** Conditions on a pipeline `p`. */
export const pipelineLike = (sql: Sql, { namespace, layer, pipeline, q, seen }: InstanceFilter): Part => sql`
  ${namespace === undefined ? sql`` : sql`and p.namespace = ${namespace}`}
  ${layer === undefined ? sql`` : sql`and p.layer = ${layer}`}
  ${pipeline === undefined ? sql`` : sql`and p.name = ${pipeline}`}
  ${andSeenId(sql, sql`p.id`, seen ?? 'all')}
  ${q === undefined ? sql`` : sql`and ${nameLike(sql, q)}`}`

/** Drafts and triggers: conditions on their pipeline `p`, or the beginning of their own id. */
export function ownFilter(sql: Sql, id: Part, { q, ...names }: InstanceFilter): Part {
  const range = q === undefined ? null : idRange(q)
  if (q === undefined || range === null) return pipelineLike(sql, { ...names, q })
  return sql`${pipelineLike(sql, names)} and (${nameLike(sql, q)} or ${id} between ${range.first} and ${range.last})`
}

const nameLike = (sql: Sql, q: string) =>
  sql`p.namespace || '.' || p.layer || '.' || p.name like ${`%${q.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`}`

/** Ids that begin with a text; null: none do. */
export function idRange(text: string): { first: string; last: string } | null {
  const digits = text.toLowerCase().replaceAll('-', '')
  if (!/^[0-9a-f]{4,32}$/.test(digits)) return null
  const uuid = (filled: string) => filled.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  return { first: uuid(digits.padEnd(32, '0')), last: uuid(digits.padEnd(32, 'f')) }
}
