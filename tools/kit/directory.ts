import { afterAll } from 'bun:test'
import { mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Creates a directory for the tests of a file or of a `describe`, and removes the directory after these tests. */
export function testDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-test-'))
  afterAll(() => rm(directory, { recursive: true, force: true }))
  return directory
}
