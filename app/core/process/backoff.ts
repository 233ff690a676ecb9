export interface Backoff {
  /** The wait after the first failure; each further one doubles it. */
  firstMs: number
  limitMs: number
}

/** For a runner or a process beside this one, which is most often back soon. */
const NEAR: Backoff = { firstMs: 100, limitMs: 1_000 }

/** How long to wait before the next try, after so many failures in a row. */
export const backoffMs = (failures: number, { firstMs, limitMs } = NEAR): number =>
  failures === 0 ? 0 : Math.min(limitMs, firstMs * 2 ** (failures - 1))
