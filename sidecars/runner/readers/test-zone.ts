// A landing zone on disk, and texts that read its files.
import { afterAll, beforeAll, expect } from 'bun:test'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Engine, openLocked } from '../../../lake/engine/instance.ts'
import { testDirectory } from '../../../tools/kit/directory.ts'
import { lookAtAll as lookIn } from './look-at-all.ts'

/** A zone for the tests of one file. In a text, ZONE stands for its directory. */
export function testZone() {
  const directory = testDirectory()
  const path = join(directory, 'landing', 'z')
  let engine: Engine
  beforeAll(async () => {
    engine = await openLocked({
      threads: 2,
      memoryLimitBytes: 400_000_000,
      tempLimitBytes: 100_000_000,
      tempDirectory: join(directory, 'spill'),
      allowedDirectories: [directory],
      allowedPaths: [],
    })
  })
  afterAll(() => engine.close())

  const lookAtAll = (sql: string, parameters?: ReadonlyMap<string, string>) =>
    lookIn(engine, sql, { parameters, known: new Map() })

  /** Fills the zone with these files, and returns its directory. */
  function zone(files: Readonly<Record<string, string | Uint8Array>>): string {
    rmSync(path, { recursive: true, force: true })
    mkdirSync(path, { recursive: true })
    for (const [name, content] of Object.entries(files)) writeFileSync(join(path, name), content)
    return path
  }

  async function rows(text: string) {
    const { sql, notes } = await lookAtAll(text.replaceAll('ZONE', path))
    const types = (await engine.describe(sql)).map(({ type }) => type)
    return {
      sql,
      types,
      rows: (await engine.read(sql)).getRowsJson(),
      warnings: notes.flatMap(({ level, text }) => (level === 'warn' ? text : [])),
    }
  }

  async function refused(text: string) {
    const failed = await rows(text).catch((error: unknown) => error)
    expect(failed).toBeInstanceOf(Error)
    return failed instanceof Error ? failed.message : ''
  }

  return { directory, zone, rows, refused, lookAtAll, engine: () => engine }
}

export const lines = (count: number, line: (at: number) => string) =>
  Array.from({ length: count }, (_, at) => `${line(at)}\n`).join('')
