// A file of the lake that a table names and that is not in the store.
import { type TableName, tableKey } from '../../ground/names.ts'

export class MissingLakeFile extends Error {
  constructor(
    readonly key: string,
    options?: ErrorOptions & { table?: TableName },
  ) {
    const table = options?.table === undefined ? 'a table' : `table ${tableKey(options.table)}`
    super(
      `${table} cannot be read: its file ${key} is missing from the store: restore the file from a backup, or restore an earlier state of the table`,
      options,
    )
  }
}

/** Reads a table. The error about a missing file names the table. */
export async function readingTable<T>(table: TableName, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw error instanceof MissingLakeFile ? new MissingLakeFile(error.key, { table, cause: error }) : error
  }
}
