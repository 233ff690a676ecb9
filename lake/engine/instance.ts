// A locked DuckDB instance. It can use only the files of the given paths: no network, no extensions, no settings.
//
// Opening has two steps, so that one instance can be prepared in advance. `prepareEngine` (10 ms) needs nothing from a run;
// `lock` (under 1 ms) needs the paths. The order inside `lock` matters: first the paths, then external access off, then the
// configuration locked.
//
// The lock has two gaps. SQL can print to the process's standard output (profiling), so the process must not use that output
// otherwise. A symbolic link counts as its target file. So a directory for a run needs hard links, or the targets in
// `allowedPaths`.
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
  /** The limit of the buffer manager. With a small limit, the process's peak is about 2.6 times as large. */
  memoryLimitBytes: number
  threads: number
  /** The limit of the temporary directory, to which large sorts and joins spill. */
  tempLimitBytes: number
}

export interface EngineAccess {
  /** An absolute path. SQL may also read and write files there. */
  tempDirectory: string
  /** Absolute paths. SQL may read and write all files below. */
  allowedDirectories: readonly string[]
  /** Absolute paths of single files. */
  allowedPaths: readonly string[]
  /** The engine reads a file again for each use and caches nothing of it. */
  keepsNoFiles?: boolean
  /** Receives the profile of the last statement as JSON. Without it, statements are not profiled. */
  profilePath?: string
  /** Replaces the limits of the prepared instance. */
  share?: Pick<EngineSize, 'memoryLimitBytes' | 'threads'>
  /** The engine counts the progress of the first connection's statements. */
  countsProgress?: boolean
  /** The only optimizers that may change a plan. Without it, all of them. */
  optimizers?: readonly string[]
}

export interface Column {
  name: string
  /** The engine's type name: `DECIMAL(14,2)`. */
  type: string
}

export interface PreparedEngine {
  /** Returns the engine for one run. May be called once. */
  lock(access: EngineAccess): Promise<Engine>
  close(): void
}

/** Opens a fresh instance with one connection. It is not locked yet, so it must run no SQL of users. */
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
  // Loads the time zone data of the built-in ICU, and makes the text of a time equal on every machine.
  await engine.run("SET GLOBAL TimeZone = 'UTC'")
  return {
    lock: async ({
      tempDirectory,
      allowedDirectories,
      allowedPaths,
      keepsNoFiles,
      profilePath,
      countsProgress,
      share,
      optimizers,
    }) => {
      const profiling =
        profilePath === undefined
          ? ''
          : `SET enable_profiling = 'json'; SET profiling_output = ${quoteLiteral(profilePath)};`
      await engine.run(
        // Setting the directory resets its size limit, so the limit is set after the directory.
        `${profiling}
         ${countsProgress ? 'SET enable_progress_bar = true; SET enable_progress_bar_print = false;' : ''}
         ${share ? `SET memory_limit = '${share.memoryLimitBytes}B'; SET threads = ${share.threads};` : ''}
         ${optimizers ? await disablingOthers(engine, optimizers) : ''}
         ${keepsNoFiles ? 'SET enable_external_file_cache = false;' : 'SET parquet_metadata_cache = true;'}
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

async function disablingOthers(engine: Engine, optimizers: readonly string[]): Promise<string> {
  const reader = await engine.read('SELECT name FROM duckdb_optimizers()')
  const names = reader.getRows().map(([name]) => String(name))
  const others = names.filter((name) => !optimizers.includes(name))
  return `SET disabled_optimizers = ${quoteLiteral(others.join(','))};`
}

/** Prepares and locks an instance. */
export async function openLocked(options: EngineSize & EngineAccess): Promise<Engine> {
  const prepared = await prepareEngine(options)
  try {
    return await prepared.lock(options)
  } catch (error) {
    prepared.close()
    throw error
  }
}

/** One locked instance. Every method throws `EngineError`. Only one call may run at a time, except `interrupt`. */
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

  /** Replaces the connection and so drops its state: temporary tables and views, prepared statements, the state of random(). */
  async renew(): Promise<void> {
    const before = this.#connection
    this.#connection = await this.#instance.connect()
    before.closeSync()
  }

  /** Runs one or more statements. Returns the last result, completely in memory. */
  run(sql: string): Promise<DuckDBMaterializedResult> {
    return mapped(() => this.connection.run(sql))
  }

  /**
   * Runs one query and computes its rows while they are fetched. If the query then fails, its message is lost (see `rows.ts`):
   * prefer `run` with a LIMIT.
   */
  stream(sql: string): Promise<DuckDBResult> {
    return mapped(() => this.connection.stream(sql))
  }

  /** Runs one or more statements and reads all rows of the last one. Use it for small results. */
  read(sql: string): Promise<DuckDBResultReader> {
    return mapped(() => this.connection.runAndReadAll(sql))
  }

  /** Returns the columns of a query without running it. */
  async describe(sql: string): Promise<Column[]> {
    const reader = await this.read(`DESCRIBE ${sql}`)
    return reader.getRows().map(([name, type]) => ({ name: String(name), type: String(type) }))
  }

  /** Percentage of the input that the running call has read. Null: unknown. */
  get percentDone(): number | null {
    const { percentage } = this.connection.progress
    return percentage < 0 ? null : percentage
  }

  /** Stops the running call within about 5 ms. That call throws with kind `interrupted`. */
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
