import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { pick, select } from '../../drizzle/rows.ts'
import { landingZones } from '../../drizzle/schema/landing.ts'
import { pipelines } from '../../drizzle/schema/pipeline.ts'

/** Class of the advisory locks for paths. Two paths with the same hash only wait for each other needlessly. */
const PATHS = 1_347_571_784

/** Locks a path until the transaction ends, either exclusively (`alone`) or shared. */
export const lockPath = (tx: SqlTx, path: string, how: 'alone' | 'shared') =>
  how === 'alone'
    ? tx`select pg_advisory_xact_lock(${PATHS}, hashtext(${path}))`
    : tx`select pg_advisory_xact_lock_shared(${PATHS}, hashtext(${path}))`

/** The live pipelines of a namespace. */
export const pipelinesIn = (sql: Sql, namespace: string) => select(
  sql,
  pick(pipelines, 'id', 'layer', 'name'),
)`
  from pipeline where namespace = ${namespace} and deleted_at is null`

/** The landing zones of a namespace. */
export const zonesIn = (sql: Sql, namespace: string) => select(sql, pick(landingZones, 'id', 'name'))`
  from landing_zone where namespace = ${namespace}`
