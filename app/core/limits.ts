// Nothing grows without a named limit (I8). Limits of one slice stand beside their use; several slices share these.

export const limits = {
  /** Items of a list that has no default page (spec: Limits). */
  listCap: 10_000,
  /** Uploads and pipeline files: 32 MB of the file part (spec: Limits). */
  uploadBytes: 33_554_432,
  /** An upload is aborted after this time. */
  uploadMs: 1_800_000,
  /** Texts that users write about a resource: a description, a message, an expected schema. */
  textCharacters: 10_000,
  /** Access tokens: length of one token, cached verified tokens, and sizes of their claims. */
  accessTokenLength: 8_192,
  cachedAccessTokens: 10_000,
  subjectLength: 255,
  rolesMax: 100,
  /** Clients with a rate limit bucket of their own. An evicted client starts with a full bucket. */
  cachedBuckets: 20_000,
  /**
   * JSON of one engine answer (QUERY_ANSWER_LIMIT). The whole answer is in memory: an error must come before the first byte.
   */
  answerBytes: 64 * 1_048_576,
  /** Rows of one table preview or pipeline preview. */
  previewRowsMax: 1_000,
  /** Sources that a process reads concurrently for lineage and cycles (spec: Limits). */
  sourceReadsAtOnce: 20,
  /** Log lines stored per run. One more line then reports the number of dropped lines. */
  logLinesPerRun: 10_000,
  /** Length of one log line, and of a run's error. */
  logMessageLength: 16_384,
  /** Waiting runs of one pipeline. */
  waitingRunsPerPipeline: 10_000,
  /** Runs that one transaction cancels. */
  cancelBatch: 500,
  /** Maximum number of landing files that one attempt reads. The list of these files must fit in one request to a runner. */
  landingFilesPerAttempt: 50_000,
  /** Runs that one dispatcher transaction starts or ends. */
  dispatchBatch: 128,
  /** A runner is lost after this time without a message. */
  runnerSilenceMs: 6_000,
  /** The interval of the dispatcher's sweep, which finds work whose hint was lost. */
  sweepMs: 1_000,
  /** Firings in a row, each caused by the success before it. This limit ends a cycle of triggers. */
  chainDepth: 64,
  /**
   * Events that one transaction consumes, and triggers that it evaluates. An event with more triggers takes several
   * transactions.
   */
  eventBatch: 64,
  firingBatch: 250,
  /** Due triggers and ends of cooldowns that one transaction processes. */
  dueBatch: 250,
  /** A dependency that does not answer within this time is unavailable. */
  rpcTimeoutMs: 10_000,
  /** A readiness check fails after this time. */
  readinessTimeoutMs: 2_000,
  /** SSE: the poll interval of the specification, and the heartbeat. */
  ssePollMs: 2_000,
  sseHeartbeatMs: 15_000,
} as const
