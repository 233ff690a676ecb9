import { type DuckDBPreparedStatement, type DuckDBResult, StatementType } from '@duckdb/node-api'
import { engineError, mapped } from '../../../lake/engine/error.ts'
import { checkHarmless } from '../../../lake/engine/harmless.ts'
import type { Column, Engine } from '../../../lake/engine/instance.ts'
import { StatementRefused } from '../../../lake/engine/statement.ts'
import { typeName } from '../../../lake/engine/type-name.ts'

// The rules for an author's text: one SELECT. It has no effects, no parameters and no equal column names.

/** The service describes each column several times. Parquet files and tables of people have at most some thousand columns. */
const COLUMNS_MAX = 10_000

/** The text is not allowed here. */
export class Refused extends Error {}

/** Accepts one SELECT, as the engine's own parser understands it. Throws Refused and EngineError. */
export async function selectOf(engine: Engine, sql: string): Promise<DuckDBPreparedStatement> {
  const { connection } = engine
  const statements = await connection.extractStatements(sql).catch((error: unknown) => {
    const mappedError = engineError(error)
    // For a text without a statement, the engine only reports that something failed.
    throw mappedError === error ? new Refused('there is no SELECT statement') : mappedError
  })
  if (statements.count !== 1) {
    // The engine's parser turns such a PIVOT into two statements; the first finds the values.
    const hint = /\bpivot\b/i.test(sql) ? ' (a PIVOT must list its values: ON column IN (...))' : ''
    throw new Refused(`one SELECT statement is expected, not ${statements.count}${hint}`)
  }
  // A SELECT may only return rows. Other effects would be visible to tests, or in files of others.
  await checkHarmless(connection, sql).catch((error: unknown) => {
    throw error instanceof StatementRefused ? new Refused(error.message) : error
  })
  const statement = await mapped(() => statements.prepare(0))
  if (statement.statementType !== StatementType.SELECT)
    throw new Refused(`only a SELECT can be run, not ${StatementType[statement.statementType]}`)
  if (statement.columnCount > COLUMNS_MAX)
    throw new Refused(
      `the query has ${statement.columnCount} columns, more than ${COLUMNS_MAX}: select fewer columns, or store their values as rows`,
    )
  return statement
}

/**
 * Refuses columns with equal names, ignoring case. A view would rename the second `a` to `a_1`, and the table would get a
 * column that the author did not name.
 */
export function refuseTwins(names: readonly string[]): void {
  const namesSoFar = new Set<string>()
  for (const name of names) {
    if (namesSoFar.has(name.toLowerCase()))
      throw new Refused(`two columns are named "${name}": give one of them another name`)
    namesSoFar.add(name.toLowerCase())
  }
}

/** Refuses parameters, because a pipeline has no values for them. Throws Refused. */
export function refuseParameters(statement: DuckDBPreparedStatement): void {
  if (statement.parameterCount > 0)
    throw new Refused(
      `parameter ${statement.parameterName(1)} of the query has no value: write the value into the query`,
    )
}

export const columnsOf = (of: DuckDBResult | DuckDBPreparedStatement): Column[] =>
  namesOf(of).map((name, column) => ({ name, type: typeName(of.columnType(column)) }))

export const namesOf = (of: DuckDBResult | DuckDBPreparedStatement): string[] =>
  Array.from({ length: of.columnCount }, (_, column) => of.columnName(column))
