// Nothing grows without a bound (I8): every limit of the runner has its name and its reason here.

const MIB = 1_048_576

export const limits = {
  /** Log lines and bytes kept per attempt; one line then says how many were dropped (semantics: Logs). */
  logLines: 10_000,
  logBytes: 8 * MIB,
  logMessageCharacters: 16_384,
  /** A follower that hears nothing for 6 s gives the runner up: three of these fit into that. */
  heartbeatMs: 1_500,
  /** Ended attempts stay known, so that a replica which adopts a run still learns how it ended. */
  finishedKept: 1_000,
  finishedKeptMs: 600_000,
  /** One request message: a draft's files travel in it when it is validated. */
  requestBytes: 128 * MIB,
  /** One text file of a pipeline (spec: Limits). */
  sourceBytes: 32 * MIB,
  /** Tables and zones that one template names: each is looked up. */
  namesPerTemplate: 1_000,
  /** Quality tests run outside any run: their caller waits for the answer. */
  testsMs: 60_000,
  /** A preview's caller waits too. Others wait their turn: attempts are not to wait for engines that previews have. */
  previewMs: 60_000,
  previewsAtOnce: 2,
  pythonPreviewsAtOnce: 2,
  /** A turn that has not come by then is refused, in words of its own. */
  previewWaitMs: 30_000,
  /** What people's Python says goes into the answer. */
  previewLogLines: 1_000,
  previewLogBytes: MIB,
  /** Their first rows, at most 1,000, on the wire. */
  previewBytes: 16 * MIB,
  /** An instance that has done its work closes in 2 ms. */
  closeMs: 2_000,
  /** Runs of one engine process: what its libraries leak stays small, and what a start takes, 0.4 s, is shared by many. */
  runsPerEngine: 1_000,
  /** Texts of a run, and files of its tables, that an instance which is kept looks at: a fresh one costs less than more of them. */
  keptCharacters: 65_536,
  keptFiles: 64,
  /** Who waits for an engine; attempts have one each, so these are quality tests outside of runs. */
  enginesAwaited: 64,
  /** The next interpreter is started when the run that took the last one has begun. */
  pythonSpareDelayMs: 50,
  /** One file that a pipeline in Python writes, its result too. */
  pythonFileBytes: 4 * 1_024 * MIB,
  /** Files of its directory, and how often that is looked at (bytes: PYTHON_DISK_LIMIT). */
  pythonDirectoryFiles: 100_000,
  pythonDirectoryCheckMs: 1_000,
  /** Calls of sql() in one run: each stays known to its end. */
  pythonRelations: 10_000,
  /** Parsing the SQL of a draft before it is published: so many at once, and so long with the wait for an engine. */
  sqlChecks: 1,
  sqlCheckMs: 10_000,
  /** Compiling a source before it is published: so long, and so many at once. */
  pythonChecks: 2,
  pythonCheckMs: 10_000,
  /** Engines beyond the one kept warm end after this much idleness. */
  engineIdleMs: 60_000,
  /** What a stopping runner gives its calls to end. */
  drainMs: 3_000,
  /** Failing rows of a test that its log shows. */
  sampleRows: 3,
  /** Text of the value of a test, or of a watermark: the process that serves all runs reads it as a whole. */
  valueCharacters: 65_536,
  /** Local copies of objects, when the lake is not on a shared disk. */
  cacheBytes: 4_096 * MIB,
} as const
