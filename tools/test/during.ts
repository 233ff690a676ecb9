import { afterAll, beforeAll } from 'bun:test'

/** Opens something before the first test of a file, and closes it after the last. Its members are there from then on. */
export function duringTests<T extends { close(): unknown }>(open: () => Promise<T>): T {
  const opened = {} as T
  beforeAll(async () => void Object.assign(opened, await open()))
  afterAll(() => opened.close())
  return opened
}
