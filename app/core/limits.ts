// Nothing grows without a bound (I8). A limit of one slice stands beside its user; these are shared by several.

export const limits = {
  /** Items of a list that has no default page (spec: Limits). */
  listCap: 10_000,
  /** Versions that a pipeline may keep: each holds the path and version of every file. */
  versionsPerPipeline: 1_000,
  /** Uploads and pipeline files: 32 MB of the file part (spec: Limits). */
  uploadBytes: 33_554_432,
  /** What multipart framing may add to an upload. */
  multipartOverheadBytes: 65_536,
  /** Parts of an upload's form, header lines and bytes of one, and bytes of a text field (a path has at most 1,024). */
  uploadParts: 16,
  uploadPartHeaders: 32,
  uploadPartHeaderBytes: 16_384,
  uploadFieldBytes: 8_192,
  /** An upload of which nothing arrives for this long is given up, and one that takes this long in all. */
  uploadIdleMs: 30_000,
  uploadMs: 1_800_000,
  jsonBodyBytes: 1_048_576,
  /** What people write about a thing: a description, a message, an expected schema. */
  textCharacters: 10_000,
  /** A JSON body that takes this long to arrive is given up. */
  jsonBodyMs: 60_000,
  /** Access tokens: length of one, verified ones that are remembered, and what is taken from their claims. */
  accessTokenLength: 8_192,
  accessTokensKept: 10_000,
  subjectLength: 255,
  rolesKept: 100,
  /** Clients whose requests are counted apart; who is not among them begins anew. */
  bucketsKept: 20_000,
  /** Calls of one webhook: per second, and at once. */
  webhookCallsPerSecond: 50,
  webhookCallsBurst: 500,
  /** SQL text of POST /query (spec: Limits). */
  querySqlBytes: 102_400,
  queryTimeoutMs: 30_000,
  /** JSON of one engine answer (QUERY_ANSWER_LIMIT): it is in memory as a whole, because a refusal comes before the first byte. */
  answerBytes: 64 * 1_048_576,
  /** Answers of more than 1 MB of JSON that are written at once: each takes up to `answerBytes`, and 32 MB of Arrow. */
  largeAnswersWritten: 4,
  /** Those that wait for that, each with its Arrow; the next one is 503. */
  largeAnswersWaiting: 32,
  /** Queries one API process has under way: its HTTP client makes 256 calls at once, and runners are called by it too. */
  queriesUnderWay: 192,
  queryRows: 1_000,
  queryRowsMax: 100_000,
  previewRows: 50,
  previewRowsMax: 1_000,
  /** Preview of a pipeline (spec: Limits): rows, files given in place of a zone's, and the runner's time for one, 30 s of waiting with it. */
  pipelinePreviewRows: 100,
  previewSampleFiles: 100,
  pipelinePreviewMs: 90_000,
  /** What sources read: how many and how much of it is remembered; how long a source may be, as a template (1 MiB). */
  sourceReferencesKept: 50_000,
  sourceReferencesBytes: 33_554_432,
  referencesSourceBytes: 1_048_576,
  /** Sources that a process reads at the same time for lineage and cycles (spec: Limits). */
  sourceReadsAtOnce: 20,
  /** Tables that a publish follows in its search for a cycle. */
  cycleTables: 2_000,
  /** Files one version may pin: a pipeline is a handful of files and its tests. */
  filesPerPipeline: 1_000,
  /** Log lines and bytes kept per run; one line then says how many were dropped. */
  logLinesPerRun: 10_000,
  logBytesPerRun: 8 * 1_048_576,
  /** Of one log line, and of a run's error. */
  logMessageLength: 16_384,
  /** Runs of one pipeline that may wait. */
  waitingRunsPerPipeline: 10_000,
  /** Requests for runs that one statement stores. */
  requestBatch: 256,
  /** Runs one transaction cancels. */
  cancelBatch: 500,
  /** Landing files one attempt reads: what fits one request to a runner. */
  landingFilesPerAttempt: 50_000,
  /** Runs one dispatcher transaction starts or ends. */
  dispatchBatch: 128,
  /** Runs one transaction starts even when fewer are under way: with less, what a transaction costs outweighs its runs. */
  startBatch: 16,
  /** Outcomes and lines, up to which an acceptance among them is stored by itself and at once. */
  toldByFew: 8,
  /** Longer than any attempt; a closed branch ends what a token can do much earlier. */
  attemptTokenMs: 86_400_000,
  /** Replicas renew their sign of life this often, and are given up when it has expired. */
  replicaRenewMs: 2_000,
  replicaExpiryMs: 6_000,
  /**
   * What only one replica does: its lease, and how often that is renewed or asked for. A leader that is gone has been
   * replaced after the lease, one interval, and the end of its backend.
   */
  leaderLeaseMs: 9_000,
  leaderRenewMs: 3_000,
  leaderEndBackendMs: 2_000,
  /** A database that is away is asked again this soon. */
  leaderRetryMs: 500,
  /** A leader's connection: waiting for a lock, one statement, thinking inside a transaction, one whole transaction. */
  leaderLockMs: 5_000,
  leaderStatementMs: 15_000,
  leaderIdleMs: 5_000,
  leaderTurnMs: 30_000,
  /** And saying nothing at all, though it is asked to renew or to challenge much more often: its client has given it up. */
  leaderSilenceMs: 60_000,
  /** A runner that says nothing for this long is lost. */
  runnerSilenceMs: 6_000,
  /** The dispatcher looks for what a lost hint missed. */
  sweepMs: 1_000,
  /** The scheduler looks at its schedules this often (spec: Limits), and takes so many of them in one transaction. */
  schedulerTickMs: 30_000,
  scheduleBatch: 5_000,
  /** Triggers of one pipeline, and pipelines one of them may wait for. */
  triggersPerPipeline: 100,
  dependenciesPerTrigger: 50,
  /** A year: longer pauses are what disabling is for. */
  cooldownSecondsMax: 31_536_000,
  /** Firings in a row, each started by the success before it: what ends a cycle of triggers. */
  chainDepth: 64,
  /** Events one transaction takes, and triggers it asks about them; an event that more triggers hear takes several. */
  eventBatch: 64,
  firingBatch: 250,
  /** Due triggers, and ends of cooldowns, that one transaction takes. */
  dueBatch: 250,
  /** A due trigger that cannot be fired whatever is tried is left alone this long. */
  passedOverMs: 60_000,
  /** What a lost notice missed of dependencies is found this often. */
  dependencySweepMs: 30_000,
  /** Webhook calls one transaction answers, and those that may wait for the next one. */
  webhookBatch: 64,
  webhookCallsWaiting: 2_000,
  /** Log lines one transaction stores. */
  logBatch: 2_000,
  /** A stop that a runner does not answer is asked for again later, and at last no more; other effects then less often. */
  cancelTimeoutMs: 3_000,
  effectTries: 20,
  /** Effects one pass claims, and how long a claim holds before another may try. */
  outboxBatch: 32,
  outboxClaimMs: 30_000,
  /** A dependency that does not answer is unavailable after this time. */
  rpcTimeoutMs: 10_000,
  /** A runner compiles a source for 10 s at most, and says so in its answer. */
  validationMs: 20_000,
  /** All tests of a pipeline on production data, asked for in one request. */
  qualityTestsMs: 60_000,
  /** A token to read main with: longer than anything that is done with one. */
  readTokenMs: 120_000,
  readinessTimeoutMs: 2_000,
  /** SSE: the fallback poll of the specification, heartbeats, and open streams. */
  ssePollMs: 2_000,
  sseHeartbeatMs: 15_000,
  /** Inspector: instances of one state that are counted, beyond which it says that there are more. */
  inspectorCount: 10_000,
  /** Rows that are looked at where no index counts: live runs, drafts, triggers. */
  inspectorCountScan: 100_000,
  /** Counts are shared by everybody who asks within this time. */
  inspectorCountMs: 1_000,
  inspectorCountsKept: 256,
  /** Pipelines whose names match what is searched for. */
  inspectorPipelines: 2_000,
  /** Steps of history in one answer, and in an export. */
  inspectorSteps: 500,
  inspectorExportSteps: 10_000,
  /** Dependencies that a trigger is said to wait for. */
  inspectorReasons: 20,
  /** A runner that says nothing for this long is said not to answer. */
  inspectorRunnerMs: 1_000,
  /** Event streams of the inspector, and how often a list is told that it has changed. */
  inspectorStreams: 1_000,
  inspectorListMs: 1_000,
  /** What an instance waits for is looked up again this often while somebody watches. */
  inspectorRefreshMs: 10_000,
} as const
