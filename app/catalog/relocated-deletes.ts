// Writes copies of position delete files for another root of the lake. The engine is loaded for them only.
import { createWriteStream } from 'node:fs'
import { mkdtemp, open, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { EngineError } from '../../lake/engine/error.ts'
import type { Engine } from '../../lake/engine/instance.ts'
import { keyIn } from '../../lake/iceberg/format/location.ts'
import { copyLocation, type DeletesCopy } from '../../lake/iceberg/format/relocated.ts'
import { relocatePositionsSql } from '../../lake/iceberg/write/relocated-positions.ts'
import type { ObjectStore } from '../objects/port.ts'

const MIB = 1_048_576
/** A file with more positions is sorted on the disk. One thread writes the same bytes each time. */
const ENGINE = { memoryLimitBytes: 256 * MIB, threads: 1, tempLimitBytes: 4_096 * MIB }

/** Null: the file is lost, or no position delete file. */
export async function copyPositionDeletes(
  objects: ObjectStore,
  root: string,
  location: string,
): Promise<DeletesCopy | null> {
  const found = await objects.get(keyIn(location))
  if (found === null) return null
  const directory = await mkdtemp(join(tmpdir(), 'sluice-conversion-'))
  try {
    const [from, to] = [join(directory, 'old.parquet'), join(directory, 'new.parquet')]
    await pipeline(Readable.from(found.body), createWriteStream(from))
    const bounds = await rewritten({ from, to, root, directory })
    if (bounds === null) return null
    const [first, last] = bounds
    const copy = copyLocation(root, location)
    await objects.put(keyIn(copy), chunksIn(to), { usesReserve: true })
    return { location: copy, sizeBytes: (await stat(to)).size, first, last }
  } finally {
    await rm(directory, { recursive: true })
  }
}

/** The first and the last location. Null: the file is no position delete file. */
async function rewritten(files: {
  from: string
  to: string
  root: string
  directory: string
}): Promise<[first: string, last: string] | null> {
  const { openLocked } = await import('../../lake/engine/instance.ts')
  const { directory } = files
  const engine = await openLocked({
    ...ENGINE,
    tempDirectory: join(directory, 'spill'),
    allowedDirectories: [directory],
    allowedPaths: [],
  })
  try {
    const { check, copy, bounds } = relocatePositionsSql(files)
    if (!(await isReadable(engine, check))) return null
    await engine.run(copy)
    const [row] = (await engine.read(bounds)).getRows()
    return [String(row?.[0] ?? ''), String(row?.[1] ?? '')]
  } finally {
    engine.close()
  }
}

async function isReadable(engine: Engine, check: string): Promise<boolean> {
  try {
    await engine.run(check)
    return true
  } catch (error) {
    if (error instanceof EngineError && error.kind === 'other') return false
    throw error
  }
}

async function* chunksIn(path: string): AsyncGenerator<Uint8Array> {
  const file = await open(path)
  try {
    for await (const chunk of file.createReadStream({ autoClose: false })) yield chunk
  } finally {
    await file.close()
  }
}
