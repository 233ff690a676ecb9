import { join } from 'node:path'
import {
  type DuckDBConnection,
  DuckDBInstance,
  DuckDBTypeId,
  type DuckDBValue,
  StatementType,
} from '@duckdb/node-api'
import { quoteName, quoteText } from '../../lake/iceberg/sql.ts'
import type { AnswerOf, RequestKind, RequestOf } from './engine-messages.ts'

// One DuckDB instance, used by one run. It is made ahead of its use; before it sees a word of the user's it is given
// its input and locked, for good: no file but those, no network, no extension, no setting.

/** The name of the user's SELECT within its instance. */
const RESULT = 'sluice_result'
const SAMPLE_CHARACTERS = 200

type Input<K extends RequestKind> = Omit<RequestOf<K>, 'kind' | 'number'>

/** The text is not what may be run here. */
export class Refused extends Error {}

export class EngineInstance {
  readonly #directory: string
  readonly #instance: DuckDBInstance
  readonly #connection: DuckDBConnection

  private constructor(directory: string, instance: DuckDBInstance, connection: DuckDBConnection) {
    this.#directory = directory
    this.#instance = instance
    this.#connection = connection
  }

  static async prepare({ directory, threads, memoryLimitBytes, tempLimitBytes }: Input<'prepare'>) {
    const instance = await DuckDBInstance.create(':memory:', {
      threads: String(threads),
      memory_limit: `${memoryLimitBytes}B`,
      temp_directory: join(directory, 'spill'),
      max_temp_directory_size: `${tempLimitBytes}B`,
      autoinstall_known_extensions: 'false',
      autoload_known_extensions: 'false',
      allow_community_extensions: 'false',
    })
    const connection = await instance.connect()
    await connection.run("SET TimeZone = 'UTC'")
    return new EngineInstance(directory, instance, connection)
  }

  async open({ paths, tables }: Input<'open'>): Promise<null> {
    const schemas = [...new Set(tables.map(({ schema }) => schema))]
    await this.#connection.run(
      [
        `SET allowed_directories = [${quoteText(this.#directory)}]`,
        `SET allowed_paths = [${paths.map(quoteText).join(', ')}]`,
        'SET enable_external_access = false',
        'SET lock_configuration = true',
        ...schemas.map((schema) => `CREATE SCHEMA ${quoteName(schema)}`),
        ...tables.map(
          ({ schema, name, from }) =>
            `CREATE VIEW ${quoteName(schema)}.${quoteName(name)} AS SELECT * FROM ${from}`,
        ),
      ].join(';\n'),
    )
    return null
  }

  async define({ sql }: Input<'define'>): Promise<AnswerOf<'define'>> {
    await this.#select(sql)
    await this.#connection.run(`CREATE TEMP VIEW ${RESULT} AS ${sql}`)
    const described = await this.#connection.runAndReadAll(`DESCRIBE ${RESULT}`)
    return described.getRowObjectsJson().map((row) => ({
      name: String(row.column_name),
      type: String(row.column_type),
    }))
  }

  async write({ projection, fieldIds, path }: Input<'write'>): Promise<unknown> {
    const result = await this.#connection.runAndReadAll(
      `COPY (SELECT ${projection} FROM ${RESULT}) TO ${quoteText(path)} ` +
        `(FORMAT parquet, COMPRESSION zstd, FIELD_IDS ${fieldIds}, RETURN_STATS)`,
    )
    return result.getRowObjectsJS()[0]
  }

  async judge({ sql, sampleRows }: Input<'judge'>): Promise<AnswerOf<'judge'>> {
    const statement = await this.#select(sql)
    const result = await statement.stream()
    const names = result.columnNames()
    const samples: string[] = []
    let first: DuckDBValue[] | undefined
    let rows = 0
    for (;;) {
      const chunk = await result.fetchChunk()
      if (chunk === null || chunk.rowCount === 0) break
      rows += chunk.rowCount
      if (first !== undefined) continue
      const read = chunk.getRows()
      first = read[0]
      samples.push(...read.slice(0, sampleRows).map((row) => sampleOf(names, row)))
    }
    const isNumber = rows === 1 && names.length === 1 && NUMERIC.has(result.columnTypeId(0))
    return isNumber ? { rows, value: wholeNumber(first?.[0]), samples: [] } : { rows, value: null, samples }
  }

  interrupt(): void {
    this.#connection.interrupt()
  }

  close(): null {
    this.#connection.closeSync()
    this.#instance.closeSync()
    return null
  }

  /** The engine's own parser decides what is one SELECT. Throws Refused. */
  async #select(sql: string) {
    const statements = await this.#connection.extractStatements(sql).catch((error: unknown) => {
      // Of a text without a statement the engine only says that something failed.
      if (error instanceof Error && error.message.includes('Parser Error')) throw error
      throw new Refused('there is no SELECT statement')
    })
    if (statements.count !== 1) throw new Refused(`one SELECT statement is expected, not ${statements.count}`)
    const statement = await statements.prepare(0)
    if (statement.statementType !== StatementType.SELECT)
      throw new Refused(
        `only a SELECT can be run, not ${StatementType[statement.statementType] ?? 'this statement'}`,
      )
    return statement
  }
}

const NUMERIC = new Set([
  DuckDBTypeId.TINYINT,
  DuckDBTypeId.SMALLINT,
  DuckDBTypeId.INTEGER,
  DuckDBTypeId.BIGINT,
  DuckDBTypeId.HUGEINT,
  DuckDBTypeId.UTINYINT,
  DuckDBTypeId.USMALLINT,
  DuckDBTypeId.UINTEGER,
  DuckDBTypeId.UBIGINT,
  DuckDBTypeId.UHUGEINT,
  DuckDBTypeId.FLOAT,
  DuckDBTypeId.DOUBLE,
  DuckDBTypeId.DECIMAL,
])

const INT64_MAX = 2n ** 63n - 1n

/** A number as a count of what is wrong: away from zero to the next whole number, so that 0.2 is not 0. NULL is 0. */
function wholeNumber(value: DuckDBValue | undefined): bigint {
  if (value === null || value === undefined) return 0n
  const clamped = (whole: bigint) => (whole > INT64_MAX ? INT64_MAX : whole < -INT64_MAX ? -INT64_MAX : whole)
  if (typeof value === 'bigint') return clamped(value)
  const number = Number(String(value))
  if (Number.isNaN(number)) return 1n
  const whole = Math.sign(number) * Math.ceil(Math.abs(number))
  return Number.isFinite(whole) ? clamped(BigInt(whole)) : number > 0 ? INT64_MAX : -INT64_MAX
}

function sampleOf(names: readonly string[], row: readonly DuckDBValue[]): string {
  const text = names.map((name, column) => `${name}=${String(row[column] ?? 'NULL')}`).join(', ')
  return text.length <= SAMPLE_CHARACTERS ? text : `${text.slice(0, SAMPLE_CHARACTERS)}…`
}
