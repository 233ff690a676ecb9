import { afterAll, beforeAll } from 'bun:test'

/**
 * Opens a resource before the first test of a file and closes it after the last. The members of the returned object are usable
 * only inside hooks and tests.
 */
export function duringTests<T extends { close(): unknown }>(open: () => Promise<T>): T {
  const opened = {} as T
  beforeAll(async () => void Object.assign(opened, await open()))
  afterAll(() => opened.close())
  return opened
}
