import { expect } from '@playwright/test'

/** Most facts are true within milliseconds, so the first polls follow closely. Playwright's own intervals grow to a second. */
const INTERVALS = [20, 50, 100, 200]

/** Asks again until the matcher accepts the answer: `await eventually(ask).toBe(3)`. */
export const eventually = <Answer>(ask: () => Answer | Promise<Answer>) =>
  expect.poll(ask, { intervals: INTERVALS })
