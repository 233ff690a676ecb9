/**
 * A DuckDB instance nothing can leave: files of the given paths, no network, no extension, no setting.
 *
 * Opening takes two steps, so that one is kept ready: `prepareEngine` (10 ms) needs nothing of a run, `lock` (under
 * 1 ms) takes the paths. The order of the lock matters: paths first, then external access off, then the
 * configuration locked. What the lock does not stop: SQL can print to the process's standard output (profiling), so
 * nothing else may speak there; and a symbolic link counts as the file it leads to, so a directory made for a run
 * needs hard links or the targets in `allowedPaths`.
 */
import {
  type DuckDBConnection,
  DuckDBInstance,
  type DuckDBMaterializedResult,
  type DuckDBResult,
  type DuckDBResultReader,
} from '@duckdb/node-api'
import { quoteList, quoteLiteral } from '../quote.ts'
import { mapped } from './error.ts'

export interface EngineSize {
  /** Of the buffer manager; the process's peak is some 2.6 times a small limit. */
  memoryLimitBytes: number
  threads: number
  /** Of the temporary directory, where large sorts and joins spill. */
  tempLimitBytes: number
}

export interface EngineAccess {
  /** Absolute; SQL may read and write in it too. */
  tempDirectory: string
  /** Absolute; everything below may be read and written. */
  allowedDirectories: readonly string[]
  /** Absolute; exactly these files. */
  allowedPaths: readonly string[]
  /** Files of the same path are read anew each time, and none of their bytes kept. */
  keepsNoFiles?: boolean
  /** A file that holds the profile of the last statement, as JSON. None: statements are not profiled. */
  profilePath?: string
}

export interface Column {
  name: string
  /** The engine's type name: `DECIMAL(14,2)`. */
  type: string
}

export interface PreparedEngine {
  /** The engine for one run, once. */
  lock(access: EngineAccess): Promise<Engine>
  close(): void
}

/** A fresh instance and its one connection, not yet locked: hand it to nobody's SQL. */
export async function prepareEngine(size: EngineSize): Promise<PreparedEngine> {
  const instance = await DuckDBInstance.create(':memory:', {
    memory_limit: `${size.memoryLimitBytes}B`,
    threads: String(size.threads),
    autoinstall_known_extensions: 'false',
    autoload_known_extensions: 'false',
    allow_community_extensions: 'false',
    allow_persistent_secrets: 'false',
  })
  const connection = await instance.connect()
  const engine = new Engine(instance, connection)
  // Loads the time zone data of the built-in ICU, and makes every text of a time the same on every machine.
  await engine.run("SET GLOBAL TimeZone = 'UTC'")
  return {
    lock: async ({ tempDirectory, allowedDirectories, allowedPaths, keepsNoFiles, profilePath }) => {
      const profiling =
        profilePath === undefined
          ? ''
          : `SET enable_profiling = 'json'; SET profiling_output = ${quoteLiteral(profilePath)};`
      await engine.run(
        // The limit is the directory's: one that is set before the directory is forgotten with the directory before.
        `${profiling}
         ${keepsNoFiles ? 'SET enable_external_file_cache = false;' : ''}
         SET temp_directory = ${quoteLiteral(tempDirectory)};
         SET max_temp_directory_size = '${size.tempLimitBytes}B';
         SET allowed_directories = ${quoteList(allowedDirectories)};
         SET allowed_paths = ${quoteList(allowedPaths)};
         SET enable_external_access = false;
         SET lock_configuration = true`,
      )
      return engine
    },
    close: () => engine.close(),
  }
}

/** Both steps at once. */
export async function openLocked(options: EngineSize & EngineAccess): Promise<Engine> {
  const prepared = await prepareEngine(options)
  try {
    return await prepared.lock(options)
  } catch (error) {
    prepared.close()
    throw error
  }
}

/** One locked instance. Every method throws `EngineError`. One call at a time; `interrupt` from anywhere. */
export class Engine {
  readonly #instance: DuckDBInstance
  #connection: DuckDBConnection
  #isClosed = false

  constructor(instance: DuckDBInstance, connection: DuckDBConnection) {
    this.#instance = instance
    this.#connection = connection
  }

  get connection(): DuckDBConnection {
    return this.#connection
  }

  /** Forgets what belongs to the connection: temporary tables and views, prepared statements, the state of random(). */
  async renew(): Promise<void> {
    const before = this.#connection
    this.#connection = await this.#instance.connect()
    before.closeSync()
  }

  /** Runs one or more statements; answers the last one's result, whole in memory. */
  run(sql: string): Promise<DuckDBMaterializedResult> {
    return mapped(() => this.connection.run(sql))
  }

  /**
   * Runs one query; its rows are computed as they are fetched. When that fails the message is lost (see `rows.ts`):
   * prefer `run` with a limit in the SQL.
   */
  stream(sql: string): Promise<DuckDBResult> {
    return mapped(() => this.connection.stream(sql))
  }

  /** Runs one or more statements and reads the last one's rows, all of them: for small results. */
  read(sql: string): Promise<DuckDBResultReader> {
    return mapped(() => this.connection.runAndReadAll(sql))
  }

  /** The columns of a query, without running it. */
  async describe(sql: string): Promise<Column[]> {
    const reader = await this.read(`DESCRIBE ${sql}`)
    return reader.getRows().map(([name, type]) => ({ name: String(name), type: String(type) }))
  }

  /** Stops what runs, in some 5 ms; the call that runs throws with kind `interrupted`. */
  interrupt(): void {
    if (!this.#isClosed) this.connection.interrupt()
  }

  /** Frees memory and temporary files. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.connection.closeSync()
    this.#instance.closeSync()
  }
}
