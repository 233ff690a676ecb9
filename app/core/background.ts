/** The work beside requests, as the HTTP application sees it. What it is told are hints: losing one costs a moment. */
export interface Background {
  nudge(about: 'runRequested' | 'outbox'): void
  /** Tells the evaluator of triggers of an event. False: it does not work here. */
  eventRecorded(): boolean
  /** Null: it is switched off. `run` makes it tick and waits for the end of that. */
  reaper: { run(): Promise<void> } | null
}

/** The same, as the process that starts it sees it. */
export interface ProcessBackground extends Background {
  /** Begins the work, once. Hints before that are lost. */
  start(): void
  /** Ends its threads at once and has them started again: for operators, and for proof. */
  restart(): void
  stop(): Promise<void>
}
