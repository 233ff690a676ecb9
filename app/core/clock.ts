/** The only access to the time of day. */
export interface Clock {
  now(): Date
  /** Monotonic milliseconds, for durations. */
  elapsed(): number
}

export const systemClock: Clock = {
  now: () => new Date(),
  elapsed: () => performance.now(),
}
