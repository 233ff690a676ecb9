// Nothing grows without a bound (I8). A limit of one slice stands beside its user; these are shared by several.

export const limits = {
  /** Items of a list that has no default page (spec: Limits). */
  listCap: 10_000,
  /** Uploads and pipeline files: 32 MB of the file part (spec: Limits). */
  uploadBytes: 33_554_432,
  /** An upload of which nothing arrives for this long is given up, and one that takes this long in all. */
  uploadMs: 1_800_000,
  /** What people write about a thing: a description, a message, an expected schema. */
  textCharacters: 10_000,
  /** Access tokens: length of one, verified ones that are remembered, and what is taken from their claims. */
  accessTokenLength: 8_192,
  accessTokensKept: 10_000,
  subjectLength: 255,
  rolesKept: 100,
  /** Clients whose requests are counted apart; who is not among them begins anew. */
  bucketsKept: 20_000,
  /** JSON of one engine answer (QUERY_ANSWER_LIMIT): it is in memory as a whole, because a refusal comes before the first byte. */
  answerBytes: 64 * 1_048_576,
  /** Queries one API process has under way: its HTTP client makes 256 calls at once, and runners are called by it too. */
  previewRowsMax: 1_000,
  /** Sources that a process reads at the same time for lineage and cycles (spec: Limits). */
  sourceReadsAtOnce: 20,
  /** Log lines and bytes kept per run; one line then says how many were dropped. */
  logLinesPerRun: 10_000,
  /** Of one log line, and of a run's error. */
  logMessageLength: 16_384,
  /** Runs of one pipeline that may wait. */
  waitingRunsPerPipeline: 10_000,
  /** Runs one transaction cancels. */
  cancelBatch: 500,
  /** Landing files one attempt reads: what fits one request to a runner. */
  landingFilesPerAttempt: 50_000,
  /** Runs one dispatcher transaction starts or ends. */
  dispatchBatch: 128,
  /** A runner that says nothing for this long is lost. */
  runnerSilenceMs: 6_000,
  /** The dispatcher looks for what a lost hint missed. */
  sweepMs: 1_000,
  /** Firings in a row, each started by the success before it: what ends a cycle of triggers. */
  chainDepth: 64,
  /** Events one transaction takes, and triggers it asks about them; an event that more triggers hear takes several. */
  eventBatch: 64,
  firingBatch: 250,
  /** Due triggers, and ends of cooldowns, that one transaction takes. */
  dueBatch: 250,
  /** A dependency that does not answer is unavailable after this time. */
  rpcTimeoutMs: 10_000,
  /** A token to read main with: longer than anything that is done with one. */
  readinessTimeoutMs: 2_000,
  /** SSE: the fallback poll of the specification, heartbeats, and open streams. */
  ssePollMs: 2_000,
  sseHeartbeatMs: 15_000,
} as const
