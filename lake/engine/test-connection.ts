// An in-memory engine for the tests of a file.
import { afterAll } from 'bun:test'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'

export async function useConnection(): Promise<DuckDBConnection> {
  const instance = await DuckDBInstance.create(':memory:', { threads: '1' })
  const connection = await instance.connect()
  afterAll(() => {
    connection.closeSync()
    instance.closeSync()
  })
  return connection
}
