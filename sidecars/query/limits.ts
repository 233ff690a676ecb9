// Nothing grows without a bound (I8): every limit of the query service has its name and its reason here.

const MIB = 1_048_576

export const limits = {
  /** One request message: the SQL text (spec: 100 KB) and what comes with it. */
  requestBytes: MIB,
  /** Rows and Arrow bytes of one answer: the API holds both, and their JSON. */
  rows: 100_000,
  resultBytes: 32 * MIB,
  /** Results an engine process has answered and may still hold; then it collects them. */
  heldBytes: 8 * MIB,
  /** One query, whatever its request says. */
  queryMs: 600_000,
  /** Queries that wait for an engine; more are sent away at once. */
  waiting: 128,
  /** A start takes 0.2 s; a machine under load may need this. */
  engineStartMs: 20_000,
  /** Queries of one engine process: what its libraries leak stays small. */
  queriesPerEngine: 20_000,
  /** Text of the tables an engine knows; past it a fresh one takes its place. */
  tableCharactersPerEngine: 32 * MIB,
  /** Engines beyond the one kept warm end after this much idleness. */
  engineIdleMs: 60_000,
  /** Commits of main whose tables are remembered: queries ask for the newest, a slow one for one a little older. */
  commits: 16,
  /** Data files of remembered table states. */
  dataFiles: 200_000,
  /** Characters of remembered statements. */
  statementCharacters: 4 * MIB,
  /** Local copies of lake files, when the lake is not on a shared disk. */
  cacheBytes: 4_096 * MIB,
  /** What a stopping service gives its queries to end. */
  drainMs: 3_000,
} as const
