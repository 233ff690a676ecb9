// The limits of the query service, each with a name and a reason. Nothing grows without a limit (I8).

const MIB = 1_048_576

export const limits = {
  /** One request message: the SQL text (spec: 100 KB) and its other fields. */
  requestBytes: MIB,
  /** Rows and Arrow bytes of one answer. The API holds both, and their JSON. */
  rows: 100_000,
  resultBytes: 32 * MIB,
  /** Bytes of answered results that an engine process may still hold before it collects garbage. */
  heldBytes: 8 * MIB,
  /** The maximum time of one query, also for a request with a longer timeout. */
  queryMs: 600_000,
  /** Queries that may wait for an engine. Further ones are refused at once. */
  waiting: 128,
  /** The time limit of an engine's start. A start takes 0.2 s, but may take this long on a loaded machine. */
  engineStartMs: 20_000,
  /** Queries per engine process, so that memory leaks of its libraries stay small. */
  queriesPerEngine: 20_000,
  /** Text of the tables that an engine has defined. Beyond this size a new engine replaces it. */
  tableCharactersPerEngine: 32 * MIB,
  /** An engine ends after this idle time, unless it is the only warm one. */
  engineIdleMs: 60_000,
  /** Commits of main whose tables are cached. Queries use the newest commit; a slow query may use a slightly older one. */
  commits: 16,
  /** Memory of cached table states: their files, and the bounds of one table's columns. */
  contentBytes: 128 * MIB,
  boundsBytes: 32 * MIB,
  /** A table with fewer files is read as a whole. Planning first would cost more than opening these files. */
  filesPlanned: 8,
  /** Steps of a filter on one table, and values of one step. A longer filter is not applied to files. */
  filterSteps: 1_000,
  filterValues: 10_000,
  /** Tables that an engine knows for planning. Beyond this number the planner starts again. */
  plannedTables: 1_000,
  /** Memory of the planner, whose tables have no rows. */
  plannerBytes: 64 * MIB,
  /** Stored views that one query reads, directly or through other views. */
  viewsPerQuery: 100,
  /** Characters of cached statements. */
  statementCharacters: 4 * MIB,
  /** The time that a stopping service gives its queries to end. */
  drainMs: 3_000,
} as const
