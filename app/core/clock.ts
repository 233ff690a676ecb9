/** The only door to the time of day. */
export interface Clock {
  now(): Date
  /** Milliseconds that never run backwards, for durations. */
  elapsed(): number
}

export const systemClock: Clock = {
  now: () => new Date(),
  elapsed: () => performance.now(),
}
