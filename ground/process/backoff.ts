export interface Backoff {
  /** The delay after the first failure. Each further failure doubles the delay. */
  firstMs: number
  limitMs: number
}

/** For a runner or a local process, which usually recovers soon. */
const NEAR: Backoff = { firstMs: 100, limitMs: 1_000 }

/** The delay before the next attempt, after `failures` consecutive failures. */
export const backoffMs = (failures: number, { firstMs, limitMs } = NEAR): number =>
  failures === 0 ? 0 : Math.min(limitMs, firstMs * 2 ** (failures - 1))
