// All limits of the runner, each with its reason (invariant I8: nothing grows without a limit).

const MIB = 1_048_576

export const limits = {
  /** Log lines and bytes stored per attempt. One line then counts the dropped lines (semantics: Logs). */
  logLines: 10_000,
  logBytes: 8 * MIB,
  logMessageCharacters: 16_384,
  /** A follower gives up on a runner after 6 s of silence; three heartbeats fit into that time. */
  heartbeatMs: 1_500,
  /** Ended attempts stay known, so that a replica that adopts a run still learns its outcome. */
  finishedAttempts: 1_000,
  finishedKeptMs: 600_000,
  /** One request message. The validation of a draft sends all its files in one message. */
  requestBytes: 128 * MIB,
  /** One text file of a pipeline (spec: Limits). */
  sourceBytes: 32 * MIB,
  /** Tables and zones that one template names. Each needs a lookup. */
  namesPerTemplate: 1_000,
  /** Quality tests outside any run. Their caller waits for the answer. */
  testsMs: 60_000,
  /** A preview, whose caller waits too. More previews wait for a slot, so that attempts do not wait for engines. */
  previewMs: 60_000,
  previewsAtOnce: 2,
  pythonPreviewsAtOnce: 2,
  /** A preview that gets no slot within this time is refused with its own message. */
  previewWaitMs: 30_000,
  /** Output of a user's Python code. It is part of the answer. */
  previewLogLines: 1_000,
  previewLogBytes: MIB,
  /** The first rows of a preview, at most 1,000, on the wire. */
  previewBytes: 16 * MIB,
  /** Closing an instance. An instance without work closes in 2 ms. */
  closeMs: 2_000,
  /** Runs of one engine process. Leaks of its libraries stay small, and many runs share the 0.4 s of a start. */
  runsPerEngine: 1_000,
  /** Text and table files of a run on the shared instance. Beyond these, a fresh instance costs less. */
  sharedTextCharacters: 65_536,
  sharedFiles: 64,
  /** Input of a run on the shared instance, which has the least memory. A fresh instance gets what is free. */
  sharedBytes: 64 * MIB,
  /** Callers that wait for an engine. Each attempt has its engine, so these are quality tests outside runs. */
  enginesAwaited: 64,
  /** Delay of the next interpreter's start after the run that took the last one has begun. */
  pythonSpareDelayMs: 50,
  /** One file that a Python pipeline writes, including its result. */
  pythonFileBytes: 4 * 1_024 * MIB,
  /** Number of files in its directory, and the interval between checks. PYTHON_DISK_LIMIT limits the bytes. */
  pythonDirectoryFiles: 100_000,
  pythonDirectoryCheckMs: 1_000,
  /** Calls of sql() in one run. Each result stays available until the run ends. */
  pythonRelations: 10_000,
  /** Concurrent checks of drafts before publishing that need an engine. */
  draftChecks: 2,
  /** Parsing the SQL of a draft, including the wait for an engine. */
  sqlCheckMs: 10_000,
  /** Compiling a source before publishing: concurrent checks, and time of one check. */
  pythonChecks: 2,
  pythonCheckMs: 10_000,
  /** Engines other than the warm one end after this idle time. */
  engineIdleMs: 60_000,
  /** Time for the open calls of a stopping runner to end. */
  drainMs: 3_000,
  /** Interval between the log lines about the progress of a statement. */
  progressMs: 5_000,
  /** Failing rows of a test that its log shows. */
  sampleRows: 3,
  /** Text of a test's value or of a watermark. The process that serves all runs reads it as a whole. */
  valueCharacters: 65_536,
} as const
