// The history of instances.
import { alias } from 'drizzle-orm/pg-core'
import { COUNT, computed, only, pick, type RowOf, select } from '../../../drizzle/rows.ts'
import { transitions } from '../../../drizzle/schema/system.ts'
import type { Sql } from '../../../drizzle/sql.ts'
import { type MachineName, STEPS_MAX } from '../schema.ts'

/** Maximum number of steps in which `movedSince` looks for machines. */
const MOVES_MAX = 10_000

const t = alias(transitions, 't')
const STEP = pick(t, 'id', 'at', 'event', 'from', 'to', 'effects', 'cause')
export type StepRow = RowOf<typeof STEP>

interface Of {
  machine: MachineName
  id: string
}

const ofInstance = (sql: Sql, { machine, id }: Of) => sql`t.machine = ${machine} and t.entity_id = ${id}`

/** The newest steps before `before`, oldest first, and the time of the step after them. */
export async function stepRowsBefore(
  sql: Sql,
  of: Of,
  { before, limit }: { before: number | null; limit: number },
): Promise<{ rows: StepRow[]; nextAt: Date | null }> {
  const own = ofInstance(sql, of)
  const [rows, [next]] = await Promise.all([
    select(sql, STEP)`
      from transition t where ${own} ${before === null ? sql`` : sql`and t.id < ${before}`}
      order by t.id desc limit ${limit}`,
    before === null
      ? []
      : select(sql, { at: t.at })`from transition t where ${own} and t.id >= ${before} order by t.id limit 1`,
  ])
  return { rows: rows.toReversed(), nextAt: next?.at ?? null }
}

/** Steps after `after`, oldest first. */
export const stepRowsAfter = (sql: Sql, of: Of, after: number) => select(sql, STEP)`
  from transition t where ${ofInstance(sql, of)} and t.id > ${after} order by t.id limit ${STEPS_MAX}`

/** The number of kept steps of an instance, the number of steps before `first`, and the state before all kept steps. */
export async function positionOf(sql: Sql, of: Of, [first]: readonly StepRow[]) {
  const own = ofInstance(sql, of)
  const columns = {
    total: COUNT,
    earlier: computed<number>(sql`(count(*) filter (where t.id < ${first?.id ?? 0}))::int`),
    firstFrom: computed<string | null>(
      sql`(select t."from" from transition t where ${own} order by t.id limit 1)`,
    ),
  }
  return only(await select(sql, columns)`from transition t where ${own}`)
}

/** The id of the latest step of each given instance of a machine. */
export async function latestSteps(
  sql: Sql,
  machine: MachineName,
  ids: readonly string[],
): Promise<Map<string, number>> {
  const rows = await select(sql, {
    of: computed<string>('wanted.id'),
    ...pick(alias(transitions, 'latest'), 'id'),
  })`
    from unnest(${[...ids]}::uuid[]) as wanted(id)
    cross join lateral (select t.id from transition t where t.machine = ${machine} and t.entity_id = wanted.id
      order by t.id desc limit 1) latest`
  return new Map(rows.map(({ of, id }) => [of, id]))
}

/** The id of the newest step, and the machines that have moved since step `last`. */
export async function movedSince(sql: Sql, last: number | null) {
  const moved = {
    last: computed<number>('coalesce((select max(id) from transition), 0)::float8'),
    machines: computed<MachineName[]>(sql`coalesce((
      select array_agg(distinct machine) from (
        select machine from transition where id > ${last} order by id desc limit ${MOVES_MAX}) moved), '{}')`),
  }
  return only(await select(sql, moved)``)
}
