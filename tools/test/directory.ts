import { afterAll } from 'bun:test'
import { mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A new directory for the tests of a file or of a `describe`. It is removed after them. */
export function testDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-test-'))
  afterAll(() => rm(directory, { recursive: true, force: true }))
  return directory
}
